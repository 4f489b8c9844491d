// A transport set over a wire that notes what it is asked for, with groups that note what they are told.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/transport_set.hpp"

namespace coppice::engine {

inline constexpr std::uint32_t kRanks = 4;
inline constexpr Seat kPeer{2};

// Notes which ranks it is to cut off.
class Wire : public transport::Transport {
  public:
    std::vector<Seat> fenced;
    std::vector<Seat> forgotten;
    transport::SendStatus answer = transport::SendStatus::sent;
    std::vector<Seat> sent_to;
    std::vector<WireHeader> sent;
    std::function<void(transport::Receiver&)> next_poll;
    int sleeps_on = -1;
    std::uint32_t armed = 0;  // so often

    const transport::Capabilities& capabilities() const override { return capabilities_; }
    transport::Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {}; }
    Result<void> add_peer(Seat, std::span<const std::byte>) override { return {}; }
    void watch(Seat) override {}
    transport::SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte>,
                               std::uint32_t*) override {
        if (answer != transport::SendStatus::sent) return answer;
        sent_to.push_back(to);
        std::memcpy(&sent.emplace_back(), header.data(), header.size());
        return answer;
    }
    transport::SendStatus write(Seat, std::span<const std::byte>, std::span<const std::byte>, std::uint32_t*) override {
        return transport::SendStatus::sent;
    }
    std::size_t poll(transport::Receiver& receiver) override {
        if (next_poll) std::exchange(next_poll, nullptr)(receiver);
        return 0;
    }
    int arm() override {
        ++armed;
        return sleeps_on;
    }
    void release(transport::Buffer) override {}
    void fence(Seat peer) override { fenced.push_back(peer); }
    void forget(Seat peer) override { forgotten.push_back(peer); }
    bool leave() override { return true; }

  protected:
    transport::Capabilities capabilities_{.name = "wire", .inline_size = transport::kMaxPayload};
};

class SomeGroup final : public SetUser {
  public:
    std::set<Seat> dead;  // or gone
    std::set<Seat> vacated;
    std::vector<Seat> heard;
    std::vector<Seat> failed;
    std::uint32_t last_epoch = UINT32_MAX;

    bool is_done_with(Seat there) const override { return dead.contains(there); }
    bool message(Seat from, std::span<const std::byte>, std::span<const std::byte>, transport::Buffer) override {
        heard.push_back(from);
        return false;
    }
    void peer_failed(Seat peer, transport::FailureCause) override {
        dead.insert(peer);
        failed.push_back(peer);
    }
    void peer_left(Seat peer) override { dead.insert(peer); }
    void seat_vacated(Seat seat) override { vacated.insert(seat); }
    bool may_precede(Epoch epoch) const override { return epoch.value > last_epoch; }
    void transports_end() override {}
    void fenced(Seat) override {}
    void alive(Seat) override {}
};

// What a launcher says of deaths.
class SomeReports final : public bootstrap::Reports {
  public:
    SomeReports() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~SomeReports() override { ::close(bell_); }
    SomeReports(const SomeReports&) = delete;
    SomeReports& operator=(const SomeReports&) = delete;
    int descriptor() const override { return bell_; }
    std::vector<Rank> take() override {
        std::uint64_t rung = 0;
        if (::read(bell_, &rung, sizeof rung) != sizeof rung) return {};
        return std::exchange(news_, {});
    }
    void say(Rank rank) {
        news_.push_back(rank);
        const std::uint64_t one = 1;
        if (::write(bell_, &one, sizeof one) != sizeof one) throw std::runtime_error("no bell");
    }

  private:
    int bell_;
    std::vector<Rank> news_;
};

struct Set {
    TransportSet groups{kRanks};
    Wire* wire = nullptr;
    SomeReports* reports = nullptr;
    SomeGroup first;
    SomeGroup second;

    Set() {
        auto made = std::make_unique<Wire>();
        wire = made.get();
        const std::uint8_t index = groups.add(std::move(made));
        for (std::uint32_t peer = 0; peer < kRanks; ++peer)
            groups.route(Seat(peer), index);
        groups.attach(1, first);
    }
    void suspect(SomeGroup& group) {
        group.dead.insert(kPeer);
        groups.fence(kPeer);
    }
    // What the wire has to say is heard.
    void hear(std::function<void(transport::Receiver&)> what) {
        wire->next_poll = std::move(what);
        groups.poll();
    }
    // Of the launcher's word for a death.
    void report(Seat peer) {
        if (reports == nullptr) {
            auto made = std::make_unique<SomeReports>();
            reports = made.get();
            groups.heed(std::move(made));
        }
        reports->say(Rank(peer.value));
        groups.arm();
        groups.poll();
    }
    bool is_cut_off() const { return wire->fenced == std::vector<Seat>{kPeer}; }
};

inline void say(transport::Receiver& set, std::uint32_t token, std::uint32_t epoch) {
    const WireHeader header{.token = token, .tag = {Channel::members, MembersKind::failure_notice}, .epoch = epoch};
    set.message(kPeer, encode(header), {}, 0);
}

}  // namespace coppice::engine
