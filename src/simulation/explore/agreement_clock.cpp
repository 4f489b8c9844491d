#include "simulation/explore/agreement_clock.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <queue>
#include <utility>

#include "base/mix.hpp"
#include "simulation/explore/allreduce.hpp"
#include "simulation/explore/phased_agreement.hpp"

namespace coppice::simulation {
namespace {

using protocol::Agreement;
using protocol::AgreementKind;
using protocol::AgreementTree;
using protocol::FailedSet;

std::uint64_t contribution_of(std::uint32_t rank) {
    return std::uint64_t{1} << (rank % 64);
}

// One rank's machine, as the clock sees it. `Message` is what travels.
class EraRank {
  public:
    struct Message {
        AgreementKind kind = AgreementKind::up;
        std::uint32_t to = 0;
        std::uint64_t agreement = 0;
        std::vector<std::byte> body;
    };
    struct Shared {
        explicit Shared(const AgreementSetup& setup) : plan(setup.plan) {}
        protocol::AgreementPlan plan;
    };

    EraRank(const Shared& shared, std::uint32_t rank, const FailedSet& known)
        : machine_(shared.plan, Rank{rank}), rank_(rank) {
        if (!known.contains(rank)) machine_.peers_failed(known);
        machine_.acknowledge(known);
    }
    void start() {
        const std::uint64_t value = contribution_of(rank_);
        machine_.contribute({protocol::Operator::bit_or}, std::as_bytes(std::span(&value, 1)));
    }
    void notice(const FailedSet& failed) { machine_.peers_failed(failed); }
    void receive(std::uint32_t from, const Message& message) {
        machine_.receive({message.kind, Rank{from}, Rank{rank_}, Sequence{message.agreement}, message.body});
    }
    bool wants_to_send() const { return machine_.wants_to_send(); }
    bool pull(Message& message) {
        const auto sent = machine_.next_send(Nanoseconds{0});
        if (!sent) return false;
        message.kind = sent->kind;
        message.to = sent->to.value;
        message.agreement = sent->agreement.value;
        message.body.assign(sent->body.begin(), sent->body.end());
        return true;
    }
    std::uint32_t decided() const { return static_cast<std::uint32_t>(machine_.decided_below().value); }
    std::uint64_t last_value() const {
        const auto outcome = machine_.outcome(Sequence{machine_.decided_below().value - 1});
        std::uint64_t value = 0;
        if (outcome && outcome->value.size() == sizeof(value))
            std::memcpy(&value, outcome->value.data(), sizeof(value));
        return value;
    }
    static bool is_request(const Message& message) { return message.kind == AgreementKind::result_request; }
    static std::size_t bytes_of(const Message& message) { return message.body.size(); }

  private:
    Agreement machine_;
    std::uint32_t rank_;
};

template <std::uint32_t kPhases>
class PhasedRank {
  public:
    using Message = PhasedAgreement::Message;
    struct Shared {
        explicit Shared(const AgreementSetup& setup)
            : plan(setup.plan), first(PhasedAgreement::first_attempt(plan, setup.known)) {}
        protocol::AgreementPlan plan;
        std::shared_ptr<const PhasedAgreement::Attempt> first;
    };

    PhasedRank(const Shared& shared, std::uint32_t rank, const FailedSet& /*known*/)
        : machine_(shared.plan, shared.first, rank, kPhases), rank_(rank) {}
    void start() { machine_.start(contribution_of(rank_)); }
    void notice(const FailedSet& failed) { machine_.peers_failed(failed); }
    void receive(std::uint32_t /*from*/, const Message& message) { machine_.receive(message); }
    bool wants_to_send() const { return machine_.wants_to_send(); }
    bool pull(Message& message) {
        auto sent = machine_.next_send();
        if (!sent) return false;
        message = std::move(*sent);
        return true;
    }
    std::uint32_t decided() const { return machine_.decided_count(); }
    std::uint64_t last_value() const { return machine_.last_value(); }
    static bool is_request(const Message& /*message*/) { return false; }
    static std::size_t bytes_of(const Message& /*message*/) { return protocol::body_bytes(8); }

  private:
    PhasedAgreement machine_;
    std::uint32_t rank_;
};

std::uint32_t block_of(const AgreementSetup& setup) {
    switch (setup.algorithm) {
        case AgreementAlgorithm::allreduce_doubling:
            return 1;
        case AgreementAlgorithm::allreduce_hosts:
            return setup.ranks_per_host;
        default:
            return setup.plan.tree.ranks();
    }
}

class AllreduceRank {
  public:
    using Message = Allreduce::Message;
    struct Shared {
        explicit Shared(const AgreementSetup& setup) : ranks(setup.plan.tree.ranks()), block(block_of(setup)) {}
        std::uint32_t ranks;
        std::uint32_t block;
    };

