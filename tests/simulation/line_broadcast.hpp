// A broadcast on a ring that is cut open between its last position and its first, as the papers' simulator has it for
// overlapped checked and for plain opportunistic correction. The machine is ours; this only keeps the two ends apart.
#pragma once

#include "protocol/broadcast.hpp"

namespace coppice::simulation::testing {

class LineBroadcast {
  public:
    using Message = protocol::Message;

    LineBroadcast(const protocol::BroadcastPlan& plan, Position self, const protocol::FailedSet& failed)
        : broadcast_(plan, self, 0, failed, self.value == 0),
          self_(self),
          last_(plan.tree.processes() - 1),
          checked_(plan.correction.kind == protocol::CorrectionKind::checked) {
        if (colored()) put_up_walls();
    }

    bool receive(const Message& message) {
        const bool was_colored = colored();
        const bool accepted = broadcast_.receive(message);
        if (!was_colored && colored()) put_up_walls();
        return accepted;
    }
    void peer_failed(Position position) { broadcast_.peer_failed(position); }
    std::optional<Message> next_send(Nanoseconds now) {
        std::optional<Message> message = broadcast_.next_send(now);
        while (message && crosses_the_ends(*message))
            message = broadcast_.next_send(now);
        return message;
    }
    Nanoseconds next_timer() const { return broadcast_.next_timer(); }
    bool colored() const { return broadcast_.colored(); }
    bool finished() const { return broadcast_.finished(); }

  private:
    static bool crosses_the_ends(const Message& message) {
        return (message.kind == protocol::MessageKind::correction_left && message.to > message.from) ||
               (message.kind == protocol::MessageKind::correction_right && message.to < message.from);
    }

    // As if somebody at each end had spoken already.
    void put_up_walls() {
        if (!checked_) return;
        const Position before = self_.value == 0 ? last_ : Position{0};
        const Position after = self_ == last_ ? Position{0} : last_;
        broadcast_.receive({protocol::MessageKind::correction_right, before, self_, 0});
        broadcast_.receive({protocol::MessageKind::correction_left, after, self_, 0});
    }

    protocol::Broadcast broadcast_;
    Position self_;
    Position last_;
    bool checked_;
};

static_assert(protocol::Machine<LineBroadcast>);

}  // namespace coppice::simulation::testing
