// The progress engine of one group at one rank: drives one protocol machine per broadcast over the transports, and
// publishes within the host.
//
//   arrive → store and publish the payload → machine.receive → machine.next_send → transport
//
// Rules that everything else rests on:
//  - Publish first. Where ranks share a host the leader publishes a payload before it sends anything outside, and
//    what is published outlives it. So whatever a node has ever said stays true while one of its ranks lives.
//  - Nothing is started W or more ahead of what is stable (consumed by every live rank): slot = sequence mod W is free
//    at every rank when a message for it arrives.
//  - A dead rank's messages are refused from the moment its death is known.
//
// One thread at a time (the context locks). Nothing is allocated, logged or locked after create() while nobody dies.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/shared_words.hpp"
#include "engine/agreements.hpp"
#include "engine/machine.hpp"
#include "engine/members.hpp"
#include "engine/request.hpp"
#include "engine/router.hpp"
#include "engine/settings.hpp"
#include "engine/slot.hpp"
#include "engine/succession.hpp"
#include "engine/wire.hpp"
#include "protocol/detector/detector.hpp"
#include "protocol/stability/stability.hpp"
#include "transport/board.hpp"
#include "transport/idle.hpp"

namespace coppice::engine {

class Context;

class Group final : private transport::Receiver {
  public:
    using FailureCallback = std::function<void(Rank)>;

    // What formation.cpp has put together.
    struct Parts {
        Context* context = nullptr;
        Settings settings;
        Members members;
        Router router;
        transport::Board* board = nullptr;  // owned by one of the router's transports; null where nobody shares a host
        std::unique_ptr<transport::Board> board_wrapper = nullptr;  // around that one, when faults are injected
        GroupId id;
        Plan plan;                        // over nodes
        std::uint32_t cores = 1;          // that this process may run on
        std::uint32_t sharing_cores = 1;  // ranks of this group on this host that may run only there
        FailureCallback on_failure;
        std::uint32_t panel = 0;  // of `board`
        // Groups that were shrunk: set when everybody alive is known to have made this group, or it is gone here. Then the
        // group from which it comes is not needed any more.
        std::shared_ptr<bool> established = nullptr;
    };
    explicit Group(Parts parts);
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    ~Group();

    // What a broadcast call says.
    struct Call {
        std::byte* buffer = nullptr;
        std::size_t bytes = 0;
        Rank root;
        bool view = false;
    };

    // False while a start would only be told COPPICE_ERR_BUSY. True: it should follow at once.
    bool has_room(Rank root);
    // Starts a broadcast into `request` (state free), or says why not: COPPICE_ERR_BUSY when the window is full.
    Result<void> start(const Call& call, Request& request);
    // One from the pool. COPPICE_ERR_BUSY when all are in use.
    Result<Request*> start_pooled(const Call& call);
    // group_agreement.cpp. The same for agreements: has room, starts, starts one from the pool.
    bool has_room_for_agreement();
    Result<void> start_agreement(const AgreementCall& call, Request& request);
    Result<Request*> start_pooled_agreement(const AgreementCall& call);
    // Takes note of failures for later agreements: all that this rank knows of, or those of `ranks` that it does.
    void acknowledge_failures();
    Result<void> acknowledge_failures(std::span<const std::uint32_t> ranks);
    // The caller has had the end of an agreement; and whom the last such agreement holds to be dead.
    void note_agreed(const Request& request);
    const protocol::FailedSet* last_agreed() const { return last_agreed_.get(); }

    // group_revocation.cpp. Ends everything of this group at every member, but leaving it. Idempotent, local.
    void revoke();
    bool revoked() const { return revoked_; }

    // group_roots.cpp. Set once several ranks of this host are known to have been root of one broadcast: an error that names
    // them. The group has been revoked then.
    std::optional<Error> several_roots() const;

    // group_succession.cpp. Joins the others in making a group of the survivors, or goes on with what an earlier call has left.
    // COPPICE_ERR_BUSY while another request does. The request ends when the new group is there to be taken.
    Result<void> start_shrink(Request& request);
    Result<Request*> start_pooled_shrink(coppice_group_t* old, coppice_group_t** shrunk);
    // Once, after the end of a shrink. Whoever takes it has it progressed already (it is attached to the context); its callback is
    // told of all deaths since it was made.
    std::unique_ptr<Group> take_successor() { return std::move(successor_); }
    void claim(FailureCallback on_failure);

