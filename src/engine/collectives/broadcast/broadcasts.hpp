// The broadcasts of one group at one rank: drives one protocol machine per broadcast over the transports, and publishes
// within the host.
//
//   arrive → store and publish the payload → machine.receive → machine.next_send → transport
//
// Rules that everything else rests on:
//  - Publish first. Where ranks share a host the leader publishes a payload before it sends anything outside, and
//    what is published outlives it. So whatever a node has ever said stays true while one of its ranks lives.
//  - Nothing is started W or more ahead of what is stable (window.hpp).
//  - A dead rank's messages are refused from the moment its death is known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/collectives/broadcast/machine.hpp"
#include "engine/collectives/broadcast/roots.hpp"
#include "engine/collectives/broadcast/send_plans.hpp"
#include "engine/collectives/broadcast/slot.hpp"
#include "engine/collectives/broadcast/stream.hpp"
#include "engine/collectives/payload/payloads.hpp"
#include "engine/collectives/revocation/revocation.hpp"
#include "engine/collectives/window/window.hpp"
#include "engine/core/core.hpp"
#include "engine/requests/request.hpp"
#include "trace/recorder.hpp"

namespace coppice::engine {

// What a broadcast call says.
struct BroadcastCall {
    std::byte* buffer = nullptr;
    std::size_t bytes = 0;
    Rank root;
    bool view = false;
    bool blocking = false;  // its caller begins no other before it has ended
};

class Broadcasts final : public Collective {
  public:
    Broadcasts(Core& core, Window& window, Revocation& revocation, Payloads& payloads, Plan plan);
    ~Broadcasts();

    std::span<const Channel> channels() const { return {&channel_, 1}; }

    // False while a start would only be told COPPICE_ERR_BUSY. True: it should follow at once.
    bool has_room(Rank root, std::size_t bytes);
    // Which one the next to be started is.
    Sequence next() const { return window_.next(); }
    // Starts a broadcast into `request` (state free), or says why not: COPPICE_ERR_BUSY when the window is full.
    Result<void> start(const BroadcastCall& call, Request& request);
    // A blocking call's shortcut (at_once.hpp): where the broadcast can begin and end well here and now it does; the payload's
    // length goes to `received` if that is not null. False: start() is to follow, nothing has been begun.
    bool at_once(std::byte* buffer, std::size_t bytes, Rank root, std::size_t* received);
    // The same of a call that does not block, whose request (state free) has ended then. Only where ranks publish.
    bool at_once(const BroadcastCall& call, Request& request);

    // A call of this rank in this group waits.
    void note_wait() { stream_.let_go(); }

    Result<void> register_memory(const std::byte* address, std::size_t bytes);
    Result<void> deregister_memory(const std::byte* address);
    // Several ranks of this host are known to have been root of one broadcast: an error that names them.
    std::optional<Error> several_roots() const { return roots_.error(); }

    // Collective
    bool message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    void member_failed(const Death& death) override;
    void member_left(Rank rank) override;
    void progress(bool thorough) override;
    void keep_house() override;
    void end_all(coppice_status_t status, const std::string& why) override;
    std::optional<Error> reason_to_revoke() override;
    bool waits_for_room() const override;
    bool peek(Request& request) override;
    void finish(Request& request) override;
    std::string waiting_for(const Request& request) const override;
    status::Kind kind() const override { return status::Kind::broadcast; }
    void show_waits(const Request& request, status::Waits& waits) const override;
    bool drained() override;
    bool quiet() const override;
    void transports_end() override;

    // Messages of tree and correction that the transports have taken, by Crossing.
    const std::array<std::uint64_t, kCrossings>& sent() const { return sent_; }
    // Leaf switches by which they go; 0: by none.
    std::uint32_t leaves() const { return plan_.placed ? plan_.placed->placement.leaves() : 0; }

