// One group as this rank sees it: what is called on it, what each call may return, and what is found when something was
// delivered. What everybody has to do alike comes as arguments; what each does by itself is drawn from `own`.
//
// Everything that ends is logged, for the survivors to be compared:
//   g TEAM PLACE MEMBERS         this group is here; processes, in the order of ranks
//   b TEAM NUMBER ROOT STATUS    a broadcast has ended
//   a TEAM NUMBER STATUS CONTRIBUTORS FAILED     an agreement has
//   s TEAM NUMBER STATUS         a shrink has
//   d TEAM                       the group was left
// In jobs that grow, where members are incarnations of numbers (process_of), also
//   v TEAM EPOCH ELDEST NEWCOMERS BEFORE:SINCE,…    where its members come from, in the order of ranks
//   n TEAM NUMBER STATUS NEXT    a renewal has ended with this team, or "-"
//   l TEAM                       this rank wants to leave
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chaos_common.hpp"

namespace chaos {

// Whose failure was told of, for a group that was created and all that are shrunk from it, which have its callback:
// once each.
class Told {
  public:
    static void on_failure(void* told, coppice_group_t* group, std::uint32_t rank);
    void forget(coppice_group_t* group);

  private:
    std::mutex mutex_;
    std::set<std::pair<coppice_group_t*, std::uint32_t>> ranks_;
};

// The process that has a number of the launcher's, of those that had it one after the other.
inline std::uint32_t process_of(std::uint32_t number, std::uint32_t incarnation) {
    return 1000 * incarnation + number;
}

class Team {
  public:
    using Members = std::vector<std::uint32_t>;

    Team(const Options& options, std::uint64_t id, coppice_context_t* context, Draw& own)
        : options_(options), id_(id), context_(context), own_(own) {}
    ~Team() = default;
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // Collective over the members. `name` is of the exchange's files; empty: the launcher's exchange.
    void create(const std::string& name, const Members& members, std::uint32_t self);
    // Whether there is nothing to do any more but to destroy it, which it says with every call's end.
    bool revoked() const { return revoked_; }
    const Members& members() const { return members_; }
    std::uint64_t id() const { return id_; }
    bool has_failed() const { return !agreed_.empty(); }

    // Blocking ones; `number` of them, drawn from `common`.
    void broadcasts(Draw& common, std::uint64_t number);
    // Several under way at once, of both kinds.
    void flights(Draw& common, std::uint64_t number);
    void agreements(Draw& common, std::uint64_t number);
    void revoke();
    // The survivors; their group has the number `id`.
    std::unique_ptr<Team> shrink(std::uint64_t id, bool blocking);
    void acknowledge();
    void destroy();

    // --- jobs that grow (chaos_view.cpp)
    // The launcher's group, or what has become of it; this process is `self` there. Its number follows from its view.
    void join(std::uint32_t self, bool is_late);
    // The next group; by a shrink, where it does not admit newcomers. Null where this rank has left, or has no quorum.
    std::unique_ptr<Team> renew(const coppice_renew_options_t& how, bool admits);
    void want_to_leave();
    bool is_leaving() const { return is_leaving_; }
    bool has_left() const { return has_left_; }
    bool lost_quorum() const { return lost_quorum_; }
    const coppice_view_t& view() const { return view_; }
    // What the eldest has. False where it did not arrive.
    bool tell(void* data, std::size_t bytes);
    // The largest of each word. False where the group is over, or has lost a rank.
    bool agree_on(std::vector<std::uint64_t>& words, bool& pending);

  private:
    struct Flight {
        bool broadcast = true;
        bool view = false;
        std::uint64_t number = 0;
        std::uint32_t root = 0;
        std::size_t bytes = 0;
        std::uint64_t before = 0;           // bytes of the payloads before it
        std::size_t room = 0;               // that it has where it arrives
        std::vector<std::uint64_t> memory;  // aligned to 8
        void* lent = nullptr;               // the library's, where the payload lies instead
        bool is_registered = false;         // the memory
        coppice_operation_t operation = COPPICE_OR;
        std::uint64_t acknowledged = 0;  // when it began
        coppice_request_t* request = nullptr;

        void* payload() { return lent != nullptr ? lent : memory.data(); }
    };

    static void combine(void* argument, void* into, const void* from, std::size_t bytes);
    void adopt(coppice_group_t* group);
    void look(coppice_group_t* group, std::uint32_t self);
    void check_heritage(const Team& parent, const Members& gone) const;
    bool ends_here(coppice_status_t status, const std::string& what);
    [[noreturn]] void leave_without_quorum(const std::string& what) const;

    std::uint64_t draw_bytes(Draw& common) const;
    Flight draw_broadcast(Draw& common);
    void number_it(Flight& flight);
    void choose_memory(Flight& flight);
    void give_back(Flight& flight, bool has_ended);
    Flight draw_agreement(Draw& common);
    void start(Flight& flight);
    void finish(Flight& flight);
    void ended(Flight& flight, coppice_status_t status, std::size_t received);
    void broadcast_ended(Flight& flight, coppice_status_t status, std::size_t received);
    void agreement_ended(Flight& flight, coppice_status_t status, const Members& failed);
    std::uint64_t contributors(const Flight& flight) const;
    void check(const Flight& flight, const void* payload, std::size_t bytes, const char* when) const;
    void check_view(const Flight& flight, const char* when) const;
    void let_go(std::size_t most_behind);
    void let_go_of_one();
    void make_room();
    // It holds up what is to come, where it is a view.
    bool is_in_the_way(const Flight& flight) const { return begun_ - flight.before > options_.payload_window; }
    std::size_t longest_held() const { return info_.window - 1; }

    std::uint64_t patience_ns() const { return static_cast<std::uint64_t>(options_.patience * 1e9); }
    // That each receiver has at least.
    std::size_t room() const { return std::min<std::size_t>(info_.max_payload, 8192); }
    template <class Ask>
    Members listed(Ask&& ask) const;
    std::string name(const Flight& flight) const;

    const Options& options_;
    std::uint64_t id_;
    coppice_context_t* context_;
    Draw& own_;
    coppice_group_t* group_ = nullptr;
    coppice_group_info_t info_{};
    Members members_;
    std::uint64_t sequence_ = 0;
    std::uint64_t begun_ = 0;   // bytes of all payloads up to that
    std::uint64_t number_ = 0;  // of the next agreement
    std::uint64_t shrinks_ = 0;
    std::deque<Flight> held_;         // views that have been delivered
    Members agreed_;                  // failed, by the last agreement
    std::uint64_t acknowledged_ = 0;  // ranks, as bits
    std::shared_ptr<Told> told_;
    bool revoked_ = false;
    bool lost_quorum_ = false;
    bool is_leaving_ = false;
    bool has_left_ = false;
    std::uint32_t self_ = 0;  // as a process, in a job that grows
    coppice_view_t view_{};
    std::vector<coppice_member_t> seats_;
};

// "0,1,2", or "-".
std::string listing(const Team::Members& members);

template <class Ask>
Team::Members Team::listed(Ask&& ask) const {
    Members ranks(members_.size());
    std::size_t count = 0;
    const coppice_status_t status = ask(ranks.data(), ranks.size(), &count);
    if (status != COPPICE_OK) wrong("lost", describe(fmt::format("asking team {:x} for failures", id_), status));
    ranks.resize(std::min(count, ranks.size()));
    return ranks;
}

}  // namespace chaos