    // The caller has left this group (drained and departed, or abandoned it). From now on it only answers.
    void retire();
    // After that: whether nobody needs its answers, and no transport its memory.
    bool may_go() const;

    // The caller goes away: waiting requests are given up, views released, pooled ones returned to the pool.
    void finish(Request& request);

    // Ranks that died before the group was formed, ascending: those of which everybody knows that, and others.
    void start_with_failed(std::span<const Rank> known_to_all, std::span<const Rank> others);

    // Makes all progress that can be made now; how many things happened. What changes rarely is looked at in some rounds only,
    // unless thoroughly.
    enum class Care : std::uint8_t { usual, thorough };
    std::size_t progress(Care care = Care::usual);
    // True when nothing of this group is waited for by anybody any more: call with progress() until it is, then destroy.
    bool drained();
    // Leaves without waiting: the others are told to count this rank as failed.
    void abandon();
    // Tells the peers that this rank leaves in peace. True when that has left.
    bool depart();

    std::string waiting_for(const Request& request) const;
    std::string window_holder() const;
    // Whom drained() is waiting for.
    std::string leaving_waits_for() const;

    Context& context() const { return *context_; }
    const Members& members() const { return members_; }
    const Settings& settings() const { return settings_; }
    const Router& router() const { return router_; }
    std::uint64_t garbage() const;
    std::uint64_t refused() const;
    Epoch epoch() const { return id_.epoch; }
    std::uint32_t connections() const;
    // What carries messages to the other ranks, for people: "shm within hosts, tcp between them".
    std::string transports() const;
    // What its transports counted, added up.
    transport::Counters counters() const;
    std::uint32_t requests_in_use() const { return requests_in_use_; }
    // More ranks than cores for them: waiting loops must yield at once.
    bool oversubscribed() const { return oversubscribed_.get(); }

    // group_duty.cpp. For a thread that wants to sleep: what on, as TransportSet::arm(), to be followed by progress; the time of the
    // next timer (now_ns(), UINT64_MAX: none); and whether something waits that no descriptor tells of.
    TransportSet::Armed arm();
    std::uint64_t next_timer_ns() const;
    bool waits_for_room() const;
    // Ranks of a host publish without waking anybody.
    std::uint64_t longest_sleep_ns(int descriptor) const {
        return descriptor < 0 || publishing_ ? transport::Idle::kLongestSleepNs
                                             : transport::Idle::kLongestWatchedSleepNs;
    }
    // True when the request has ended; a cheap look before a full progress().
    bool peek(Request& request);

    Result<void> register_memory(const std::byte* address, std::size_t bytes);
    Result<void> deregister_memory(const std::byte* address);

  private:
    // group.cpp: starting, progress, delivery
    Slot& slot_of(Sequence sequence) { return slots_[sequence.value & (settings_.window - 1)]; }
    const Slot& slot_of(Sequence sequence) const { return slots_[sequence.value & (settings_.window - 1)]; }
    bool single_node() const { return members_.nodes() == 1; }
    bool may_start(Rank root);
    Slot* engage(Sequence sequence, Rank root);
    void recycle(Slot& slot);
    std::byte* line_of(Sequence sequence);
    void take_root_payload(Slot& slot, const Call& call);
    void stage(Slot& slot, const std::byte* from, std::size_t bytes);
    void complete(Slot& slot, coppice_status_t status, std::string message = {});
    void deliver(Slot& slot);
    void mark_consumed(Slot& slot);
    void look_for_lines();
    bool look_for_line(Slot& slot);
    void complete_without_payload(Slot& slot, LineKind why);
    Result<void> look_before_start();
    void stage_what_is_in_place(Slot& slot);
    bool look_at_failed_local_peers(Slot& slot, transport::PublishedLine& line) const;
    void tell_failures();
    void end_all(coppice_status_t status, const std::string& why);
    void look_for_other_roots();
    void complete_for_other_root(Slot& slot, std::uint32_t root);
    const std::byte* registered(const std::byte* buffer, std::size_t bytes) const;
    void register_lines();
    void meet_leaders();
    void meet(Rank rank);
    void meet_next();
    std::span<const std::byte> own_lines() const;