    AllreduceRank(const Shared& shared, std::uint32_t rank, const FailedSet& /*known*/)
        : machine_(rank, shared.ranks, shared.block), rank_(rank) {}
    void start() { machine_.start(contribution_of(rank_)); }
    void notice(const FailedSet& /*failed*/) {}
    void receive(std::uint32_t /*from*/, const Message& message) { machine_.receive(message); }
    bool wants_to_send() const { return machine_.wants_to_send(); }
    bool pull(Message& message) {
        const auto sent = machine_.next_send();
        if (sent) message = *sent;
        return sent.has_value();
    }
    std::uint32_t decided() const { return machine_.decided_count(); }
    std::uint64_t last_value() const { return machine_.last_value(); }
    static bool is_request(const Message& /*message*/) { return false; }
    static std::size_t bytes_of(const Message& message) { return sizeof message.value; }

  private:
    Allreduce machine_;
    std::uint32_t rank_;
};

template <class Member>
class Clock {
  public:
    explicit Clock(const AgreementSetup& setup) : setup_(setup), shared_(setup) {
        const std::uint32_t ranks = setup.plan.tree.ranks();
        members_.reserve(ranks);
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
            members_.emplace_back(shared_, rank, setup.known);
        ports_.resize(ranks);
        if (setup.network) {
            wire_.emplace(setup.network);
            wire_->start();
        }
        dead_ = setup.known;
        result_.agreements.resize(setup.agreements);
        for (AgreementTiming& timing : result_.agreements)
            timing.start = kLastStep;
    }

    AgreementTimings run() {
        for (const AgreementDeath& death : setup_.deaths) {
            add({death.at, kDie, 0, death.rank, 0});
            plan_notices(death);
        }
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (!dead_.contains(rank)) start(rank, 0);
        }
        while (!events_.empty()) {
            const Event event = events_.top();
            events_.pop();
            happen(event);
        }
        conclude();
        if (wire_) result_.by_level = wire_->messages();
        return result_;
    }

  private:
    enum What : std::uint8_t { kDie, kArrive, kTakeEffect, kTell, kTellOne, kSend };
    struct Event {
        Step at = 0;
        What what = kSend;
        std::uint64_t order = 0;
        std::uint32_t rank = 0;
        std::uint32_t message = 0;  // or, of kTellOne, who has died
        bool operator>(const Event& other) const {
            if (at != other.at) return at > other.at;
            if (what != other.what) return what > other.what;
            return order > other.order;
        }
    };
    struct UnderWay {
        typename Member::Message content;
        std::uint32_t from = 0;
        std::uint32_t chain = 0;
    };
    struct Ports {
        Step send_free = 0;
        Step receive_free = 0;
        std::uint32_t sent = 0;
        std::uint32_t chain = 0;
        std::uint32_t returned = 0;
        bool asked = false;  // an event that asks it for sends is due
    };

    void add(Event event) {
        event.order = order_++;
        events_.push(event);
    }

    void plan_notices(const AgreementDeath& death) {
        const Step at = death.at + setup_.notice_after;
        if (setup_.notice_spread == 0) {
            if (!to_tell_.contains(at)) add({at, kTell, 0, 0, 0});
            to_tell_[at].insert(death.rank);
            return;
        }
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            const std::uint64_t lot = mix(setup_.seed, std::uint64_t{death.rank} << 32 | rank);
            const auto later = static_cast<Step>(lot % (std::uint64_t{setup_.notice_spread} + 1));
            if (rank != death.rank) add({at + later, kTellOne, 0, rank, death.rank});
        }
    }

    void ask(std::uint32_t rank, Step at) {
        if (ports_[rank].asked || !members_[rank].wants_to_send()) return;
        ports_[rank].asked = true;
        add({std::max(at, ports_[rank].send_free), kSend, 0, rank, 0});
    }

    // Starts its next agreement, if there is one; it may return at once.
    void start(std::uint32_t rank, Step now) {
        while (ports_[rank].returned < setup_.agreements) {
            AgreementTiming& timing = result_.agreements[ports_[rank].returned];
            timing.start = std::min(timing.start, now);
            members_[rank].start();
            if (!note_returns(rank, now)) break;
        }
        ask(rank, now);
    }

    bool note_returns(std::uint32_t rank, Step now) {
        Ports& ports = ports_[rank];
        if (members_[rank].decided() == ports.returned) return false;
        AgreementTiming& timing = result_.agreements[ports.returned];
        timing.latency = std::max(timing.latency, now);
        decisions_.push_back({rank, ports.returned, members_[rank].last_value()});
        ++ports.returned;
        return true;
    }

    void after(std::uint32_t rank, Step now) {
        if (note_returns(rank, now)) {
            start(rank, now);
        } else {
            ask(rank, now);
        }
    }

