// Shrinking as a component of a group: makes the group of the survivors, from what they have agreed upon (succession.hpp) and
// from what is there (shrink.cpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/launcher_protocol.hpp"
#include "engine/collectives/agreement/agreement.hpp"
#include "engine/collectives/shrink/quorum_watch.hpp"
#include "engine/collectives/shrink/succession.hpp"
#include "engine/collectives/shrink/successors.hpp"
#include "engine/collectives/shrink/witness_grace.hpp"
#include "engine/core/core.hpp"
#include "engine/requests/request.hpp"

namespace coppice::engine {

struct Birth;

class Shrink final : public Collective, private DeathJudge {
  public:
    // `established`: of a group that was itself made by a shrink. Set when everybody alive is known to have made it, or when
    // it is gone here: then the group from which it comes is not needed any more. Null otherwise.
    // References outlive this object.
    Shrink(Core& core, Agreement& agreement, Successors& successors, std::shared_ptr<bool> established);
    ~Shrink();

    // Joins the others in making a group of the survivors, or goes on with what an earlier call has left.
    // COPPICE_ERR_BUSY while another request does. The request ends when the new group is there to be taken.
    // A rank that leaves gets no group.
    Result<void> start(Request& request, const RenewalOptions& options);
    // This rank is not in the next one.
    Result<void> leave();
    // A ticket for processes that are to join (newcomers.cpp).
    Result<std::vector<std::byte>> invite(std::uint32_t uses, std::uint64_t lifetime_ns);
    // What the quorum `certain` needs of the memory that each rank of a host shows to the others.
    static transport::Region host_region(const Settings& settings);
    // No successor's member could ask any more which ranks are in it.
    bool is_settled() const;

    // Collective
    bool message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    void members_failed(const protocol::FailedSet& news) override { look_at_quorum(news); }
    void member_failed(const Death& death) override;
    void member_left(Rank rank) override;
    bool has_voted() const override { return succession_ && succession_->has_voted(); }
    void progress(bool thorough) override;
    bool outlives_revocation() const override { return true; }
    void end_all(coppice_status_t status, const std::string& why) override;
    std::uint64_t next_timer_ns() const override;
    bool waits_for_room() const override { return succession_ && succession_->waits_for_room(); }
    bool peek(Request& request) override;
    void finish(Request& request) override;
    std::string waiting_for(const Request& request) const override;
    status::Kind kind() const override { return status::Kind::renewal; }
    void show_waits(const Request& request, status::Waits& waits) const override;
    bool drained() override;
    std::string leaving_waits_for() const override;
    bool quiet() const override;
    // This rank's side has lost its quorum.
    std::optional<Error> reason_to_revoke() override { return no_quorum_; }
    bool has_lost_quorum() const { return no_quorum_.has_value(); }

  private:
    Succession& succession();
    void tell_of_the_voteless();
    bool awaits_witness(const protocol::FailedSet& news) const override;
    void look_at_quorum(const protocol::FailedSet& news = {});
    // newcomers.cpp
    void heed_newcomers();
    void attend_door();
    void tell_of_newcomers();
    std::optional<Rank> place_of(const bootstrap::PersonBody& person) const;
    const Heritage::Heir* unknown_newcomer(const Heritage& heritage) const;
    Birth birth_of(const Heritage& heritage) const;
    void announce(const Heritage& heritage, const Birth& birth);
    void admit_no_more();
    void turn_away(const Heritage& heritage, const std::string& why);
    void make_successor(const Heritage& heritage);
    void end(coppice_status_t status, std::string message = {});

    Core& core_;
    const Surroundings& around_;
    const Subscribers& subscribers_;
    Lifecycle& life_;
    Membership& membership_;
    News& news_;
    Agreement& agreement_;
    Successors& successors_;
    const Members& members_;
    const Router& router_;
    std::unique_ptr<LastVotes> votes_;  // null: no death is certain
    QuorumWatch quorum_;
    std::optional<Error> no_quorum_;
    WitnessGrace grace_;
    std::unique_ptr<Succession> succession_;
    std::uint32_t undecided_rounds_ = 0;
    std::uint32_t voteless_told_ = 0;  // so many the succession knows of
    std::uint32_t living_heard_ = 0;   // so many failed ones were alive when this rank last looked at its quorum
    std::vector<bootstrap::PersonBody> newcomers_;  // of which the succession knows
    std::uint32_t newcomers_version_ = 0;
    bool newcomers_wait_ = false;
    std::size_t attended_without_ = SIZE_MAX;  // so many members were gone when the door was last told who is there
    Request* shrinking_ = nullptr;
    std::optional<Error> untold_;  // why none was made, where the caller had given up: for its next call
    std::shared_ptr<const protocol::FailedSet> excluded_;  // from it, or from the one without this rank
    std::vector<std::shared_ptr<bool>> successors_established_;
    std::shared_ptr<bool> established_;
};

}  // namespace coppice::engine