    // group_protocol.cpp: machines and messages
    bool message(Rank there, std::span<const std::byte> header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    bool take(Rank from, std::span<const std::byte> header, std::span<const std::byte> payload,
              transport::Buffer buffer);
    bool protocol_message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                          transport::Buffer buffer);
    void control_message(Rank from, const WireHeader& header);
    void ensure_machine(Slot& slot);
    bool adopt_line(Slot& slot);
    void pump(Slot& slot);
    bool send(Slot& slot, const Envelope& message);
    void settle(Slot& slot);
    void wake(Slot& slot);
    void pump_active();
    void send_control(Rank to, WireKind kind, std::uint64_t sequence, std::uint32_t detail);
    void flush_controls();
    void take_pending();

    // group_agreement.cpp
    void agreement_message(Rank from, const WireHeader& header, std::span<const std::byte> body);
    void learn_from(const protocol::FailedSet& failed);
    void progress_agreements(bool thoroughly);

    // group_succession.cpp
    Succession& succession();
    void succession_message(Rank from, const WireHeader& header, std::span<const std::byte> body);
    void progress_succession(bool thoroughly);
    void make_successor(const Heritage& heritage);
    void end_shrink(coppice_status_t status, std::string message = {});
    void note_established();
    bool is_settled() const;
    void drop_successor();

    // group_revocation.cpp
    enum class Source : std::uint8_t { message, local_peer };  // of the news
    void learn_revocation(Rank revoker, Source source);
    void spread_revocation();
    void read_revocations();
    void revocation_message(Rank from, const WireHeader& header);
    bool revocation_is_known();
    void say_on_page(std::uint64_t word);
    std::uint64_t said_on_page(Rank local_peer) const;
    void progress_revoked(bool thoroughly);
    Error revocation() const;

    // group_roots.cpp: who was root of what
    void find_root_words();
    void note_root(Sequence sequence) { root_bits_ |= std::uint64_t{1} << (sequence.value & 63); }
    void publish_root_words();
    void compare_own_roots();
    void look_for_several_roots(Sequence from);
    void look_for_last_roots();
    void tell_of_several_roots(std::uint64_t broadcast, Rank first, Rank second);
    void read_several_roots();

    // group_detector.cpp: evidence of deaths, told and heard; being fenced
    std::size_t poll_wires();
    void look_whether_fenced();
    bool detector_is_due() const;
    void progress_detector();
    void heed_detector();
    void watch(Rank rank);
    void detector_message(Rank from, const WireHeader& header);
    void fenced(Rank by) override;
    void alive(Rank peer) override;
    void be_fenced();

    // group_failure.cpp: deaths and stability
    // Ranks of the transport set, as in message().
    void peer_failed(Rank there, transport::FailureCause cause) override;
    void peer_left(Rank there) override;
    void member_left(Rank rank);
    void read_departures();
    void learn_failure(Rank rank);
    void learn_failures(std::span<const Rank> ranks);
    void take_failure(Rank rank);
    void count_out_of_cores(Rank dead);
    void own_node_lost(Rank rank, bool was_leader);
    void engage_published();
    void other_node_lost(Rank rank, std::uint32_t node, bool was_leader);
    void for_neighbours(const std::function<void(Rank leader, std::uint32_t node)>& tell) const;
    void read_failure_logs();
    void do_without_the_departed();
    void update_stability();
    void wake_leader();
    void wake_local_peers();
    void send_stability();
    void ask_for_room(std::uint64_t wanted);
    void learn_stable(std::uint64_t count);
    void stability_message(Rank from, const WireHeader& header);
    std::uint64_t local_consumed(Rank& slowest) const;

    // group_leaving.cpp: who holds up a rank that leaves
    void ask_who_stays();
    void leaving_asked(Rank from);
    void leaving_answered(Rank from, const WireHeader& header);
    std::optional<Rank> leaving_depends_on() const;

    struct Control {
        Rank to;
        WireHeader header;
    };
    struct PendingMessage {
        Rank from;
        WireHeader header;
        std::vector<std::byte> payload;
    };
    struct Range {
        const std::byte* address;
        std::size_t bytes;
    };

