// A group's agreements, whichever of the two machines takes them: contributions that are published where all ranks read
// each other's memory (published_agreement.hpp), or the tree of messages (agreement.hpp). Its driver need not know
// which.
//
// The calls mean what they mean at the machines, which say what allocates.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "protocol/agreement/agreement.hpp"
#include "protocol/published/published_agreement.hpp"

namespace coppice::protocol {

class AgreementMachine {
  public:
    // `board`: where all ranks publish; null: they exchange messages. `domains`: as PublishedAgreement. All outlive this
    // object.
    AgreementMachine(const AgreementPlan& plan, Rank self, ContributionBoard* board,
                     const topology::Nodes* domains = nullptr)
        : last_agreed_(std::make_shared<const FailedSet>()) {
        if (board != nullptr) {
            published_.emplace(plan, self, *board, domains);
        } else {
            tree_.emplace(plan, self);
        }
    }
    AgreementMachine(const AgreementMachine&) = delete;
    AgreementMachine& operator=(const AgreementMachine&) = delete;

    bool publishes() const { return published_.has_value(); }

    // ------------------------------------------------------------------------------------------------ starting

    bool can_start() const { return published_ ? published_->can_start() : tree_->can_start(); }
    std::optional<Sequence> contribute(const Operation& operation, std::span<const std::byte> value) {
        return published_ ? published_->contribute(operation, value) : tree_->contribute(operation, value);
    }
    std::optional<Sequence> flush() { return published_ ? published_->flush() : tree_->flush(); }
    void acknowledge(const FailedSet& failed) {
        published_ ? published_->acknowledge(failed) : tree_->acknowledge(failed);
    }

    void set_change_waits(bool waits) {
        published_ ? published_->set_change_waits(waits) : tree_->set_change_waits(waits);
    }

    // --------------------------------------------------------------------------------------------------- facts

    Reception receive(const AgreementMessage& message) {
        return published_ ? published_->receive(message) : tree_->receive(message);
    }
    void peer_failed(Rank rank) { published_ ? published_->peer_failed(rank) : tree_->peer_failed(rank); }
    void peers_failed(const FailedSet& ranks) {
        published_ ? published_->peers_failed(ranks) : tree_->peers_failed(ranks);
    }
    // What stands in shared memory; nothing where messages are exchanged.
    void look(bool thoroughly) {
        if (published_) published_->look(thoroughly);
    }
    const FailedSet& failed() const { return published_ ? published_->failed() : tree_->failed(); }
    bool fenced() const { return published_ ? published_->fenced() : tree_->fenced(); }

    // --------------------------------------------------------------------------------------------------- sends

    bool wants_to_send() const { return published_ ? published_->wants_to_send() : tree_->wants_to_send(); }
    std::optional<AgreementMessage> next_send(Nanoseconds now) {
        return published_ ? published_->next_send(now) : tree_->next_send(now);
    }

    // ------------------------------------------------------------------------------------------------- results

    Sequence next() const { return published_ ? published_->next() : tree_->next(); }
    Sequence decided_below() const { return published_ ? published_->decided_below() : tree_->decided_below(); }
    bool decided(Sequence agreement) const {
        return published_ ? published_->decided(agreement) : tree_->decided(agreement);
    }
    std::optional<AgreementOutcome> outcome(Sequence agreement) const {
        return published_ ? published_->outcome(agreement) : tree_->outcome(agreement);
    }
    // The agreed set of an agreement whose outcome is here, shared by all that have the same. Never null.
    std::shared_ptr<const FailedSet> agreed(Sequence agreement, const AgreementOutcome& outcome) {
        if (published_) return published_->agreed(agreement);
        if (!(*last_agreed_ == *outcome.failed)) last_agreed_ = std::make_shared<const FailedSet>(*outcome.failed);
        return last_agreed_;
    }
    // The rank that contributed another operation or size, where that can be known.
    std::optional<Rank> who_differs(Sequence agreement) const {
        return published_ ? published_->who_differs(agreement) : std::nullopt;
    }

    // ------------------------------------------------------------------------------------------------- looking

    void waiting_for(Sequence agreement, const std::function<bool(Rank)>& tell) const {
        published_ ? published_->waiting_for(agreement, tell) : tree_->waiting_for(agreement, tell);
    }
    bool waits_for_recovery(Sequence agreement) const {
        return published_ && published_->waits_for_recovery(agreement);
    }
    // Others wait for this rank's next look.
    bool owes_summary() const { return published_ && published_->owes_summary(); }
    std::uint64_t recoveries() const { return published_ ? published_->recoveries() : 0; }

  private:
    std::optional<PublishedAgreement> published_;  // one of these two
    std::optional<Agreement> tree_;
    std::shared_ptr<const FailedSet> last_agreed_;
};

}  // namespace coppice::protocol
