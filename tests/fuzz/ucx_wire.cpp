// What the UCX transport reads in front of the engine's messages.
#include "fuzz.hpp"
#include "transport/ucx/wire.hpp"

using namespace coppice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto payload_size = input.number<std::uint32_t>();
    const std::vector<std::byte> header = fuzz::exact(input.rest());
    // The group's token is in the header: else no input would ever be of the group.
    std::uint64_t token = 0;
    if (header.size() >= sizeof token) std::memcpy(&token, header.data(), sizeof token);
    if (const auto prefix = transport::ucx::parse_prefix(header, payload_size, token, 64)) {
        FUZZ_CHECK(prefix->from < 64 && payload_size <= transport::kMaxPayload);
        FUZZ_CHECK(sizeof *prefix + prefix->header_size == header.size() &&
                   prefix->header_size <= transport::kMaxHeader);
        FUZZ_CHECK(!transport::ucx::parse_prefix(header, payload_size, token + 1, 64));
    }
    if (const auto offer = transport::ucx::parse_offer(header, payload_size))
        FUZZ_CHECK(offer->slots >= 1 && offer->slots <= transport::ucx::kMaxSlots &&
                   payload_size <= transport::ucx::kMaxKey);
    if (transport::ucx::parse_count(header)) FUZZ_CHECK(header.size() == 4);
    return 0;
}