  private:
    // broadcasts.cpp: starting, the window's slots, memory
    Slot& slot_of(Sequence sequence) { return slots_[sequence.value & (window_.size() - 1)]; }
    const Slot& slot_of(Sequence sequence) const { return slots_[sequence.value & (window_.size() - 1)]; }
    Slot* engage(Sequence sequence, Rank root) {
        Slot& slot = slot_of(sequence);
        return slot.engaged && slot.sequence == sequence ? &slot : engage_anew(slot, sequence, root);
    }
    Slot* engage_anew(Slot& slot, Sequence sequence, Rank root);
    // May the place be taken from the broadcast that has it, for that one?
    bool is_over(const Slot& slot, Sequence next) const {
        const bool over = slot.consumed && (single_node_ || slot.sequence.value < window_.stable());
        return over && slot.sequence <= next && slot.in_flight == 0;
    }
    void recycle(Slot& slot);
    std::byte* line_of(Sequence sequence);
    Result<void> hold_root_payload(Slot& slot, const BroadcastCall& call);
    void take_root_payload(Slot& slot, const BroadcastCall& call);
    void fill(const Slot& slot, const BroadcastCall& call);
    void stage(Slot& slot, const std::byte* from, std::size_t bytes);
    void stage_any(Slot& slot, const std::byte* from, std::size_t bytes);
    static void note_staged(Slot& slot, const std::byte* line, std::size_t bytes) {
        slot.payload = line;
        slot.length = static_cast<std::uint32_t>(bytes);
        slot.has_payload = true;
    }
    void stage_what_is_in_place(Slot& slot);
    const std::byte* registered(const std::byte* buffer, std::size_t bytes) const;
    std::span<const std::byte> own_lines() const;

    Rank parent_for(Rank root) const;

    // at_once.cpp
    bool look_for_news();
    bool at_once_by_messages(std::byte* buffer, std::size_t bytes, Rank root, std::size_t* received);
    bool nothing_has_happened(Sequence next) const;
    bool room_has_come();
    bool send_at_once(std::span<const std::byte> payload, std::size_t* received);
    bool take_at_once(std::span<std::byte> buffer, Rank root, std::size_t* received);
    bool pump_what_came(Slot& slot, Sequence sequence);
    // The payload of that broadcast is here, and what this rank has to send has left.
    static bool has_done_its_part(const Slot& slot, Sequence sequence) {
        return slot.engaged && slot.sequence == sequence && slot.has_payload && slot.machine &&
               slot.machine.finished() && !slot.unsent;
    }
    void end_at_once(Slot& slot);

    // delivery.cpp: how a broadcast ends for its caller, and the lines of the host's board that tell of it
    void complete(Slot& slot, coppice_status_t status, std::string message = {});
    void deliver(Slot& slot);
    void deliver_described(Slot& slot);
    bool take_what_is_here(const Slot& slot, std::span<const std::byte> payload, std::uint64_t bytes);
    void hand_over(Slot& slot, std::span<const std::byte> payload);
    void note_payload(const Slot& slot, std::size_t bytes) const;
    void truncate(Slot& slot, std::uint64_t bytes);
    void mark_consumed(Slot& slot);
    void look_for_lines();
    bool look_for_line(Slot& slot);
    void complete_without_payload(Slot& slot, LineKind why);
    bool look_at_failed_local_peers(Slot& slot, transport::PublishedLine& line) const;
    void look_for_other_roots();
    void complete_for_other_root(Slot& slot, std::uint32_t root);

