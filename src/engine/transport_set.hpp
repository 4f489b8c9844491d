// The transports of a group, and of all groups shrunk from it: ranks that stay in touch need no new connections.
//
// The set has as many seats as processes may be there at once. The first group's ranks have the first ones, under their numbers; each
// group translates (router.hpp). What arrives goes to the group whose token it carries. Deaths go to all of them. A rank that has left one group in peace, while another one keeps its process in
// touch, answers what still comes for that group with a word that it is gone.
//
// One thread at a time, as groups. Allocates nothing while groups neither come nor go.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/words.hpp"
#include "bootstrap/presence.hpp"
#include "bootstrap/reports.hpp"
#include "engine/lineage.hpp"
#include "engine/seats.hpp"
#include "engine/wire/wire.hpp"
#include "transport/host_memory.hpp"
#include "transport/transport.hpp"

namespace coppice::transport {
class MessageCount;
}

namespace coppice::engine {

class Copying;
class Introductions;

// A group, as its transports see it.
class SetUser : public transport::Receiver {
  public:
    // The group will never hear of that rank of the set again: it is no member, has failed or has left in peace.
    virtual bool is_done_with(Seat there) const = 0;
    // Nor of the process that has its seat next, whatever that one does. Said of ranks with which the group is done.
    virtual void seat_vacated(Seat there) = 0;
    // A group of that epoch may come of this one, here too.
    virtual bool may_precede(Epoch epoch) const = 0;
    // The transports end now: what the group has of them is given back.
    virtual void transports_end() = 0;
};

// A receiver first: so its messages need no other address of it.
class TransportSet final : private transport::Receiver, public Seats {
  public:
    explicit TransportSet(std::uint32_t capacity);
    TransportSet(const TransportSet&) = delete;
    TransportSet& operator=(const TransportSet&) = delete;
    ~TransportSet();

    // --- when the first group is formed
    // Takes a transport; returns its index for route().
    std::uint8_t add(std::unique_ptr<transport::Transport> wire);
    void route(Seat peer, std::uint8_t index) override { route_[peer.value] = index; }
    // Of ranks whose addresses are copied from others: to() leads to where they are wanted, until then. Before leave_unwired().
    void copy_by(std::unique_ptr<Copying> copying);
    // Null: all were wired at the start.
    Copying* copying() const { return copying_.get(); }
    void leave_unwired(Seat peer) { route_[peer.value] = kUnwired; }
    bool is_wired(Seat peer) const override { return route_[peer.value] < wires_.size(); }
    bool is_over(Seat peer) const override;
    // One of the transports, or inside of one.
    void share_host_memory(transport::HostMemory* host_memory) { host_memory_ = host_memory; }
    // Null: none are injected.
    void plant(std::shared_ptr<transport::MessageCount> faults) { faults_ = std::move(faults); }

    transport::Transport* to(Seat peer) const override {
        const std::uint8_t index = route_[peer.value];
        if (index < wires_.size()) [[likely]]
            return wires_[index].get();
        return index == kUnwired ? unwired_.get() : nullptr;
    }
    std::span<const std::unique_ptr<transport::Transport>> wires() const override { return wires_; }
    transport::HostMemory* host_memory() const override { return host_memory_; }
    const std::shared_ptr<transport::MessageCount>& faults() const { return faults_; }

    // --- seats
    std::uint32_t capacity() const override { return directory_.capacity(); }
    // The number of no seat: to() leads nowhere.
    Seat nowhere() const { return Seat(capacity()); }
    Directory& directory() override { return directory_; }
    const Directory& directory() const { return directory_; }
    bool vacate(Seat seat, Ended ended = Ended::perhaps) override;
    void note_end(Seat seat) override;
    // From now on what a launcher says of deaths is heeded, of the first processes of the seats with these numbers.
    void heed(std::unique_ptr<bootstrap::Reports> reports);
    bool heeds_reports() const { return reports_ != nullptr; }
    // That of a member, while its process has it; nowhere() after that.
    Seat seat_of(const Origin& origin) const {
        return directory_.has(origin.seat, origin.incarnation) ? origin.seat : nowhere();
    }
    // From now on processes may come. Null: none do.
    void introduce_by(std::unique_ptr<Introductions> introductions);
    Introductions* introductions() const { return introductions_.get(); }
    // By which a witness knows this process as long as the set is there. Null: none does.
    void attend_by(std::unique_ptr<bootstrap::Presence> presence) { presence_ = std::move(presence); }
    bootstrap::Presence* presence() const { return presence_.get(); }

    // --- groups
    // From now on the group gets what carries its token, what came too early included, and all deaths. It tells of those that
    // are known here already.
    void attach(std::uint32_t token, SetUser& group);
    // Ranks that still write to it are told that this one has left it in peace; or, with its number there, that it counts as failed.
    void detach(const SetUser& group, std::optional<Rank> failed_as = std::nullopt);
    // How many groups are attached whose callers have not left them.
    std::uint32_t users() const { return users_; }
    // Whether there has ever been more than one.
    bool is_shared() const { return shared_; }
    // The caller of an attached group has left it; it stays for late questions only.
    void retire() { --users_; }
    // No caller has a group here any more, and none of the groups is asked anything. Before the memory of the first of them goes: what is under
    // way leaves from there, until the transports have ended.
    void end();
    // Its board is not used here any more. The panel is closed when those of its other members that live have left it, too: one that goes on
    // in no later group still reads there, and nobody asks it for a panel.
    void close_board(std::uint32_t panel, std::vector<Rank> others);
    // Those that nobody reads any more. Before closed_panels().
    void close_boards();

