#include "perf/pair.hpp"

#include <algorithm>

#include "engine/formation/group_secret.hpp"
#include "measure.h"

namespace perf {

using coppice::Result;
using coppice::Seat;
namespace transport = coppice::transport;

namespace {

constexpr std::uint64_t kToken = 0x70657266'6c617431U;

Result<std::unique_ptr<transport::Transport>> make_transport(const std::string& name,
                                                             const coppice::engine::Settings& settings, Seat self,
                                                             const transport::GroupSecret& secret) {
    const auto choice =
        std::ranges::find_if(settings.transports, [&name](const auto& one) { return one.transport->name == name; });
    auto made = choice->maker->make({.self = self, .group_token = kToken, .secret = secret, .host = settings.host});
    if (!made) return tl::unexpected(std::move(made.error()));
    return std::move(made->transport);
}

}  // namespace

Result<std::unique_ptr<Pair>> Pair::connect(coppice::bootstrap::Bootstrap& exchange,
                                            const coppice::engine::Settings& settings, const std::string& name,
                                            std::uint32_t first, std::uint32_t second, std::uint64_t deadline_ns) {
    const bool takes_part = exchange.rank().value == first || exchange.rank().value == second;
    const Seat self(exchange.rank().value == first ? 0 : 1);
    const auto nonce = coppice::engine::draw_nonce();
    if (!nonce) return tl::unexpected(nonce.error());
    const auto nonces = exchange.allgather(std::as_bytes(std::span(*nonce)), deadline_ns);
    if (!nonces) return tl::unexpected(nonces.error());
    std::vector<std::string> words;
    for (const auto& bytes : *nonces)
        words.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());

    std::unique_ptr<Pair> pair;
    std::vector<std::byte> address;
    if (takes_part) {
        auto wire = make_transport(name, settings, self, coppice::engine::derive_secret(words));
        if (!wire) return tl::unexpected(wire.error());
        address = (*wire)->address();
        pair.reset(new Pair(self, std::move(*wire), deadline_ns));
    }
    const auto addresses = exchange.allgather(address, deadline_ns);
    if (!addresses) return tl::unexpected(addresses.error());
    if (takes_part) {
        const std::uint32_t peer = self == Seat(0) ? second : first;
        const auto& others = (*addresses)[peer];
        if (others.empty()) return coppice::fail(COPPICE_ERR_PEER_FAILED, "rank {} is gone", peer);
        if (auto added = pair->wire().add_peer(Seat(1 - self.value), others); !added)
            return tl::unexpected(added.error());
    }
    // Neither sends before the other knows which rank to expect.
    const std::byte ready{1};
    if (auto all = exchange.allgather(std::span(&ready, 1), deadline_ns); !all) return tl::unexpected(all.error());
    return pair;
}

bool Pair::move() {
    wire_->poll(arrivals_);
    if ((++polls_ & 0xfff) == 0 && measure_now() > deadline_ns_) return false;
    return !arrivals_.failed;
}

bool Pair::send(std::span<const std::byte> header, std::span<const std::byte> payload, bool one_sided) {
    const Seat other(1 - self_.value);
    while (true) {
        const auto status = one_sided ? wire_->write(other, header, payload, &in_flight_)
                                      : wire_->send(other, header, payload, &in_flight_);
        if (status != transport::SendStatus::again) return status == transport::SendStatus::sent;
        if (!move()) return false;
    }
}

bool Pair::receive(std::uint64_t count) {
    while (arrivals_.messages < count)
        if (!move()) return false;
    return true;
}

bool Pair::leave() {
    while (in_flight_ > 0 || !wire_->leave())
        if (!move()) return false;
    return true;
}

}  // namespace perf
