#include "perf/latency.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "bootstrap/choose.hpp"
#include "engine/settings.hpp"
#include "measure.h"
#include "perf/pair.hpp"

namespace perf {

namespace {

using coppice::Rank;

constexpr std::size_t kHeader = 40;  // as the engine's

// Back and forth; `halves_us` gets half of each round trip. False: the other rank died, or the deadline passed.
bool ping_pong(Pair& pair, const LatencySettings& settings, std::vector<double>& halves_us) {
    std::array<std::byte, kHeader> header{};
    const std::vector<std::byte> payload(settings.bytes, std::byte{0x5a});
    if (!payload.empty()) (void)pair.wire().register_memory(payload);
    const bool begins = pair.self() == coppice::Seat(0);
    const std::uint64_t all = settings.warmup + settings.iterations;
    std::uint64_t end = UINT64_MAX;
    for (std::uint64_t i = 0; i < all && !pair.arrivals().last; ++i) {
        const std::uint64_t start = measure_now();
        if (i == settings.warmup && settings.for_s > 0) end = start + static_cast<std::uint64_t>(settings.for_s * 1e9);
        // Rank 0 says that time is over, and rank 1 says it back.
        if (begins && start >= end) header[0] = Arrivals::kLast;
        if (begins && !pair.send(header, payload, settings.one_sided)) return false;
        if (!pair.receive(i + 1)) return false;
        if (!begins && pair.arrivals().last) header[0] = Arrivals::kLast;
        if (!begins && !pair.send(header, payload, settings.one_sided)) return false;
        if (i >= settings.warmup) halves_us.push_back(static_cast<double>(measure_now() - start) / 2e3);
    }
    return pair.leave();
}

int complain(const std::string& message, int code) {
    fmt::print(stderr, "coppice-perf: {}\n", message);
    return code;
}

}  // namespace

int run_latency(const LatencySettings& settings, double timeout_s) {
    const auto parsed = coppice::engine::parse(coppice::engine::SettingTexts());
    if (!parsed) return complain(parsed.error().message, kExitUsage);
    const std::uint64_t deadline = measure_now() + static_cast<std::uint64_t>((timeout_s + settings.for_s) * 1e9);
    auto exchange = coppice::bootstrap::choose(nullptr, nullptr, Rank(0), 0, parsed->bootstrap, deadline);
    if (!exchange) return complain(exchange.error().message, kExitFailed);
    if ((*exchange)->size() != 2) return complain("a ping-pong needs two ranks: coppice-run -n 2", kExitUsage);
    const auto pair = Pair::connect(**exchange, *parsed, settings.transport, 0, 1, deadline);
    if (!pair) return complain(pair.error().message, kExitFailed);

    const Rank self = (*exchange)->rank();
    measure_pin(self.value);
    std::vector<double> halves;
    halves.reserve(settings.iterations);
    if (!ping_pong(**pair, settings, halves))
        return complain(fmt::format("rank {}: the other rank is gone, or took too long; {}", self.value,
                                    (*pair)->wire().last_error()),
                        kExitFailed);
    if (self == Rank(1)) return kExitOk;
    fmt::print("# coppice {} {} over {}: half of a round trip\n{}\n", COPPICE_VERSION,
               settings.one_sided ? "put_lat" : "send_lat", settings.transport, MEASURE_HEADINGS);
    const measure_stats_t stats = measure_statistics(halves.data(), halves.size());
    measure_print(stdout, settings.bytes, &stats);
    fmt::print("\n");
    return kExitOk;
}

}  // namespace perf
