// Where processes that come later wait until a group takes them in: the part of the launcher, or of the member at whose door they wait. A pure
// machine: calls and deaths in, frames out (launcher_protocol.hpp has them). "The launcher" is either of the two here.
//
// Members of the group, and newcomers, say how they can be reached (a card). The launcher tells each of the others, and each says
// when it has made what it takes to reach it. A newcomer is *ready* when it and all members, and it and all newcomers that are ready already, can
// reach each other: so one that stops or dies on its way delays nobody. All are told which are ready; which of these the next group has is
// the members' to agree on. They tell the launcher, which passes it on to those that are in.
//
// Cards and what else ranks say to each other are bytes to the launcher. A newcomer that can't be reached is told why, and is not waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/launcher_protocol.hpp"

namespace coppice::bootstrap {

class Lobby {
  public:
    using Bytes = std::vector<std::byte>;
    struct Send {
        std::uint32_t to = 0;  // a number
        std::shared_ptr<const Bytes> frame;
        bool is_last = false;  // its connection is to be closed then
    };

    // The first `members` numbers are those of the processes that begin together.
    Lobby(std::uint32_t members, std::uint32_t capacity);

    // --- facts
    // A process is a member already, and nobody has that number here: where others began before this lobby did.
    void adopt(std::uint32_t number, std::uint32_t incarnation);
    // A process was started late, as that number, whose earlier one has ended: that number's next incarnation, or a later one.
    void started_late(std::uint32_t number, std::uint32_t least_incarnation = 0);
    void ended(std::uint32_t number);
    // It calls. Empty, or why it is not let in.
    std::string enter(std::uint32_t number, bool is_newcomer);
    // It has closed its connection. Does nothing for one that has not entered.
    void left(std::uint32_t number);
    // A frame of one that has entered, but for its farewell. False for what can't be.
    bool hear(std::uint32_t number, FrameKind kind, std::span<const std::byte> body);
    // What such frames say. False for what can't be.
    bool card(std::uint32_t number, std::span<const std::byte> group, std::span<const std::byte> card);
    bool wired(std::uint32_t number, std::uint32_t about);
    bool unwired(std::uint32_t number, std::uint32_t about, const std::string& why);
    // The next group has these newcomers, and these members no more, whether their processes live or not: nobody waits for them. Where two
    // sides leave each other out, the first word counts.
    bool formed(std::uint32_t number, std::span<const PersonBody> newcomers, std::span<const PersonBody> left_out,
                std::span<const std::byte> group);

    // Tells it why, and forgets it.
    void refuse(std::uint32_t number, const std::string& why);

    // --- pulled
    std::optional<Send> next();

    // --- looking
    // Some member lives, or may come to be one.
    bool has_members() const;
    // The process that has the number now was started late, and no group has taken it in.
    bool is_waiting(std::uint32_t number) const { return places_[number].is_late && !places_[number].was_taken_in; }
    std::uint32_t incarnation(std::uint32_t number) const { return places_[number].incarnation; }
    // How much is kept of who knows whom: it grows with those that are there, and not with those that were.
    std::size_t kept() const;

  private:
    // The process that has a number now.
    struct Place {
        std::uint32_t incarnation = 0;  // how many had it before
        std::uint32_t serial = 0;
        bool was_started = false;
        bool is_late = false;
        bool lives = false;
        bool has_called = false;
        bool has_entered = false;  // and has not left
        bool is_member = false;    // lives, and the group needs it
        bool was_taken_in = false;
        bool was_left_out = false;
        bool is_ready = false;
        std::optional<Bytes> card;
        std::set<std::uint32_t> told;     // serials: that it has to wire
        std::set<std::uint32_t> wired;    // and has
        std::set<std::uint32_t> refused;  // or can't
    };

    bool counts(const Place& place) const { return place.lives && (place.is_member || place.is_ready); }
    Place* find(std::uint32_t serial);
    void introduce(const Place& who, std::uint32_t to);
    void invite(std::uint32_t number);
    void review();
    void tell_ready(std::uint32_t number);
    void go(std::uint32_t number);
    void send(std::uint32_t to, FrameKind kind, const Bytes& body);

    std::uint32_t next_serial_;
    std::vector<Place> places_;  // by number
    std::optional<Bytes> group_;
    std::deque<Send> sends_;
};

}  // namespace coppice::bootstrap