    void happen(const Event& event) {
        const std::uint32_t rank = event.rank;
        switch (event.what) {
            case kDie:
                dead_.insert(rank);
                return;
            case kTell:
                return tell_all(to_tell_.at(event.at), event.at);
            case kTellOne: {
                FailedSet dead;
                dead.insert(event.message);
                return tell(rank, dead, event.at);
            }
            case kSend:
                ports_[rank].asked = false;
                if (!dead_.contains(rank)) send(rank, event.at);
                return;
            case kArrive: {
                result_.quiescence = std::max(result_.quiescence, event.at);
                if (dead_.contains(rank)) return drop(event.message);
                Step& port = ports_[rank].receive_free;
                port = std::max(port, event.at) + setup_.model.overhead;
                add({port, kTakeEffect, 0, rank, event.message});
                return;
            }
            case kTakeEffect: {
                result_.quiescence = std::max(result_.quiescence, event.at);
                if (dead_.contains(rank)) return drop(event.message);
                const UnderWay& message = messages_[event.message];
                ports_[rank].chain = std::max(ports_[rank].chain, message.chain);
                members_[rank].receive(message.from, message.content);
                drop(event.message);
                after(rank, event.at);
                return;
            }
        }
    }

    void tell_all(const FailedSet& dead, Step now) {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
            tell(rank, dead, now);
    }

    void tell(std::uint32_t rank, const FailedSet& dead, Step now) {
        if (dead_.contains(rank)) return;
        members_[rank].notice(dead);
        after(rank, now);
    }

    void send(std::uint32_t rank, Step now) {
        const std::uint32_t slot = take();
        UnderWay& message = messages_[slot];
        if (!members_[rank].pull(message.content)) return drop(slot);
        message.from = rank;
        message.chain = ports_[rank].chain + 1;
        result_.longest_chain = std::max(result_.longest_chain, message.chain);
        ++result_.messages;
        result_.bytes += Member::bytes_of(message.content);
        if (Member::is_request(message.content)) ++result_.requests;
        result_.most_sent = std::max(result_.most_sent, ++ports_[rank].sent);
        ports_[rank].send_free = now + setup_.model.interval();
        add({arrival(now + setup_.model.overhead, rank, message.content.to), kArrive, 0, message.content.to, slot});
        ask(rank, ports_[rank].send_free);
    }

    Step arrival(Step sent, std::uint32_t from, std::uint32_t to) {
        return wire_ ? wire_->arrival(sent, position_of(from), position_of(to)) : sent + setup_.model.latency;
    }
    Position position_of(std::uint32_t rank) const {
        return setup_.position_of.empty() ? Position(rank) : setup_.position_of[rank];
    }

    std::uint32_t take() {
        if (free_.empty()) {
            messages_.emplace_back();
            return static_cast<std::uint32_t>(messages_.size() - 1);
        }
        const std::uint32_t slot = free_.back();
        free_.pop_back();
        return slot;
    }
    void drop(std::uint32_t slot) { free_.push_back(slot); }

    void conclude() {
        std::vector<std::optional<std::uint64_t>> agreed(setup_.agreements);
        for (const Decision& decision : decisions_) {
            if (dead_.contains(decision.rank)) continue;
            AgreementTiming& timing = result_.agreements[decision.agreement];
            ++timing.decided;
            auto& value = agreed[decision.agreement];
            if (!value) value = decision.value;
            if (*value != decision.value) timing.agreed = false;
        }
        for (AgreementTiming& timing : result_.agreements) {
            timing.latency -= std::min(timing.latency, timing.start);
            if (timing.decided != members_.size() - dead_.count()) timing.agreed = false;
        }
        const std::uint64_t contributed = contributed_by_the_living();
        for (std::size_t i = 0; i < agreed.size(); ++i) {
            if (agreed[i] && (*agreed[i] & contributed) != contributed) result_.agreements[i].agreed = false;
        }
    }

    std::uint64_t contributed_by_the_living() const {
        std::uint64_t contributed = 0;
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
            contributed |= dead_.contains(rank) ? 0 : contribution_of(rank);
        return contributed;
    }

    struct Decision {
        std::uint32_t rank;
        std::uint32_t agreement;
        std::uint64_t value;
    };

    const AgreementSetup& setup_;
    typename Member::Shared shared_;
    std::optional<NetworkWire> wire_;
    std::vector<Member> members_;
    std::vector<Ports> ports_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<UnderWay> messages_;
    std::vector<std::uint32_t> free_;
    std::vector<Decision> decisions_;
    FailedSet dead_;
    std::map<Step, FailedSet> to_tell_;
    std::uint64_t order_ = 0;
    AgreementTimings result_;
};

}  // namespace

AgreementTimings run_agreements(const AgreementSetup& setup) {
    switch (setup.algorithm) {
        case AgreementAlgorithm::two_phase:
            return Clock<PhasedRank<2>>(setup).run();
        case AgreementAlgorithm::three_phase:
            return Clock<PhasedRank<3>>(setup).run();
        case AgreementAlgorithm::allreduce_doubling:
        case AgreementAlgorithm::allreduce_binomial:
        case AgreementAlgorithm::allreduce_hosts:
            return Clock<AllreduceRank>(setup).run();
        case AgreementAlgorithm::era:
            break;
    }
    return Clock<EraRank>(setup).run();
}

std::uint64_t bytes_for_each_rank(AgreementAlgorithm algorithm) {
    return algorithm == AgreementAlgorithm::era ? 1400 : 900;
}

}  // namespace coppice::simulation
