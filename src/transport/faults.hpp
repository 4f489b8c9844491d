// Faults on purpose, around any transport and board: for tests, and to see what happens.
//
// The setting (COPPICE_FAULTS; the maker of transports reads it) is a list, separated by commas:
//
//     kill-before:N      SIGKILL to this process instead of its N-th message (from 1)
//     kill-after:N       SIGKILL to this process right after its N-th message
//     kill-at-chunk:N    SIGKILL to this process once it has taken N chunks of large payloads from others (from 1), however they came;
//                        where several come at once, with the one that makes it N or more
//     kill-at-fill:N     SIGKILL to this process, as a root, once it has filled N chunks of the memory for its large payloads (from 1) and
//                        told others of its host of them; where it fills several at once, with the one that makes it N or more
//     delay:RANK:POLLS   messages of RANK are delivered that many polls later
//     hold:RANK          messages to and from RANK are held until let_go(RANK)
//     damage:N           a bit is changed in the N-th message that this process sends over a network with a payload of 1,024 bytes
//                        or more (from 1; any number of times): a chunk of a large payload, which is checked
//     suspect:RANK:POLLS RANK is taken for dead at the POLLS-th poll of its transport (from 1), although it lives
//
// Each may end in "@RANK": it then holds at that rank only, else at all ranks. What counts as a message is each
// send() and write() that was accepted, and each publish(), publish_word() and leave_word() on the board.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/board.hpp"
#include "transport/transport.hpp"

namespace coppice::transport {

struct FaultPlan {
    std::uint64_t kill_before = 0;  // 0: never
    std::uint64_t kill_after = 0;
    std::uint64_t kill_at_chunk = 0;
    std::uint64_t kill_at_fill = 0;
    struct Delay {
        Seat from;
        std::uint64_t polls = 0;
    };
    struct Suspicion {
        Seat of;
        std::uint64_t at_poll = 0;
    };
    std::vector<Delay> delays;
    std::vector<Seat> held;
    std::vector<Suspicion> suspicions;
    std::vector<std::uint64_t> damaged;

    bool empty() const {
        return kill_before == 0 && kill_after == 0 && kill_at_chunk == 0 && kill_at_fill == 0 && delays.empty() &&
               held.empty() && suspicions.empty() && damaged.empty();
    }
};

// What of the setting concerns rank `self`. COPPICE_ERR_CONFIG for anything that is not exactly as described above.
Result<FaultPlan> parse_faults(std::string_view text, Seat self);

// Counts this process's messages, over all its transports and boards, and ends it when their time has come.
class MessageCount {
  public:
    explicit MessageCount(const FaultPlan& plan)
        : before_(plan.kill_before),
          after_(plan.kill_after),
          at_chunk_(plan.kill_at_chunk),
          at_fill_(plan.kill_at_fill),
          damaged_(plan.damaged) {}
    void about_to_send();
    void sent();
    std::uint64_t count() const { return count_; }
    // Of the messages that damage:N counts: whether the next one is to be damaged; and that it was accepted.
    bool damages_next() const;
    void large_sent() { ++large_; }
    // Told by who takes them: some are read where no message comes.
    void chunks_taken(std::uint32_t more);
    // Told by a root that fills them, when the others may know of these.
    void chunks_filled(std::uint32_t more);

  private:
    std::uint64_t before_;
    std::uint64_t after_;
    std::uint64_t at_chunk_;
    std::uint64_t at_fill_;
    std::vector<std::uint64_t> damaged_;
    std::uint64_t count_ = 0;
    std::uint64_t chunks_ = 0;
    std::uint64_t filled_ = 0;
    std::uint64_t large_ = 0;
};

// Wraps `inner`. What it held back or delays is copied, so it can't be kept by the receiver.
class FaultyTransport final : public Transport {
  public:
    // Messages that are held in one direction of one peer, at most; then send() answers `again`.
    static constexpr std::size_t kMaxHeld = 4096;
    // The least payload that damage:N counts.
    static constexpr std::size_t kLarge = 1024;

    FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan, std::shared_ptr<MessageCount> count);
    ~FaultyTransport() override;

    void hold(Seat peer);
    // What was held goes out, and comes in, at the next polls.
    void let_go(Seat peer);

