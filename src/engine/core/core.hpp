// The core of a group at one rank: who is in it and who has failed, what the ranks tell each other about that, and how the group
// begins and ends. The group's components stand around it (collective.hpp).
//
// One thread at a time (the context locks). Nothing is allocated, logged or locked after the group was made while nobody dies.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/shared_words.hpp"
#include "engine/core/collective.hpp"
#include "engine/core/lineage.hpp"
#include "engine/core/members.hpp"
#include "engine/core/wire.hpp"
#include "engine/router.hpp"
#include "engine/settings.hpp"
#include "protocol/departure/departure.hpp"
#include "protocol/detector/detector.hpp"
#include "transport/board.hpp"

namespace coppice::engine {

class Context;

// A count that rides in the header of every message.
class Passenger {
  public:
    virtual std::uint64_t count() const = 0;
    // False when it can't be.
    virtual bool heard(std::uint64_t count) = 0;
    // Tells others of it what is new to them.
    virtual void pass_on() = 0;

  protected:
    ~Passenger() = default;
};

// Whether deaths are to be taken in yet. A witness may say soon that they are certain, and without that word they would cost this
// rank's side the quorum.
class DeathJudge {
  public:
    virtual bool awaits_witness(const protocol::FailedSet& news) const = 0;

  protected:
    ~DeathJudge() = default;
};

class Core final : private SetUser {
  public:
    // How long deaths are held back at most. The launcher looks every 20 ms; one that is stopped, or gone, has not spoken by then.
    static constexpr std::uint64_t kWitnessTimeNs = 2'000'000'000;
    // How often a rank that waits for that looks.
    static constexpr std::uint64_t kWitnessLookNs = 5'000'000;

    using FailureCallback = std::function<void(Rank)>;

    struct Parts {
        Context* context = nullptr;
        Settings settings;
        Members members;
        Router router;
        transport::Board* board = nullptr;  // owned by one of the router's transports; null where nobody shares a host
        std::unique_ptr<transport::Board> board_wrapper = nullptr;  // around that one, when faults are injected
        GroupId id;
        std::uint32_t cores = 1;          // that this process may run on
        std::uint32_t sharing_cores = 1;  // ranks of this group on this host that may run only there
        FailureCallback on_failure;
        std::uint32_t panel = 0;    // of `board`
        bool is_successor = false;  // of a group that was shrunk: its caller has yet to claim it
        Lineage lineage{};          // of the members

        // Where ranks share memory: sets `board`, in that panel, and counts `sharing_cores` anew. Elsewhere nobody knows where they run.
        void open_board();
    };
    explicit Core(Parts parts);
    ~Core();

    // Components in the order in which they are called, each with the channels that are its own.
    void add(Collective& collective, std::span<const Channel> channels);
    void carry(Passenger& passenger) { passenger_ = &passenger; }
    void heed(const DeathJudge& judge) { judge_ = &judge; }
    // From now on messages and deaths come in; and no more of them.
    void open();
    void close();

    Context& context() const { return *context_; }
    const Settings& settings() const { return settings_; }
    const Members& members() const { return members_; }
    const Router& router() const { return router_; }
    const GroupId& id() const { return id_; }
    const Lineage& lineage() const { return lineage_; }
    // Null where nobody shares a host.
    transport::Board* board() const { return board_; }
    std::uint32_t panel() const { return panel_; }
    std::uint32_t cores() const { return cores_; }
    std::uint32_t sharing_cores() const { return sharing_cores_; }
    bool publishing() const { return publishing_; }  // this rank shares its node with others
    bool single_node() const { return members_.nodes() == 1; }
    // Of this group, on this host: with more than one each waiting loops must yield at once. Read without the guard, too.
    std::uint32_t ranks_per_core() const { return ranks_per_core_.get(); }
    // Of the context's clock.
    std::uint64_t now_ns() const;
    // Whether functions of the application may be called now.
    bool may_call_back() const;

    // --- standing: whether this rank takes part in the group's operations
    enum class Standing : std::uint8_t {
        member,
        revoked,  // some rank has ended everything but leaving and shrinking
        fenced,   // the others take this rank for dead; final
    };
    Standing standing() const { return standing_; }
    bool fenced() const { return standing_ == Standing::fenced; }
    bool revoked() const { return standing_ == Standing::revoked; }
    void note_revoked() {
        standing_ = Standing::revoked;
        familiar_.forget();
    }
    // The others take this rank for dead: they refuse what it says and do not wait for it, so nothing here can go on.
    void be_fenced();
    void look_whether_fenced();
    // As far as this rank can know without a message: what it reads of its host's memory may be of later operations already.
    bool taken_for_dead() const;
    // Before something is begun: makes progress now and then, in all groups of the context, so that a rank that never has to
    // wait learns of what is new. An error where this rank takes part in nothing any more.
    Result<void> look_before_start();
    // What that does now and then. And how many starts may pass from one time to the next without a look: none where each
    // has something to do.
    void look_for_news();
    std::uint32_t starts_without_a_look() const;
    // Ends what waits, in every component.
    void end_all(coppice_status_t status, const std::string& why);
    // Why the group was revoked, where a component did it.
    std::optional<Error> reason_to_revoke();

