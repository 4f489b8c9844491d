// The window of a group's broadcasts at one rank: how many were started, how many its caller has consumed, and how many are
// stable, that is consumed by every live rank.
//
// Nothing is started W or more ahead of what is stable: slot = sequence mod W is free at every rank when a message for it
// arrives. What is stable rides in the header of every message, and goes up and down a tree of nodes by messages of its own
// (protocol/stability/).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/core.hpp"
#include "protocol/stability/stability.hpp"

namespace coppice::engine {

class Window final : public Collective, private Passenger {
  public:
    explicit Window(Core& core);

    Sequence next() const { return next_; }          // of the next broadcast started here
    Sequence consumed() const { return consumed_; }  // everything before it has been consumed here
    std::uint64_t stable() const { return stable_; }
    bool all_consumed() const { return consumed_ == next_; }
    std::uint32_t size() const { return size_; }

    // Whether the next broadcast may start. Where that depends on other ranks they are asked who holds this one up.
    bool may_start(Rank root);
    // The same at a root, as far as this rank knows without asking.
    bool has_known_room() const { return next_.value < stable_ + size_; }
    void note_started() {
        next_.value += 1;
        entered_->set(next_.value);
    }
    // Where the number of broadcasts that this rank has entered is shown; null: nowhere.
    void show_entered_in(shared::Relaxed<std::uint64_t>* where) {
        entered_ = where != nullptr ? where : &unseen_;
        entered_->set(next_.value);
    }
    // The rank that this one waits for when there is no room.
    void show_holder(status::Waits& waits) const;
    // This rank waits until everything before `count` is stable: the ranks that hold it up are asked.
    void ask_for(std::uint64_t count) {
        update();
        if (stable_ < count) ask_for_room(count);
    }
    // Everything before `count` has been consumed here.
    void consume(Sequence count);
    // Both for the next broadcast, where everything before it has been consumed and ranks publish.
    void start_and_consume() {
        const Sequence after(next_.value + 1);
        next_ = consumed_ = after;
        entered_->set(after.value);
        board_->set_consumed(after);
    }
    // The rank that this one waits for, for people.
    std::string holder_name() const;
    // All that was begun is over at every live rank.
    bool is_settled() const { return life_.is_settled_by_departure() || stable_ >= next_.value; }

    // Collective
    bool message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    void member_failed(const Death& death) override;
    void progress(bool /*thorough*/) override {}
    void keep_house() override;
    void before_sleep() override;
    bool peek(Request& /*request*/) override { return true; }  // it has none
    void finish(Request& /*request*/) override {}
    std::string waiting_for(const Request& /*request*/) const override { return {}; }
    bool drained() override;
    std::string leaving_waits_for() const override;
    std::optional<Rank> leaving_depends_on() const override;

  private:
    // Passenger
    std::uint64_t count() const override { return stable_; }
    bool heard(std::uint64_t count) override;
    void pass_on() override;

    void learn_stable(std::uint64_t count);
    void update();
    void send();
    void ask_for_room(std::uint64_t wanted);
    std::uint64_t local_consumed(Rank& slowest) const;
    void wake_leader();

    const Surroundings& around_;
    LocalPeers& local_peers_;
    Controls& controls_;
    const Lifecycle& life_;
    Membership& membership_;
    News& news_;
    const Members& members_;
    transport::Board* board_;
    bool publishing_;
    std::uint32_t size_;

    Sequence next_;
    Sequence consumed_;
    std::uint64_t stable_ = 0;
    shared::Relaxed<std::uint64_t> unseen_;
    shared::Relaxed<std::uint64_t>* entered_ = &unseen_;
    std::uint64_t report_at_ = 0;         // consumed_ from which on others are to hear of it
    std::uint64_t leader_woken_for_ = 0;  // consumed_ when this rank last woke its leader

    protocol::Stability stability_;
};

}  // namespace coppice::engine
