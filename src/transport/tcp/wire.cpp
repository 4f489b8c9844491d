#include "transport/tcp/wire.hpp"

#include <cstring>

namespace coppice::transport::tcp {

Parsed parse_frame(std::span<const std::byte> bytes, Frame& frame) {
    if (bytes.size() < sizeof(FrameHead)) return Parsed::partial;
    std::memcpy(&frame.head, bytes.data(), sizeof(FrameHead));
    const FrameHead& head = frame.head;
    const bool known = head.kind >= Kind::data && head.kind <= Kind::fenced;
    const bool empty = head.payload_size == 0 && head.header_size == 0;
    if (!known || head.payload_size > kMaxPayload || head.header_size > kMaxHeader || (!costs(head.kind) && !empty))
        return Parsed::garbage;
    frame.length = sizeof(FrameHead) + head.header_size + head.payload_size;
    if (bytes.size() < frame.length) return Parsed::partial;
    frame.header = bytes.subspan(sizeof(FrameHead), head.header_size);
    frame.payload = bytes.subspan(sizeof(FrameHead) + head.header_size, head.payload_size);
    return Parsed::frame;
}

}  // namespace coppice::transport::tcp