    // The caller waits until it may leave, or it has given up while others may ask this rank.
    bool leaving() const { return stage() == Stage::leaving || stage() == Stage::deserting; }

    // --- control messages: no payload, kept until a transport takes them
    void send_control(Rank to, Tag tag, std::uint64_t sequence = 0, std::uint32_t detail = 0);
    void flush_controls();
    bool controls_wait() const { return !controls_.empty(); }
    bool controls_wait_for(Rank to) const;
    void note_garbage() { ++garbage_; }
    void note_refused() { ++refused_; }

    // --- failures
    void learn_failure(Rank rank);
    // What many deaths change in rings and trees is looked at once.
    void learn_failures(std::span<const Rank> ranks);
    // What a component's messages have told. That a rank has left in peace looks the same there, and only at a group's end.
    void learn_from(const protocol::FailedSet& failed);
    // Ranks that left in peace: everything that they took part in is over for all.
    std::span<const Rank> departed() const { return departure_.departed(); }
    void member_left(Rank rank);
    void member_left_without_vote(Rank rank);
    void read_failure_logs();
    // What members of this host, dead or alive, have written down that concerns components.
    void hear_last_words();
    // Has the wire's evidence of this rank's death, should it die, reach this one.
    void watch(Rank rank);
    // One that has left in peace has taken part in everything that its own calls began. In what this rank has begun beyond that it
    // counts as failed.
    void do_without_the_departed();
    // Ranks that died before the group was formed, ascending: those of which everybody knows that, and others.
    void start_with_failed(std::span<const Rank> known_to_all, std::span<const Rank> others);
    // Ranks that are gone, have voted for nothing in this group, and never will: those that have missed an exchange without which no rank has
    // it, and those that have said so when they left in peace.
    void note_voteless(std::span<const Rank> ranks);
    const protocol::FailedSet& voteless() const { return voteless_; }
    // Tells other hosts which ranks of this one have failed, these included, and live; again when ranks have been lost.
    void tell_of_the_living(const protocol::FailedSet& more);
    // Those of other hosts that have failed and live, as this rank was told.
    const protocol::FailedSet& still_alive() const { return still_alive_; }

    // --- the host's board
    void wake_leader();
    void wake_local_peers();
    // Another thing to do now that deaths have made boards useless for messages: see meet_leaders().
    void meet_leaders();

    // --- progress
    enum class Care : std::uint8_t { usual, thorough };
    std::size_t progress(Care care = Care::usual);
    // Takes in what has arrived, no more, for a caller that looks after its own component; and where something has come that is
    // looked at rarely, makes the rest of the progress, too.
    void take_in(bool count_concerns_components) {
        if (settings_.detection_bound.value == 0)
            router_.poll();
        else
            poll_wires();
        if (has_news()) attend_to_news(count_concerns_components);
    }
    bool has_news() const { return count_moved_ || look_soon_ || !untold_.empty() || !controls_.empty(); }
    // All that there is to do where nothing but the passenger's count is news, and no component waits for that, is to pass it on.
    void attend_to_news(bool count_concerns_components);
    // Something has changed that is looked at rarely: it is looked at when this round, or the next one, ends.
    void look_soon() { look_soon_ = true; }
    // A component has done work that takes long, and may have more: a caller that waits goes on at once.
    void note_work() { ++work_; }
    // The passenger has something to pass on.
    void count_moved() { count_moved_ = true; }
    std::uint64_t next_timer_ns() const;
    bool waits_for_room() const;
    // Asks the clock: for a group to whose turn nobody has come for long.
    bool timer_is_due() const;

    // --- the caller comes and goes
    void claim(FailureCallback on_failure);
    bool drained();
    std::string leaving_waits_for() const;
    void show_leaving(status::Waits& waits) const;
    // A member that has left in peace knew that everything was over for all, although its messages may be lost.
    bool is_settled_by_departure() const { return departure_.is_settled(); }
    void abandon(bool may_be_asked);
    void go_on_leaving(bool may_be_asked);
    bool depart(bool may_be_asked);
    void retire();
    bool quiet() const;

    std::uint64_t garbage() const { return garbage_; }
    std::uint64_t refused() const { return refused_; }

  private:
    // core.cpp: what comes behind a poll
    void attend(std::size_t events, Care care);

    // life.cpp
    void meet(Rank rank);
    void meet_next();

