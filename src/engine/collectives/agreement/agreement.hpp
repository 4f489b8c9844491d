// Agreement as a component of a group: between its callers, the other ranks, and what the group knows of deaths.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/collectives/agreement/agreements.hpp"
#include "engine/core/core.hpp"

namespace coppice::engine {

class Agreement final : public Collective {
  public:
    explicit Agreement(Core& core);

    // False while a start would only be told COPPICE_ERR_BUSY.
    bool has_room() const { return !life_.is_member() || agreements_.has_room(); }
    Result<void> start(const AgreementCall& call, Request& request);
    // Takes note of failures for later agreements: all that this rank knows of, or those of `ranks` that it does.
    void acknowledge_failures();
    Result<void> acknowledge_failures(std::span<const std::uint32_t> ranks);
    // The caller has had the end of an agreement; and the ranks that the last such agreement holds to be dead.
    void note_agreed(const Request& request);
    const protocol::FailedSet* last_agreed() const { return last_agreed_.get(); }
    // Whether somebody knew then of a change of members that waits.
    bool change_waits() const { return change_waits_; }
    // Whether this rank knows of one.
    void announce_change(bool waits) { agreements_.set_change_waits(waits); }
    // All living members have contributed to something, so all have made the group.
    bool has_ended_any() const { return agreements_.ended_below() > 0; }
    // Leaving, wait for everybody although nothing was ever agreed upon.
    void flush_in_any_case() { flushes_in_any_case_ = true; }

    // Collective
    bool message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    void members_failed(const protocol::FailedSet& news) override;
    void member_failed(const Death& death) override;
    void member_left(Rank rank) override;
    void progress(bool thorough) override;
    void end_all(coppice_status_t status, const std::string& why) override { agreements_.give_up(status, why); }
    bool waits_for_room() const override { return agreements_.waits_for_room(); }
    bool peek(Request& request) override { return agreements_.peek(request); }
    void finish(Request& request) override { agreements_.forget(request); }
    std::string waiting_for(const Request& request) const override { return agreements_.waiting_for(request); }
    status::Kind kind() const override { return status::Kind::agreement; }
    void show_waits(const Request& request, status::Waits& waits) const override {
        agreements_.show_waits(request, waits);
    }
    // What those wait for that find no room to begin; and how many have begun.
    void show_holders(status::Waits& waits) const { agreements_.show_holders(waits); }
    // Where ranks publish in two levels: others wait for this rank's next progress.
    bool owes_summary() const { return life_.is_member() && agreements_.owes_summary(); }
    std::uint64_t entered() const { return agreements_.started(); }
    // Where that number is shown; null: nowhere.
    void show_entered_in(shared::Relaxed<std::uint64_t>* where) {
        entered_ = where != nullptr ? where : &unseen_;
        entered_->set(agreements_.started());
    }
    bool drained() override;
    std::string leaving_waits_for() const override;
    std::optional<Rank> leaving_depends_on() const override { return agreements_.one_waited_for(); }
    bool quiet() const override { return agreements_.quiet(); }

  private:
    Core& core_;
    const Surroundings& around_;
    Lifecycle& life_;
    Membership& membership_;
    News& news_;
    Agreements agreements_;
    std::shared_ptr<const protocol::FailedSet> last_agreed_;
    bool flushes_in_any_case_ = false;
    bool change_waits_ = false;
    shared::Relaxed<std::uint64_t> unseen_;
    shared::Relaxed<std::uint64_t>* entered_ = &unseen_;
};

}  // namespace coppice::engine