    Context* context_;
    Settings settings_;
    Members members_;
    Router router_;
    transport::Board* board_;
    std::unique_ptr<transport::Board> board_wrapper_;
    Plan plan_;
    GroupId id_;
    bool publishing_;                       // this rank shares its node with others
    shared::Relaxed<bool> oversubscribed_;  // read without the guard, too
    FailureCallback on_failure_;

    Agreements agreements_;
    std::shared_ptr<const protocol::FailedSet> last_agreed_;

    std::unique_ptr<Succession> succession_;
    std::uint32_t undecided_rounds_ = 0;
    std::unique_ptr<Group> successor_;  // made, and not taken yet
    std::vector<std::shared_ptr<bool>> successors_established_;
    Request* shrinking_ = nullptr;
    std::shared_ptr<bool> established_;
    bool claimed_;
    std::uint32_t panel_;
    std::uint32_t cores_;
    std::uint32_t sharing_cores_;

    std::vector<Slot> slots_;
    std::vector<Slot*> active_;  // whose machines may have something to send, or whose callers wait for them
    std::vector<std::byte> private_lines_;
    std::unique_ptr<Request[]> pool_;
    std::vector<Request*> free_requests_;
    std::uint32_t requests_in_use_ = 0;

    Sequence next_;      // of the next broadcast started here
    Sequence consumed_;  // everything before it has been consumed here
    std::uint64_t stable_ = 0;
    std::uint64_t leader_woken_for_ = 0;  // consumed_ when this rank last woke its leader
    Sequence highest_;                    // one past the highest sequence heard of

    protocol::Stability stability_;
    protocol::Detector detector_;
    std::uint64_t looked_ns_ = 0;           // when the wires were polled; kept up where there is a bound of silence
    std::vector<Control> controls_;         // had no room, or were made while polling
    std::deque<PendingMessage> pending_;    // arrived for a slot whose memory is still on its way out
    std::vector<std::uint32_t> logs_read_;  // entries of the failure logs of this node's ranks seen so far
    std::vector<Rank> to_meet_;             // of this host, to be connected with by and by
    std::vector<Rank> departed_peers_;      // left in peace: everything they took part in is stable
    std::uint32_t rounds_ = 0;
    std::uint32_t starts_ = 0;
    std::uint32_t starts_mask_ =
        0;  // with so many calls between them, + 1, things move whether the caller has to wait or not
    std::vector<Rank> lost_roots_;  // of broadcasts that ended without a payload: not learned of yet
    bool told_of_a_death_ = false;  // a caller is told of a death that the leader of its host may have logged just now
    std::vector<Rank> untold_;      // failures that the caller's callback has yet to hear of
    bool flushing_ = false;
    // While it leaves, the rank that holds that up, as those between them have told.
    struct Stays {
        Rank rank;
        bool said_so;  // by itself
        Rank told_by;
        std::uint64_t told_ns;
    };
    std::optional<Stays> stays_;
    std::uint64_t ask_who_stays_at_ns_ = 0;
    bool revoked_ = false;
    Rank revoker_;
    struct SeveralRoots {
        std::uint64_t broadcast;
        Rank first;
        Rank second;
    };
    std::optional<SeveralRoots> several_roots_;
    // Of which of the last broadcasts, modulo 64, this rank was root: not on its page yet.
    std::uint64_t root_bits_ = 0;
    std::uint64_t root_word_ = 0;    // the last word on its page
    Sequence roots_published_;       // the first broadcast that root_bits_ may speak of
    std::uint32_t roots_least_ = 0;  // so many later look_before_start() has them compared
    Sequence roots_looked_at_;       // the first broadcast whose roots have not been compared, of all ranks
    shared::Published<std::uint64_t>* root_words_ = nullptr;
    struct RootWords {
        Rank rank;
        const shared::Published<std::uint64_t>* words;
    };
    std::vector<RootWords> local_root_words_;  // this rank's among them
    std::vector<Rank> unaware_;                // have been told of the revocation, and have not answered
    std::uint64_t leave_revoked_until_ns_ = 0;
    bool outside_knows_ = false;  // of the revocation, as far as this rank has to tell it there
    bool fenced_ = false;         // the others take this rank for dead
    bool departed_ = false;
    bool departs_later_ = false;
    bool farewell_said_ = false;
    std::uint64_t garbage_ = 0;
    std::uint64_t refused_ = 0;
    std::vector<Range> registered_;
};

}  // namespace coppice::engine