    // A group of which this rank is to be a member may be made at other ranks earlier than here: what comes for it is kept
    // meanwhile. Ends with attach(), or with expect_no_more(). What comes for one that may come of a group that is here is kept, too:
    // ranks that have taken this one for dead may have made it a member before its caller has asked for that.
    void expect_group() { ++expected_; }
    void expect_no_more();

    std::size_t poll();
    // What to sleep on, as Transport::arm() of all of them: poll once more before. `descriptor` −1: nothing, or not now.
    // `complete`: whatever happens shows there. `unheard`: one of them has no descriptor to sleep on now, so its messages wake nobody; false
    // where there are no transports.
    struct Armed {
        int descriptor = -1;
        bool complete = false;
        bool unheard = false;
    };
    Armed arm();
    // A group takes the rank for dead. Once all groups are done with it, and none is being made in which it may be well, nothing
    // of it is delivered any more, to any of them, and it is told, where its transport can.
    void fence(Seat peer);
    void take_for_dead(Seat peer) override;
    // To be called when `from` has sent a message of `group`, in which this rank takes it for dead. Where it is not cut off yet, it is sent the
    // notice that rank `itself`, its own, has failed: in a renewal it would wait for this rank for ever.
    void answer_one_to_fence(Seat from, const GroupId& group, Rank itself);

  private:
    static constexpr std::uint8_t kNobody = 0xff;
    static constexpr std::uint8_t kUnwired = 0xfe;
    // More than ranks that keep to their windows can send.
    static constexpr std::size_t kMostEarly = 65536;
    // Of a rank that does not sleep, between two looks at what the launcher says; and between two at the clock, whether it is time for
    // one: a rank that gives its core away polls seldom.
    static constexpr std::uint32_t kPollsPerLook = 4096;
    static constexpr std::uint32_t kPollsPerClock = 32;

    struct Attached {
        std::uint32_t token;
        SetUser* group;
    };
    struct Early {
        Seat from;
        std::vector<std::byte> header;
        std::vector<std::byte> payload;
    };
    // A group that is gone here, and what those are told that write to it.
    struct Past {
        std::uint32_t token;
        std::optional<Rank> failed_as;
    };
    struct Reply {
        Seat to;
        GroupId group;
        MembersKind kind;
        std::uint64_t sequence = 0;
        Rank about{0};
    };

    struct ReadBoard {
        std::uint32_t panel;
        std::vector<Rank> readers;
    };

    bool message(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    std::byte* place(Seat from, std::span<const std::byte> header, std::size_t bytes, std::size_t here) override;
    void peer_failed(Seat peer, transport::FailureCause cause) override;
    void peer_left(Seat peer) override;
    void fenced(Seat by) override;
    void alive(Seat peer) override;
    bool message_to_one(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload);
    bool stranger(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload);
    bool may_come(std::span<const std::byte> header) const;
    void answer_stranger(Seat from, const WireHeader& seen);
    void answer_what_came_too_early();
    void answer_beat(Seat from, const WireHeader& beat);
    void send_replies();
    bool sleep_on(int descriptor, int& known);
    void fence_where_all_are_done();
    void look_outside();

    std::unique_ptr<Copying> copying_;               // outlives the transports, which may refer to its letters
    std::unique_ptr<transport::Transport> unwired_;  // null where nothing is copied
    std::vector<std::unique_ptr<transport::Transport>> wires_;
    Directory directory_;
    std::vector<std::uint8_t> route_;  // by seat, and nowhere
    int sleep_set_ = -1;               // epoll, of what several transports sleep on
    std::vector<int> sleep_on_;        // by transport, as in that set
    int sleep_on_introductions_ = -1;  // likewise
    int sleep_on_reports_ = -1;        // likewise
    transport::HostMemory* host_memory_ = nullptr;
    std::shared_ptr<transport::MessageCount> faults_;
    std::vector<ReadBoard> read_boards_;
    std::vector<Attached> groups_;
    std::uint32_t users_ = 0;
    bool shared_ = false;
    std::uint32_t expected_ = 0;
    std::vector<Early> early_;
    std::vector<Reply> replies_;
    std::vector<Past> past_;
    // Of the processes that have their seats now.
    std::vector<Seat> dead_;
    std::vector<Seat> to_fence_;  // dead to some groups only, so far
    std::vector<Seat> gone_;      // left in peace
    std::unique_ptr<Introductions> introductions_;
    std::unique_ptr<bootstrap::Presence> presence_;
    std::unique_ptr<bootstrap::Reports> reports_;
    bool looks_outside_ = false;  // there are such
    std::uint32_t polls_ = 0;     // since they were looked at
};

}  // namespace coppice::engine