    // machines.cpp: between the wire and the protocol machines
    bool late_message(Slot& slot, Rank from, const WireHeader& header);
    bool first_message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                       transport::Buffer buffer);
    bool any_message(Rank from, const WireHeader& header, std::span<const std::byte> payload, transport::Buffer buffer);
    bool protocol_message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                          transport::Buffer buffer);
    bool refuse(const WireHeader& header);
    struct PendingMessage;
    bool keep_for_leader(Rank from, const WireHeader& header, std::span<const std::byte> payload);
    bool keep(std::deque<PendingMessage>& kept, Rank from, const WireHeader& header,
              std::span<const std::byte> payload);
    bool take_root(Slot& slot, Rank from, const WireHeader& header);
    bool take_payload(Slot& slot, Rank from, std::span<const std::byte> payload, transport::Buffer buffer);
    bool hold_payload(Slot& slot, Rank from, std::span<const std::byte> payload, transport::Buffer buffer);
    void ensure_machine(Slot& slot) {
        if (!slot.machine) make_machine(slot);
    }
    void make_machine(Slot& slot);
    bool adopt_line(Slot& slot) { return publishing_ && adopt_published_line(slot); }
    bool adopt_published_line(Slot& slot);
    // Sends what the machine wants sent.
    void pump(Slot& slot) {
        protocol::Broadcast* const tree = slot.unsent ? nullptr : slot.machine.tree();
        if (tree != nullptr && tree->follows_schedule()) [[likely]] {
            if (const SendPlan* const plan = send_plans_.find(slot.root)) {
                pump_by_plan(slot, *tree, *plan);
                return;
            }
        }
        pump_by_asking(slot);
    }
    template <class Pump>
    bool pump_in_stream(Pump&& pump);
    void pump_by_asking(Slot& slot);
    // The same while nobody has failed, of a machine that follows_schedule(). False when a transport had no room.
    bool pump_by_plan(Slot& slot, protocol::Broadcast& machine, const SendPlan& plan) {
        const std::uint32_t first = machine.next_scheduled(plan.schedule);
        return first == protocol::Broadcast::kNothing || send_by_plan(slot, machine, plan, first);
    }
    bool send_by_plan(Slot& slot, protocol::Broadcast& machine, const SendPlan& plan, std::uint32_t number);
    WireHeader header_of(const Slot& slot) const;
    bool send(Slot& slot, const Envelope& message, WireHeader& header);
    void count_sent(transport::SendStatus status, Crossing crossing) {
        if (status == transport::SendStatus::sent) ++sent_[static_cast<std::size_t>(crossing)];
    }
    void settle(Slot& slot);
    // Something has happened to the slot's machine.
    void wake(Slot& slot) {
        if (slot.listed) return;
        slot.listed = true;
        active_.push_back(&slot);
    }
    void pump_active();
    void take_pending();

    // deaths.cpp
    void own_node_lost(const Death& death);
    void engage_published();
    void other_node_lost(const Death& death);
    bool receive_without_root(Slot& slot, const Envelope& envelope);
    void do_without_the_departed();
    void compare_own_roots();
    void compare_roots();

    struct PendingMessage {
        Rank from;
        WireHeader header;
        std::vector<std::byte> payload;
    };
    struct Range {
        const std::byte* address;
        std::size_t bytes;
    };

    Core& core_;
    const Surroundings& around_;
    Controls& controls_;
    Lifecycle& life_;
    Membership& membership_;
    News& news_;
    Window& window_;
    Revocation& revocation_;
    Payloads& payloads_;
    const Settings& settings_;
    const Members& members_;
    const Router& router_;
    transport::Board* board_;
    bool publishing_;
    const bool single_node_;
    Plan plan_;
    Channel channel_;

    trace::Recorder* const trace_;  // null: nothing is traced

    SendPlans send_plans_;
    std::array<std::uint64_t, kCrossings> sent_{};
    bool goes_at_once_;   // at_once() has a way
    const bool streams_;  // messages of a root's broadcasts may stay for those of its next
    Stream stream_;
    std::vector<Slot> slots_;
    std::vector<Slot*> active_;  // whose machines may have something to send, or whose callers wait for them
    std::vector<std::byte> private_lines_;
    std::deque<PendingMessage> pending_;     // arrived for a slot whose memory is still on its way out
    std::deque<PendingMessage> for_leader_;  // and for one that speaks for this host, which is another one yet
    std::vector<Rank> lost_roots_;           // of broadcasts that ended without a payload: not learned of yet
    bool has_more_to_copy_ = false;          // there is more to copy to callers' buffers than one round may
    bool told_of_a_death_ = false;  // a caller is told of a death that the leader of its host may have logged just now
    std::vector<Range> registered_;
    Roots roots_;
    Sequence next_look_;  // the broadcast before which at_once() looks for news; 0 also where it is of no use
    std::uint32_t houses_ = 0;
};

}  // namespace coppice::engine