    // core.cpp: messages
    bool message(Seat there, std::span<const std::byte> header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    std::byte* place(Seat there, std::span<const std::byte> header, std::size_t payload_length,
                     std::size_t here) override;
    // Ranks are known under the numbers of the set, nobody has failed, and messages are for components: nothing has to be asked
    // about their sender but who it is.
    bool takes_part_as_ever() const {
        return router_.ranks_are_seats() && !revoked() && stage() != Stage::left && members_.failed_ranks().empty();
    }
    // Where ranks are seats.
    Seat own_seat() const { return Seat(members_.self().value); }
    bool strange_message(Seat there, std::span<const std::byte> bytes, std::span<const std::byte> payload,
                         transport::Buffer buffer);
    bool take(Rank from, std::span<const std::byte> header, std::span<const std::byte> payload,
              transport::Buffer buffer);
    bool hear_count(std::uint64_t count);
    void members_message(Rank from, const WireHeader& header);

    // leaving.cpp
    using Stage = protocol::Departure::Stage;
    Stage stage() const { return departure_.stage(); }
    void end_stage(Stage before, bool transports_stay);
    void departure_message(Rank from, const WireHeader& header);
    bool takes_transports_along() const;
    std::optional<Seat> holder_of_addresses() const;
    void note_dependence(Nanoseconds now);
    void send_departures();
    void say_farewell();
    void say_that_it_never_voted();
    bool has_voted() const;

    // detection.cpp
    std::size_t poll_wires();
    bool detector_is_due() const;
    void progress_detector();
    void excuse_the_unknown();
    void send_beat(Rank to, Beat beat);
    void heed_detector();
    void fenced(Seat there) override;
    void alive(Seat there) override;

    // failures.cpp
    void peer_failed(Seat there, transport::FailureCause cause) override;
    void peer_left(Seat there) override;
    bool is_done_with(Seat there) const override;
    void seat_vacated(Seat there) override {
        router_.give_up(there);
        familiar_.forget();
    }
    bool may_precede(Epoch epoch) const override;
    void transports_end() override;
    bool hold_back(const protocol::FailedSet& news);
    void look_at_held_back();
    void take_failures(std::span<const Rank> ranks);
    bool take_failure(Rank rank);  // whether it is news; its caller wakes the local peers
    void spread_failure(Rank rank);
    bool is_dead_after_all(Rank rank);
    bool is_heard_out(Rank from, Tag tag) const;
    void note_living(Rank from, std::uint32_t about);
    void tell_failures();
    // Of so many cores, rounded up.
    static std::uint32_t ranks_for_each(std::uint32_t cores, std::uint32_t ranks) {
        return (ranks + cores - 1) / cores;
    }
    void count_out_of_cores(Rank dead);
    void read_departures();

    struct Control {
        Rank to;
        WireHeader header;
    };

    Context* context_;
    Settings settings_;
    Members members_;
    Router router_;
    transport::Board* board_;
    std::unique_ptr<transport::Board> board_wrapper_;
    GroupId id_;
    Lineage lineage_;
    std::uint32_t panel_;
    std::uint32_t cores_;
    std::uint32_t sharing_cores_;
    bool publishing_;
    shared::Relaxed<std::uint32_t> ranks_per_core_;

    std::vector<Collective*> collectives_;
    std::array<Collective*, kChannels> by_channel_{};
    Passenger* passenger_ = nullptr;
    std::uint64_t heard_count_ = 0;  // that the passenger has accepted last; it accepts it again
    // Of one of its channels that are frequent, with that count. Nothing is familiar but while this rank takes_part_as_ever(): what
    // changes that forgets it.
    Familiar familiar_;
    Collective* familiar_to_ = nullptr;  // whose that channel is
    Standing standing_ = Standing::member;
    bool unclaimed_;  // made by a shrink, and not taken by the caller yet

    protocol::Departure departure_;
    protocol::Detector detector_;
    const DeathJudge* judge_ = nullptr;  // null: all deaths are taken in at once
    protocol::FailedSet held_back_;      // deaths that a witness may speak of
    std::uint64_t held_until_ns_ = 0;
    std::uint64_t looked_ns_ = 0;  // when the wires were polled; kept up where there is a bound of silence
    std::uint32_t rounds_ = 0;
    bool look_soon_ = false;
    std::size_t work_ = 0;  // since the last progress
    bool count_moved_ = false;
    bool hears_of_the_end_ = false;    // of ranks that may have left, and live: learn_from(), do_without_the_departed()
    std::vector<Rank> may_have_left_;  // that this rank does without since: the others hear nothing of it
    std::uint32_t starts_ = 0;
    std::uint32_t starts_mask_;  // with so many calls between them, + 1, there is progress in any case
    protocol::FailedSet voteless_;
    protocol::FailedSet still_alive_;
    std::set<std::pair<Rank, Rank>> living_told_;  // of which, and whom
    protocol::FailedSet ended_early_;              // before this rank had formed the group, and after all had met
    std::vector<std::uint32_t> logs_read_;         // entries of the failure logs of this node's ranks seen so far
    bool retired_ = false;
    std::vector<Rank> to_meet_;  // of this host, to be connected with by and by
    FailureCallback on_failure_;
    std::vector<Rank> untold_;       // failures that the caller's callback has yet to hear of
    std::vector<Control> controls_;  // had no room, or were made while polling
    std::uint64_t garbage_ = 0;
    std::uint64_t refused_ = 0;
};

}  // namespace coppice::engine
