#include "transport/tcp/wire.hpp"

#include <algorithm>
#include <cstring>

namespace coppice::transport::tcp {

Parsed parse_frame(std::span<const std::byte> bytes, Frame& frame) {
    frame.length = 0;
    frame.header = frame.payload = {};
    if (bytes.size() < sizeof(FrameHead)) return Parsed::partial;
    std::memcpy(&frame.head, bytes.data(), sizeof(FrameHead));
    const FrameHead& head = frame.head;
    const bool known = head.kind >= Kind::data && head.kind <= Kind::fenced;
    const bool empty = head.payload_size == 0 && head.header_size == 0;
    if (!known || head.payload_size > kMaxLarge || head.header_size > kMaxHeader || (!costs(head.kind) && !empty))
        return Parsed::garbage;
    const std::size_t before = sizeof(FrameHead) + head.header_size;
    frame.length = before + head.payload_size;
    if (bytes.size() < before) return Parsed::partial;
    frame.header = bytes.subspan(sizeof(FrameHead), head.header_size);
    frame.payload = bytes.subspan(before, std::min<std::size_t>(bytes.size() - before, head.payload_size));
    return bytes.size() < frame.length ? Parsed::partial : Parsed::frame;
}

}  // namespace coppice::transport::tcp
