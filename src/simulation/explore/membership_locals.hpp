// The members of a group that is explored, as numbers: each state that one was ever in, once, and what it does upon each
// event, worked out once. What a driver owes its machine (protocol/membership/membership.hpp) is done here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "simulation/explore/membership_explorer.hpp"
#include "topology/nodes.hpp"

namespace coppice::simulation {

struct MembershipFacts {
    std::uint32_t process = 0;
    protocol::Membership::Standing standing{};
    std::uint32_t epoch = 0;
    std::uint32_t view = 0;  // numbered
    bool called = false;
    bool leaving = false;
    bool lacks_quorum = false;
    bool overtaken = false;         // the dead have followed a later root
    std::uint32_t asked = 0;        // a joiner: which process
    std::uint32_t root = 0;         // a member: which process it takes for the root
    std::uint32_t minds = 0;        // as bits: processes whose death makes a difference to it
    std::uint32_t waiting = 0;      // as bits: newcomers that it knows to wait
    std::uint32_t leaves = 0;       // as bits: members that it knows to want to leave
    std::uint32_t members = 0;      // as bits: processes of its view
    std::uint32_t suspects = 0;     // as bits: those of them that it takes nothing from
    std::uint32_t unreachable = 0;  // as bits: known to it, from its driver
    std::uint32_t certain = 0;      // as bits: of these, for certain
};

class MembershipLocals {
  public:
    explicit MembershipLocals(const MembershipScenario& scenario);

    struct Step {
        std::uint32_t local = 0;
        std::vector<std::uint32_t> sent;
        std::string wrong;  // empty, or the promise that is broken by it
    };

    Step member(std::uint32_t process);
    Step newcomer(const protocol::JoinRequest& request);
    // References stay good until the next event.
    const Step& call(std::uint32_t local);
    const Step& leave(std::uint32_t local);
    const Step& receive(std::uint32_t local, std::uint32_t message);
    const Step& notice(std::uint32_t local, std::uint32_t process);
    const Step& notice_death(std::uint32_t local, std::uint32_t process, std::uint32_t vote);

    const MembershipFacts& facts(std::uint32_t local) const { return locals_[local].facts; }
    std::uint32_t last_vote(std::uint32_t local);
    std::uint32_t no_vote() { return number_of(protocol::LastVote()); }
    bool has_voted_for_nothing(std::uint32_t local) const {
        return locals_[local].machine.last_vote() == protocol::LastVote();
    }
    std::uint32_t from(std::uint32_t message) const { return messages_[message].from.value; }
    std::uint32_t to(std::uint32_t message) const { return messages_[message].to.value; }
    std::string describe(std::uint32_t message) const;
    std::string describe_view(std::uint32_t view) const;
    const protocol::View& view(std::uint32_t number) const { return views_[number]; }

    std::size_t count() const { return locals_.size(); }
    std::size_t message_count() const { return messages_.size(); }

  private:
    // A user's message stands among those of the machine: with no kind of its own, told apart by `is_talk`.
    struct Letter : protocol::MembershipMessage {
        bool is_talk = false;
        std::uint32_t view = 0;  // in which it was sent
    };
    struct Local {
        protocol::Membership machine;
        std::array<std::uint32_t, MembershipScenario::kMostProcesses> known{};  // 0, kSuspected, or 2 + vote
        std::vector<std::uint32_t> held;                                        // users' messages for a later view
        std::uint32_t spoken = 0;  // as bits: epochs in which it has sent its users' message
        std::uint32_t knew = 0;    // as bits: members that it knew to be gone when it called
        std::uint32_t heard = 0;   // users' messages that were delivered, as bits of epoch and sender
        MembershipFacts facts;
    };
    struct Hash128 {
        std::uint64_t a;
        std::uint64_t b;
        bool operator==(const Hash128&) const = default;
    };
    struct Hasher {
        std::size_t operator()(const Hash128& hash) const { return hash.a; }
    };
    static constexpr std::uint32_t kSuspected = 1;

    template <class Event>
    const Step& step(std::uint32_t local, std::uint64_t event, Event&& happen);
    Step finish(Local local);
    void tell_again(Local& local);
    void leave_out_newcomers(Local& local);
    void tell(Local& local, std::uint32_t process);
    void speak(Local& local, std::vector<std::uint32_t>& sent);
    void hear(Local& local, std::uint32_t message);
    void check_step(const MembershipFacts& before, std::uint32_t knew, const Local& after);
    std::uint32_t offer_of(std::uint32_t process) const { return scenario_.differing ? ~(1U << process) : UINT32_MAX; }
    void look_at(Local& local);
    std::uint32_t number_of(Letter letter);
    std::uint32_t number_of(const protocol::View& view);
    std::uint32_t number_of(const protocol::LastVote& vote);
    void fail(const std::string& what);
    Hash128 hash_of_words() const;

    const MembershipScenario& scenario_;
    std::optional<topology::Nodes> hosts_;
    protocol::MembershipPlan plan_;
    std::vector<Local> locals_;
    std::vector<Letter> messages_;
    std::vector<protocol::View> views_;
    std::vector<protocol::LastVote> votes_;
    std::unordered_map<Hash128, std::uint32_t, Hasher> local_numbers_;
    std::unordered_map<Hash128, std::uint32_t, Hasher> message_numbers_;
    std::unordered_map<std::uint64_t, Step> steps_;
    std::vector<std::uint32_t> words_;
    std::string wrong_;  // in the step that is worked out
};

}  // namespace coppice::simulation
