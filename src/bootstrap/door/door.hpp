// A member's door: how a process that no launcher has started comes to a group, with a ticket.
//
// Each member of a group that is open (COPPICE_JOIN) listens, and any of them takes a ticket; one keeps the door (hall.hpp), and the others send
// on to it whoever has proved its ticket. Members have a connection to the one that keeps the door, over which they say and hear what they
// would say to a launcher and hear from it. Until it is taken in a newcomer speaks to that door alone, never to a transport of a member.
//
// What a stranger can cost is bounded: so many that have proved nothing, the oldest goes first; so many bytes of each; so long for each step,
// where time counts only while this process looks.
//
// One thread at a time. Nothing here waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/admission.hpp"
#include "bootstrap/door/hall.hpp"
#include "bootstrap/door/ledger.hpp"
#include "bootstrap/door/line.hpp"

namespace coppice::bootstrap {

// What a process hears that is let in.
struct Welcome {
    PersonBody host{};                // whose door it is
    std::vector<std::byte> ledger{};  // what that one remembers
};

class Door final : public Admission {
  public:
    static constexpr std::size_t kMostStrangers = 32;  // that have proved nothing
    static constexpr std::size_t kMostGuests = 64;     // that have, and wait to be let in or sent on
    static constexpr std::uint64_t kSecond = 1'000'000'000;
    static constexpr std::uint64_t kPatienceNs =
        5 * kSecond;  // of a step of the handshake, or of reading the last word
    static constexpr std::uint64_t kGuestPatienceNs = 10 * kSecond;  // until the door is ready for it
    // With a newcomer. Tests have less of it.
    struct Patience {
        std::uint64_t card_ns = 30 * kSecond;  // until it has said how it can be reached
        std::uint64_t wire_ns = 60 * kSecond;  // and until all members reach it
    };

    static constexpr std::uint64_t kBackoffNs = 30'000'000;  // between two calls of a member at the keeper's

    // Listens on this host alone, or where others reach it: at all of its addresses, of which `ips` are told.
    static Result<std::unique_ptr<Door>> open(bool host_only, std::vector<DoorAddress::Ip> ips) {
        return open(host_only, std::move(ips), Patience());
    }
    static Result<std::unique_ptr<Door>> open(bool host_only, std::vector<DoorAddress::Ip> ips,
                                              const Patience& patience);
    // Of a process that was let in at a member's door, over that connection (caller.hpp).
    static Result<std::unique_ptr<Door>> inside(Line line, Welcome welcome, bool host_only,
                                                std::vector<DoorAddress::Ip> ips);
    ~Door() override;

    const DoorAddress& address() const { return address_; }
    // Comes before all other calls but address(); at a newcomer when it has been invited. `group`: what newcomers have to know of it.
    void belong(std::span<const unsigned char> group_secret, const PersonBody& self, std::uint32_t capacity,
                std::span<const std::byte> group);

    int descriptor() const override { return poll_.get(); }
    Result<std::optional<Event>> next() override;
    void tell_card(std::span<const std::byte> group, std::span<const std::byte> card) override;
    void tell_wired(std::uint32_t serial) override { tell(wired_frame(serial)); }
    void tell_unwired(std::uint32_t serial, std::string_view why) override { tell(unwired_frame(serial, why)); }
    void tell_formed(std::span<const PersonBody> newcomers, std::span<const PersonBody> left_out,
                     std::span<const std::byte> group) override {
        tell(formed_frame(newcomers, left_out, group));
    }
    void attend(const Company& company) override;
    bool is_busy() const override { return is_busy_; }
    bool is_witness() const override { return false; }
    Result<std::vector<std::byte>> invite(std::uint32_t uses, std::uint64_t lifetime_ns,
                                          std::span<const DoorAddress> others) override;

  private:
    struct Visitor {
        enum class Kind : std::uint8_t {
            stranger,  // has proved nothing
            guest,     // a newcomer that waits to be let in
            arriving,  // a member that has yet to say what it remembers
            inside,    // of the hall, as `number`
            leaving,   // has been told all that it will be
        };
        Line line;
        Kind kind = Kind::stranger;
        std::uint32_t number = 0;
        std::uint64_t age_ns = 0;  // of this step
    };
    using Visitors = std::map<std::uint64_t, Visitor>;

    explicit Door(const Patience& patience);
    Result<void> listen(bool host_only, std::vector<DoorAddress::Ip> ips);
    bool is_keeper() const;
    bool work();
    // Visitors
    void accept_all();
    void look_at_listener(bool looks);
    void visit(std::uint64_t id);
    void step(std::uint64_t id, Visitor& visitor);
    void proven(Visitor& visitor);
    bool hear(std::uint64_t id, Visitor& visitor, const LauncherFrame& frame);
    bool arrive(std::uint64_t id, Visitor& visitor, const LauncherFrame& frame);
    void let_in(std::uint64_t id, Visitor& visitor);
    void let_guests_in();
    void send_away(Visitor& visitor, FrameKind kind, std::span<const std::byte> body = {});
    void lose(std::uint64_t id);
    void lose_patience();
    bool is_overdue(std::uint64_t id, const Visitor& visitor) const;
    std::optional<Key> key_for(const Knock& knock) const;
    // The hall
    void keep();
    void give_up_keeping();
    void tell_those_inside();
    // As a member at another's door, or as a newcomer
    void call();
    void move_client();
    bool heed(const LauncherFrame& frame);
    void lose_client();
    void tell(const std::vector<std::byte>& frame);
    void note(Event event);
    void watch(int descriptor, std::uint64_t id, bool for_room = false, bool is_known = false);
    void set_timer();

    const Patience patience_;
    Handle poll_;
    Handle timer_;
    Handle listener_;
    // Nothing was left to take a connection with, and nobody looks at it until then. UINT64_MAX: somebody does.
    std::uint64_t listen_again_ns_ = UINT64_MAX;
    DoorAddress address_;
    std::vector<unsigned char> secret_;
    PersonBody self_{};
    std::vector<std::byte> group_;
    std::vector<std::byte> card_;
    std::optional<Ledger> ledger_;
    std::optional<std::vector<std::byte>> ledger_before_;             // of a newcomer, before belong(): the host's
    std::vector<std::pair<TicketUse, PersonBody>> introduced_early_;  // before belong()
    std::optional<Company> company_;                                  // none: not a member yet
    bool is_born_ = false;                                            // but about to be one
    bool is_busy_ = false;
    std::optional<Hall> hall_;
    Visitors visitors_;
    std::vector<std::uint64_t> inside_;  // by number: the visitor; 0: none
    std::uint64_t next_id_;
    std::uint64_t looked_ns_ = 0;
    // Of a member or newcomer
    std::optional<Line> client_;
    bool has_arrived_ = false;        // at that door
    std::optional<PersonBody> host_;  // whose door it is
    std::uint64_t call_at_ns_ = 0;
    std::uint64_t backoff_ns_ = kBackoffNs;
    std::size_t next_ip_ = 0;
    std::deque<Event> events_;
    std::optional<Error> error_;
};

}  // namespace coppice::bootstrap
