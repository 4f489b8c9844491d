#include "simulation/explore/membership_clock.hpp"

#include <algorithm>
#include <memory>
#include <queue>
#include <utility>

#include "protocol/membership/membership.hpp"

namespace coppice::simulation {

using protocol::LastVote;
using protocol::Membership;
using protocol::MembershipMessage;
using protocol::Phase;
using protocol::Process;
using protocol::RadixTree;

namespace {

struct Due {
    double at;
    std::uint64_t turn;
    std::uint32_t slot;
    bool operator<(const Due& other) const { return at != other.at ? at > other.at : turn > other.turn; }
};

class Clock {
  public:
    explicit Clock(const MembershipSetup& setup) : setup_(setup) {
        plan_ = {.first = protocol::View(setup.ranks), .radix_bits = setup.radix_bits};
        for (const std::uint32_t rank : setup.dead)
            dead_.insert(rank);
        machines_.reserve(setup.ranks);
        if (setup.network.send_us > 0) busy_until_.resize(setup.ranks);
        for (std::uint32_t rank = 0; rank < setup.ranks; ++rank)
            machines_.emplace_back(plan_, Process(rank));
    }

    MembershipTime run() {
        const RadixTree tree(setup_.radix_bits, setup_.ranks);
        root_ = tree.root(dead_);
        time_.height = tree.height();
        if (root_ == RadixTree::kNobody) return time_;
        const LastVote nothing;
        for (const protocol::FailedSet::Interval& run : dead_.intervals()) {
            for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
                machines_[root_].peer_failed(Process(rank), &nothing);
        }
        for (std::uint32_t rank = 0; rank < setup_.ranks; ++rank)
            if (!dead_.contains(rank)) machines_[rank].renew();
        pull(root_, setup_.compute_us);
        while (!due_.empty()) {
            const Due next = due_.top();
            due_.pop();
            deliver(next);
        }
        check();
        return time_;
    }

  private:
    void pull(std::uint32_t rank, double now) {
        while (auto message = machines_[rank].next_send()) {
            ++time_.messages;
            const std::uint32_t to = message->to.value;
            const double sent = leave(rank, now);
            if (!dead_.contains(to)) due_.push({arrival(rank, to, sent), turns_++, keep(std::move(*message))});
        }
        if (machines_[rank].epoch() == 0) return;
        if (rank == root_ && time_.stable_us == 0) time_.stable_us = now;
        time_.told_us = std::max(time_.told_us, now);
    }

    // Messages to the dead keep a member busy, too.
    double leave(std::uint32_t from, double now) {
        if (setup_.network.send_us == 0) return now;
        busy_until_[from] = std::max(busy_until_[from], now) + setup_.network.send_us;
        return busy_until_[from];
    }

    double arrival(std::uint32_t from, std::uint32_t to, double now) {
        const MembershipNetwork& network = setup_.network;
        switch (network.kind) {
            case MembershipNetwork::Kind::torus:
                return now + network.latency_us * network.hops(from, to);
            case MembershipNetwork::Kind::one_switch:
                free_at_ = std::max(now + network.latency_us - network.switch_us, free_at_) + network.switch_us;
                return free_at_;
            default:
                return now + network.latency_us;
        }
    }

    std::uint32_t keep(MembershipMessage message) {
        if (free_.empty()) {
            under_way_.push_back(std::make_unique<MembershipMessage>(std::move(message)));
            return static_cast<std::uint32_t>(under_way_.size() - 1);
        }
        const std::uint32_t slot = free_.back();
        free_.pop_back();
        *under_way_[slot] = std::move(message);
        return slot;
    }

    void deliver(const Due& due) {
        const MembershipMessage& message = *under_way_[due.slot];
        const std::uint32_t to = message.to.value;
        const bool is_order = order_of(message.kind) != Phase::idle;
        machines_[to].receive(message);
        free_.push_back(due.slot);
        pull(to, is_order ? due.at + setup_.compute_us : due.at);
    }

