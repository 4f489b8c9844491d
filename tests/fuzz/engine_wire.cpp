// The header in front of every message between two ranks of a group.
#include "engine/wire/wire.hpp"

#include "fuzz.hpp"

using namespace coppice;

namespace {

// What is recognized by a header that was right would have been found right, too, and be read as the same.
void check_familiar(const engine::WireHeader& header, std::size_t payload_length, const engine::GroupId& group) {
    engine::Familiar familiar;
    familiar.is(header, payload_length);
    std::vector<std::byte> next = fuzz::exact(engine::encode(header));
    for (std::size_t at = 0; at < next.size(); ++at) {
        next[at] ^= static_cast<std::byte>(header.sequence + at);
        const engine::WireHeader* const known = familiar.recognize(next, payload_length);
        const auto read = engine::decode(next, payload_length, group);
        FUZZ_CHECK(known == nullptr || (read && fuzz::same(engine::encode(*known), next)));
        if (at % 2 == 0) next[at] ^= static_cast<std::byte>(header.sequence + at);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto payload_length = input.number<std::uint16_t>();
    const std::vector<std::byte> bytes = fuzz::exact(input.rest());
    engine::WireHeader raw;
    if (!bytes.empty()) std::memcpy(&raw, bytes.data(), std::min(bytes.size(), sizeof raw));
    // Of the group that it names itself, else no input would be of the group.
    const engine::GroupId group{raw.token, Epoch(raw.epoch)};
    const auto header = engine::decode(bytes, payload_length, group);
    if (!header) return 0;
    FUZZ_CHECK((header->length & ~engine::kDescribed) == payload_length);
    const engine::Encoded again = engine::encode(*header);
    FUZZ_CHECK(fuzz::same(again, bytes));
    FUZZ_CHECK(!engine::decode(bytes, payload_length, {raw.token + 1, group.epoch}));
    check_familiar(*header, payload_length, group);
    return 0;
}
