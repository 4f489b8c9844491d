// The caller's own exchange: whatever it fills into the places of others.
#include "bootstrap/callback.hpp"

#include <algorithm>
#include <span>

#include "bootstrap/launcher_protocol.hpp"

#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::bootstrap;

namespace {

constexpr std::uint32_t kRanks = 3;

int exchange(void* argument, const void* mine, std::size_t bytes, void* all) {
    auto& input = *static_cast<fuzz::Input*>(argument);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        auto* const place = static_cast<std::byte*>(all) + rank * bytes;
        std::memcpy(place, mine, bytes);
        // A rank that plays by the rules differs in its number; what the input says comes on top.
        if (bytes == 512) std::memcpy(place + 12, &rank, sizeof rank);
        if (rank == 1) continue;
        const auto at = input.number<std::uint16_t>();
        const auto change = input.take(input.number<std::uint8_t>());
        if (at < bytes) std::memcpy(place + at, change.data(), std::min<std::size_t>(change.size(), bytes - at));
    }
    return input.number<std::uint8_t>() == 255 ? 1 : 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto made = CallbackBootstrap::create(&exchange, &input, Rank(1), kRanks);
    FUZZ_CHECK(made.has_value());
    std::byte bytes[600] = {};
    std::ranges::fill(bytes, std::byte{3});
    for (int round = 0; round < 3; ++round) {
        const std::span<const std::byte> mine(bytes, round == 1 ? sizeof bytes : 3);  // in two calls, and in one
        const auto all = (*made)->allgather(mine, 0);
        if (!all) return 0;
        FUZZ_CHECK(all->size() == kRanks && fuzz::same((*all)[1], mine));
        for (const auto& entry : *all)
            FUZZ_CHECK(entry.size() <= kMaxBlob);
    }
    return 0;
}
