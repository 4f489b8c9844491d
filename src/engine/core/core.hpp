// The core of a group at one rank. It takes in what arrives and hands it to the group's components (collective.hpp), makes progress, and
// owns the group's parts: its members (members.hpp), the deaths and departures that are known and those that hear of them
// (membership.hpp, subscribers.hpp), control messages (controls.hpp), the life of the group (lifecycle.hpp) and its end (leaving.hpp).
// A component takes of these what it needs.
//
// One thread at a time (the context locks). Nothing is allocated, logged or locked after the group was made while nobody dies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "engine/core/leaving.hpp"

namespace coppice::engine {

class Core final : private SetUser {
  public:
    using Parts = GroupParts;

    explicit Core(Parts parts);
    ~Core();

    // Components in the order in which they are called, each with the channels that are its own.
    void add(Collective& collective, std::span<const Channel> channels);
    void carry(Passenger& passenger);
    // From now on messages and deaths come in; and no more of them.
    void open();
    void close();

    // --- its parts
    const Surroundings& around() const { return around_; }
    const Members& members() const { return members_; }
    LocalPeers& local_peers() { return local_peers_; }
    const LocalPeers& local_peers() const { return local_peers_; }
    Controls& controls() { return controls_; }
    const Subscribers& subscribers() const { return subscribers_; }
    Lifecycle& life() { return life_; }
    const Lifecycle& life() const { return life_; }
    Membership& membership() { return membership_; }
    const Membership& membership() const { return membership_; }
    News& news() { return news_; }
    const News& news() const { return news_; }

    // --- progress
    enum class Care : std::uint8_t { usual, thorough };
    std::size_t progress(Care care = Care::usual);
    // Takes in what has arrived, no more, for a caller that looks after its own component; and where something has come that is
    // looked at rarely, makes the rest of the progress, too.
    void take_in(bool count_concerns_components) {
        if (around_.settings().detection_bound.value == 0)
            around_.router().poll();
        else
            membership_.poll_wires();
        if (has_news()) attend_to_news(count_concerns_components);
    }
    bool has_news() const { return news_.wait() || membership_.has_untold() || controls_.wait(); }
    // All that there is to do where nothing but the passenger's count is news, and no component waits for that, is to pass it on.
    void attend_to_news(bool count_concerns_components);
    std::uint64_t next_timer_ns() const;
    bool waits_for_room() const;

    // Before something is begun: makes progress now and then, in all groups of the context, so that a rank that never has to
    // wait learns of what is new. An error where this rank takes part in nothing any more.
    Result<void> look_before_start();
    // What that does now and then. And how many starts may pass from one time to the next without a look: none where each
    // has something to do.
    void look_for_news();
    std::uint32_t starts_without_a_look() const;
    void look_whether_fenced();

    // --- the caller comes and goes
    // Of a successor: its caller has it now, and is told of all deaths since it was made.
    void claim(FailureCallback on_failure);
    bool drained();
    const Leaving& leaving() const { return leaving_; }
    Leaving& leaving() { return leaving_; }
    // For one that its caller has left: what was put off then.
    void go_on_leaving(bool may_be_asked);
    void retire();
    bool quiet() const;

  private:
    // What comes behind a poll.
    void attend(std::size_t events, Care care);

    // --- messages
    bool message(Seat there, std::span<const std::byte> header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    std::byte* place(Seat there, std::span<const std::byte> header, std::size_t payload_length,
                     std::size_t here) override;
    // Ranks are known under the numbers of the set, nobody has failed, and messages are for components: nothing has to be asked
    // about their sender but who it is.
    bool takes_part_as_ever() const {
        return around_.router().ranks_are_seats() && !life_.revoked() && !life_.has_left() &&
               members_.failed_ranks().empty();
    }
    // Where ranks are seats.
    Seat own_seat() const { return Seat(members_.self().value); }
    bool strange_message(Seat there, std::span<const std::byte> bytes, std::span<const std::byte> payload,
                         transport::Buffer buffer);
    bool take(Rank from, std::span<const std::byte> header, std::span<const std::byte> payload,
              transport::Buffer buffer);
    // The others may have gone on without a rank that they take for dead: it need not know of what they speak.
    bool is_not_understood() {
        life_.fenced() ? news_.note_refused() : news_.note_garbage();
        return false;
    }
    bool hear_count(std::uint64_t count);
    bool hold_message(Rank from, const WireHeader& header, std::span<const std::byte> payload);
    void take_held_messages();
    void members_message(Rank from, const WireHeader& header);

    // --- of the transport set
    void peer_failed(Seat there, transport::FailureCause cause) override;
    void peer_left(Seat there) override;
    void fenced(Seat there) override { membership_.fenced_by(there); }
    void alive(Seat there) override { membership_.alive(there); }
    bool is_done_with(Seat there) const override;
    void seat_vacated(Seat there) override {
        around_.router().give_up(there);
        news_.familiar().forget();
    }
    bool may_precede(Epoch epoch) const override;
    void transports_end() override;

    Surroundings around_;
    Members members_;
    LocalPeers local_peers_;
    News news_;
    Controls controls_;
    Subscribers subscribers_;
    Lifecycle life_;
    Membership membership_;
    Leaving leaving_;

    std::array<Collective*, kChannels> by_channel_{};
    Collective* familiar_to_ = nullptr;  // whose the channel of what is familiar is
    Passenger* passenger_ = nullptr;
    // Of those that rest on deaths (carries_failures()), while this rank holds deaths back.
    struct HeldMessage {
        Rank from;
        WireHeader header;
        std::vector<std::byte> payload;
    };
    static constexpr std::size_t kMostHeldMessages = 4096;
    std::vector<HeldMessage> held_messages_;
    std::uint64_t heard_count_ = 0;  // that the passenger has accepted last; it accepts it again
    std::uint32_t rounds_ = 0;
    std::uint32_t starts_ = 0;
    std::uint32_t starts_mask_;  // with so many calls between them, + 1, there is progress in any case
};

}  // namespace coppice::engine