    void check() {
        time_.agreed = true;
        time_.members = machines_[root_].view().count();
        for (std::uint32_t rank = 0; rank < setup_.ranks; ++rank) {
            if (dead_.contains(rank)) continue;
            const bool is_same = machines_[rank].epoch() == 1 && machines_[rank].view() == machines_[root_].view();
            time_.agreed = time_.agreed && is_same;
        }
    }

    const MembershipSetup& setup_;
    protocol::MembershipPlan plan_;
    protocol::FailedSet dead_;
    std::vector<Membership> machines_;
    std::uint32_t root_ = 0;
    std::vector<std::unique_ptr<MembershipMessage>> under_way_;
    std::vector<std::uint32_t> free_;
    std::priority_queue<Due> due_;
    std::uint64_t turns_ = 0;
    double free_at_ = 0;
    std::vector<double> busy_until_;  // by member; empty where sending costs nothing
    MembershipTime time_;
};

std::uint32_t height_of(const MembershipSetup& setup) {
    return RadixTree(setup.radix_bits, setup.ranks).height();
}

double with_compute(const MembershipSetup& setup, double communication) {
    return communication + setup.compute_us * height_of(setup);
}

// The largest distance between a parent and its child, summed up over the levels.
double distances(const MembershipSetup& setup) {
    const RadixTree tree(setup.radix_bits, setup.ranks);
    std::vector<std::uint32_t> largest(tree.height(), 0);
    for (std::uint32_t rank = 1; rank < setup.ranks; ++rank) {
        std::uint32_t& at = largest[tree.level(rank)];
        at = std::max(at, setup.network.hops(tree.parent(rank), rank));
    }
    double sum = 0;
    for (const std::uint32_t hops : largest)
        sum += hops;
    return sum;
}

}  // namespace

std::uint32_t MembershipNetwork::hops(std::uint32_t from, std::uint32_t to) const {
    std::uint32_t sum = 0;
    for (const std::uint32_t length : torus) {
        const std::uint32_t a = from % length;
        const std::uint32_t b = to % length;
        const std::uint32_t apart = a > b ? a - b : b - a;
        sum += std::min(apart, length - apart);
        from /= length;
        to /= length;
    }
    return std::max(sum, 1U);
}

double MembershipNetwork::contended_latency_us(double under_way) const {
    return std::max(latency_us, under_way * switch_us);
}

// A machine each, and a message: the last level's are under way at once.
std::uint64_t bytes_needed(const MembershipSetup& setup) {
    return std::uint64_t{setup.ranks} * (2 * sizeof(Membership) + sizeof(MembershipMessage) + sizeof(Due));
}

MembershipTime time_of_next_view(const MembershipSetup& setup) {
    return Clock(setup).run();
}

double latency_under_contention_us(const MembershipNetwork& network, std::uint32_t under_way) {
    constexpr std::uint32_t kRounds = 60;
    const double before_switch = network.latency_us - network.switch_us;
    std::queue<double> sent;
    for (std::uint32_t i = 0; i < under_way; ++i)
        sent.push(0);
    double free_at = 0;
    double sum = 0;
    for (std::uint32_t message = 0; message < kRounds * under_way; ++message) {
        const double at = sent.front();
        sent.pop();
        free_at = std::max(at + before_switch, free_at) + network.switch_us;
        sent.push(free_at);
        if (message >= kRounds / 2 * under_way) sum += free_at - at;
    }
    return sum / (kRounds - kRounds / 2) / under_way;
}

double base_model_us(const MembershipSetup& setup) {
    return with_compute(setup, 2 * setup.network.latency_us * (height_of(setup) - 1));
}

double distance_model_us(const MembershipSetup& setup) {
    return with_compute(setup, 2 * setup.network.latency_us * distances(setup));
}

double printed_distance_model_us(const MembershipSetup& setup) {
    return with_compute(setup, 2 * setup.network.latency_us * distances(setup) * (height_of(setup) - 1));
}

// A parent and its a children are a + 1 nodes with a messages under way (Figure 7).
double contention_model_us(const MembershipSetup& setup) {
    const double radix = 1U << setup.radix_bits;
    const double latency = setup.network.contended_latency_us(setup.ranks * radix / (radix + 1));
    return with_compute(setup, 2 * latency * (height_of(setup) - 1));
}

}  // namespace coppice::simulation