    const Capabilities& capabilities() const override { return inner_->capabilities(); }
    std::string description() const override { return inner_->description(); }
    Counters counters() const override { return inner_->counters(); }
    std::string_view last_error() const override { return inner_->last_error(); }
    std::vector<std::byte> address() const override { return inner_->address(); }
    Result<void> add_peer(Seat peer, std::span<const std::byte> address) override {
        return inner_->add_peer(peer, address);
    }
    void watch(Seat peer) override { inner_->watch(peer); }
    bool is_connected(Seat peer) const override { return inner_->is_connected(peer); }
    SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint32_t* in_flight) override;
    SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                     std::uint32_t* in_flight) override;
    std::size_t largest(Seat to) const override { return inner_->largest(to); }
    void begin_batch() override { inner_->begin_batch(); }
    void end_batch() override { inner_->end_batch(); }
    bool keep_batch() override { return inner_->keep_batch(); }
    std::size_t poll(Receiver& receiver) override;
    // Nothing to sleep on while something is delayed: delays are counted in polls.
    int arm() override;
    Result<void> register_memory(std::span<const std::byte> memory) override { return inner_->register_memory(memory); }
    void deregister_memory(const std::byte* begin) override { inner_->deregister_memory(begin); }
    Result<Exposure> expose(std::span<std::byte> memory) override { return inner_->expose(memory); }
    void withdraw(const Exposure& memory) override { inner_->withdraw(memory); }
    SendStatus read(Seat from, const RemoteMemory& what, std::span<std::byte> into, const Exposure& own,
                    Reads* reads) override {
        return inner_->read(from, what, into, own, reads);
    }
    bool may_be_read_by(Seat peer) const override { return inner_->may_be_read_by(peer); }
    void release(Buffer buffer) override { inner_->release(buffer); }
    void probe(Seat peer) override { inner_->probe(peer); }
    void fence(Seat peer) override;
    void forget(Seat peer) override;
    bool leave() override;
    void say_farewell(Seat peer) override { inner_->say_farewell(peer); }

  private:
    struct Outgoing {
        std::vector<std::byte> header;
        std::vector<std::byte> payload;
        bool is_write = false;
        bool passed_on = false;
        std::uint32_t in_flight = 0;
    };
    struct Incoming {
        std::vector<std::byte> header;
        std::vector<std::byte> payload;
        std::uint64_t due = 0;                // in polls
        std::optional<FailureCause> failure;  // the peer's death, in its place behind its messages
        bool left = false;                    // or its peaceful end
    };
    struct Link {
        Seat peer;
        bool held = false;
        std::uint64_t delay = 0;
        std::deque<Outgoing> out;
        std::deque<Incoming> in;
    };
    class Catcher;

    Link* link(Seat peer);
    Link& make_link(Seat peer);
    SendStatus pass(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint32_t* in_flight, bool is_write);
    SendStatus forward(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                       std::uint32_t* in_flight, bool is_write);
    void send_held(Link& link);
    std::size_t deliver_due(Link& link, Receiver& receiver);

    std::shared_ptr<MessageCount> count_;
    std::uint64_t polls_ = 0;
    std::deque<Link> links_;
    std::vector<FaultPlan::Suspicion> suspicions_;
    std::unique_ptr<Transport> inner_;  // ends before what it may still refer to
};

// Wraps `inner` (not owned): counts what is published.
class FaultyBoard final : public Board {
  public:
    FaultyBoard(Board& inner, std::shared_ptr<MessageCount> count) : inner_(inner), count_(std::move(count)) {}

    std::span<const Rank> members() const override { return inner_.members(); }
    std::uint32_t lines() const override { return inner_.lines(); }
    std::byte* line_memory(Sequence sequence) override { return inner_.line_memory(sequence); }
    void will_publish(Sequence sequence) override { inner_.will_publish(sequence); }
    void publish(Sequence sequence, std::uint32_t length, std::uint32_t root, std::uint32_t detail) override;
    void publish_copy(Sequence sequence, std::span<const std::byte> payload, std::uint32_t root,
                      std::uint32_t detail) override;
    bool look(Rank member, Sequence sequence, PublishedLine& line) const override {
        return inner_.look(member, sequence, line);
    }
    bool copy_published(Rank member, Sequence sequence, std::span<std::byte> to, std::size_t* length) const override {
        return inner_.copy_published(member, sequence, to, length);
    }
    void set_consumed(Sequence sequence) override { inner_.set_consumed(sequence); }
    Sequence consumed(Rank member) const override { return inner_.consumed(member); }
    void set_stable(Sequence sequence) override { inner_.set_stable(sequence); }
    Sequence stable(Rank member) const override { return inner_.stable(member); }
    void log_failure(Rank failed) override { inner_.log_failure(failed); }
    std::uint32_t log_length(Rank member) const override { return inner_.log_length(member); }
    Rank logged(Rank member, std::uint32_t index) const override { return inner_.logged(member, index); }
    Regions::Place find_region(std::string_view name) const override { return inner_.find_region(name); }
    std::byte* own_region(Regions::Place place) override { return inner_.own_region(place); }
    const std::byte* region(Rank member, Regions::Place place) const override { return inner_.region(member, place); }
    void publish_word(shared::Published<std::uint64_t>& word, std::uint64_t value) override;
    void leave_word(shared::Published<std::uint64_t>& word, std::uint64_t value) override;
    Bulk take_bulk(std::size_t bytes, std::uint64_t most) override { return inner_.take_bulk(bytes, most); }
    void give_bulk_back(std::uint64_t place, std::size_t keep) override { inner_.give_bulk_back(place, keep); }
    const std::byte* bulk(Rank member, std::uint64_t place, std::size_t bytes) override {
        return inner_.bulk(member, place, bytes);
    }
    bool alive(Rank member) const override { return inner_.alive(member); }
    bool fenced() const override { return inner_.fenced(); }
    void depart() override { inner_.depart(); }
    bool departed(Rank member) const override { return inner_.departed(member); }
    void wake(Rank member) override { inner_.wake(member); }
    void listen() override { inner_.listen(); }

  private:
    Board& inner_;
    std::shared_ptr<MessageCount> count_;
};

}  // namespace coppice::transport
