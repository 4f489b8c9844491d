#include "perf/latency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "bootstrap/choose.hpp"
#include "engine/group_secret.hpp"
#include "engine/settings.hpp"
#include "measure.h"

namespace perf {

namespace {

using coppice::Rank;
using coppice::Result;
namespace transport = coppice::transport;

constexpr std::uint64_t kToken = 0x70657266'6c617431U;
constexpr std::size_t kHeader = 40;  // as the engine's
constexpr std::byte kLast{1};        // its first byte: no round trip comes after this one

class Counter final : public transport::Receiver {
  public:
    bool message(Rank, std::span<const std::byte> header, std::span<const std::byte>, transport::Buffer) override {
        ++messages;
        last = !header.empty() && header[0] == kLast;
        return false;
    }
    void peer_failed(Rank, transport::FailureCause) override { failed = true; }

    std::uint64_t messages = 0;
    bool last = false;
    bool failed = false;
};

Result<std::unique_ptr<transport::Transport>> make_transport(const std::string& name,
                                                             const coppice::engine::Settings& settings, Rank self,
                                                             const transport::GroupSecret& secret) {
    const auto choice =
        std::ranges::find_if(settings.transports, [&name](const auto& one) { return one.transport->name == name; });
    auto made = choice->maker->make({.self = self, .group_token = kToken, .secret = secret});
    if (!made) return tl::unexpected(std::move(made.error()));
    return std::move(made->transport);
}

class PingPong {
  public:
    PingPong(transport::Transport& wire, const LatencySettings& settings, Rank self, std::uint64_t deadline_ns)
        : wire_(wire),
          settings_(settings),
          self_(self),
          deadline_ns_(deadline_ns),
          payload_(settings.bytes, std::byte{0x5a}) {
        if (!payload_.empty()) (void)wire_.register_memory(payload_);
    }

    // False: the other rank died, or the deadline passed.
    bool run(std::vector<double>& halves_us) {
        const std::uint64_t all = settings_.warmup + settings_.iterations;
        std::uint64_t end = UINT64_MAX;
        for (std::uint64_t i = 0; i < all && !counter_.last; ++i) {
            const std::uint64_t start = measure_now();
            if (i == settings_.warmup && settings_.for_s > 0)
                end = start + static_cast<std::uint64_t>(settings_.for_s * 1e9);
            // Rank 0 says that time is over, and rank 1 says it back.
            if (self_ == Rank(0) && start >= end) header_[0] = kLast;
            if (self_ == Rank(0) && !send()) return false;
            if (!receive(i + 1)) return false;
            if (self_ == Rank(1) && counter_.last) header_[0] = kLast;
            if (self_ == Rank(1) && !send()) return false;
            if (i >= settings_.warmup) halves_us.push_back(static_cast<double>(measure_now() - start) / 2e3);
        }
        while (in_flight_ > 0 || !wire_.leave())
            if (!move()) return false;
        return true;
    }

  private:
    bool move() {
        wire_.poll(counter_);
        if ((++polls_ & 0xfff) == 0 && measure_now() > deadline_ns_) return false;
        return !counter_.failed;
    }
    bool send() {
        const Rank other(1 - self_.value);
        while (true) {
            const auto status = settings_.one_sided ? wire_.write(other, header_, payload_, &in_flight_)
                                                    : wire_.send(other, header_, payload_, &in_flight_);
            if (status != transport::SendStatus::again) return status == transport::SendStatus::sent;
            if (!move()) return false;
        }
    }
    bool receive(std::uint64_t count) {
        while (counter_.messages < count)
            if (!move()) return false;
        return true;
    }

    transport::Transport& wire_;
    const LatencySettings& settings_;
    Rank self_;
    std::uint64_t deadline_ns_;
    std::vector<std::byte> payload_;
    std::array<std::byte, kHeader> header_{};
    std::uint32_t in_flight_ = 0;
    std::uint32_t polls_ = 0;
    Counter counter_;
};

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
    const Rank self = (*exchange)->rank();
    const Rank other(1 - self.value);
    const auto nonce = coppice::engine::draw_nonce();
    if (!nonce) return complain(nonce.error().message, kExitFailed);
    const auto nonces = (*exchange)->allgather(std::as_bytes(std::span(*nonce)), deadline);
    if (!nonces) return complain(nonces.error().message, kExitFailed);
    std::vector<std::string> words;
    for (const auto& bytes : *nonces)
        words.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    auto wire = make_transport(settings.transport, *parsed, self, coppice::engine::derive_secret(words));
    if (!wire) return complain(wire.error().message, kExitFailed);
    const auto addresses = (*exchange)->allgather((*wire)->address(), deadline);
    if (!addresses) return complain(addresses.error().message, kExitFailed);
    if (auto added = (*wire)->add_peer(other, (*addresses)[other.value]); !added)
        return complain(added.error().message, kExitFailed);
    // Neither sends before the other knows which rank to expect.
    const std::byte ready{1};
    if (auto all = (*exchange)->allgather(std::span(&ready, 1), deadline); !all)
        return complain(all.error().message, kExitFailed);

    measure_pin(self.value);
    std::vector<double> halves;
    halves.reserve(settings.iterations);
    if (!PingPong(**wire, settings, self, deadline).run(halves))
        return complain(
            fmt::format("rank {}: the other rank is gone, or took too long; {}", self.value, (*wire)->last_error()),
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
