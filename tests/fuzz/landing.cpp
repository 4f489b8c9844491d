// A landing slot, into which a peer writes what it likes, when it likes.
#include "transport/landing.hpp"

#include "fuzz.hpp"

using namespace coppice::transport;
using namespace coppice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::uint16_t kSlots = 2;
    constexpr std::uint32_t kSeed = 7;
    fuzz::Input input(data, size);
    alignas(64) static std::byte memory[kSlots * kSlotStride];
    std::memset(memory, 0, sizeof memory);
    Landing landing;
    landing.attach(memory, kSlots, kSeed);
    while (!input.empty()) {
        const auto command = input.number<std::uint8_t>();
        std::byte* const slot = memory + (command & 1) * kSlotStride;
        const auto at = input.number<std::uint16_t>() % kSlotStride;
        const auto bytes = input.take(std::min<std::size_t>(input.number<std::uint8_t>(), kSlotStride - at));
        if (!bytes.empty()) std::memcpy(slot + at, bytes.data(), bytes.size());
        if ((command & 2) != 0) {  // make it prove itself, as far as its sizes let it
            SlotPrefix prefix;
            std::memcpy(&prefix, slot, sizeof prefix);
            prefix.stamp = landing.consumed() + 1;
            if (fits(prefix, std::size_t{prefix.header_size} + prefix.payload_size + sizeof prefix) ||
                fits(prefix, kLine + prefix.payload_size)) {
                seal(prefix, kSeed, {slot + sizeof prefix, prefix.header_size}, {slot + kLine, prefix.payload_size});
                std::memcpy(slot, &prefix, sizeof prefix);
            }
        }
        Landing::View view;
        static_cast<void>(landing.changed());
        if (landing.peek(view) != Landing::Found::message) continue;
        FUZZ_CHECK(view.prefix.header_size <= kMaxHeader && view.payload.size() <= kMaxPayload);
        FUZZ_CHECK(fuzz::within(view.payload, memory));
        landing.advance();
    }
    return 0;
}
