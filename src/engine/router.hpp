// The transports as one group sees them: which one reaches which rank, by the group's own numbers.
//
// The first group of a transport set has the numbers of that set, its seats. Others have their own, dense, in any order. A member
// whose seat another process has taken is out of reach: nothing of the new holder is taken for the old one's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/words.hpp"
#include "engine/transport_set.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {

// The way to one rank: a transport, and what it calls that rank. Empty where nothing leads there.
class Link {
  public:
    Link() = default;
    Link(transport::Transport* wire, Seat there) : wire_(wire), there_(there) {}
    explicit operator bool() const { return wire_ != nullptr; }

    transport::SendStatus send(std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t* in_flight) const {
        return wire_->send(there_, header, payload, in_flight);
    }
    transport::SendStatus write(std::span<const std::byte> header, std::span<const std::byte> payload,
                                std::uint32_t* in_flight) const {
        return wire_->write(there_, header, payload, in_flight);
    }
    std::size_t largest() const { return wire_->largest(there_); }
    void watch() const { wire_->watch(there_); }
    bool is_connected() const { return wire_->is_connected(there_); }
    void say_farewell() const { wire_->say_farewell(there_); }
    void probe() const { wire_->probe(there_); }
    void release(transport::Buffer buffer) const { wire_->release(buffer); }
    bool native_read() const { return wire_->capabilities().native_read; }
    transport::Transport& wire() const { return *wire_; }
    transport::SendStatus read(const transport::RemoteMemory& what, std::span<std::byte> into,
                               const transport::Exposure& own, transport::Reads* reads) const {
        return wire_->read(there_, what, into, own, reads);
    }
    bool may_be_read_there() const { return wire_->may_be_read_by(there_); }
    std::string_view name() const { return wire_->capabilities().name; }
    bool within_host() const { return wire_->capabilities().within_host; }
    std::string description() const { return wire_->description(); }

  private:
    transport::Transport* wire_ = nullptr;
    Seat there_;
};

class Router {
  public:
    // For a group of the set's first `ranks` seats, under their numbers.
    Router(std::shared_ptr<TransportSet> transport_set, std::uint32_t ranks)
        : transport_set_(std::move(transport_set)), ranks_(ranks) {}
    // For a group of some seats of the set: there[r] is that of the group's rank r.
    Router(std::shared_ptr<TransportSet> transport_set, std::vector<Seat> there);
    // Another process takes that seat: none of this group's ranks has it any more.
    void give_up(Seat there);

    Link to(Rank peer) const {
        const Seat there = seat_of(peer);
        return {transport_set_->to(there), there};
    }
    // False also while its address is asked for.
    bool is_wired(Rank peer) const { return transport_set_->is_wired(seat_of(peer)); }
    Seat seat_of(Rank here) const { return there_.empty() ? Seat(here.value) : there_[here.value]; }
    // The group's numbers are the set's.
    bool ranks_are_seats() const { return there_.empty(); }
    // None for seats of processes that are no members.
    std::optional<Rank> rank_at(Seat there) const {
        if (there_.empty()) return there.value < ranks_ ? std::optional(Rank(there.value)) : std::nullopt;
        return find_rank_at(there);
    }

    std::span<const std::unique_ptr<transport::Transport>> wires() const { return transport_set_->wires(); }
    // One of the transports lets messages stay (Batch::keep()).
    bool keeps_batches() const;
    std::size_t poll() const { return transport_set_->poll(); }
    void fence(Rank peer) const { transport_set_->fence(seat_of(peer)); }
    void take_for_dead(Rank peer) const { transport_set_->take_for_dead(seat_of(peer)); }
    const std::shared_ptr<TransportSet>& transport_set() const { return transport_set_; }

    // What is sent while one lives may leave as late as when it ends, several messages to one rank together.
    class Batch {
      public:
        explicit Batch(const Router& router) : router_(router) {
            for (const auto& wire : router_.wires())
                wire->begin_batch();
        }
        ~Batch() {
            if (kept_) return;
            for (const auto& wire : router_.wires())
                wire->end_batch();
        }
        // Ends it so that messages may stay until the next one's end, or a poll. False: none has stayed.
        bool keep() {
            bool some = false;
            for (const auto& wire : router_.wires())
                some = wire->keep_batch() || some;
            kept_ = true;
            return some;
        }
        Batch(const Batch&) = delete;
        Batch& operator=(const Batch&) = delete;

      private:
        const Router& router_;
        bool kept_ = false;
    };

  private:
    void fill_here();
    std::optional<Rank> find_rank_at(Seat there) const;

    std::shared_ptr<TransportSet> transport_set_;
    std::uint32_t ranks_;
    std::vector<Seat> there_;  // empty: the same numbers
    std::vector<Rank> here_;   // by seat, where there_ is not empty; ranks_: nobody's
};

}  // namespace coppice::engine
