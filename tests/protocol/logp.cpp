#include "logp.hpp"

#include <algorithm>

namespace coppice::protocol::testing {
namespace {

class Clockwork {
  public:
    Clockwork(const BroadcastPlan& plan, const std::vector<std::uint32_t>& dead, const LogPModel& model)
        : plan_(plan),
          model_(model),
          is_dead_(plan.tree.processes(), false),
          send_port_free_(is_dead_.size(), 0),
          receive_port_free_(is_dead_.size(), 0) {
        for (const std::uint32_t position : dead)
            is_dead_[position] = true;
        machines_.reserve(is_dead_.size());
        for (std::uint32_t position = 0; position < is_dead_.size(); ++position) {
            machines_.emplace_back(plan, Position{position}, 0, nobody_, position == 0);
        }
    }

    LogPOutcome run() {
        put_up_walls(Position{0});
        at(0).may_send.push_back(0);
        for (now_ = 0; now_ < steps_.size(); ++now_)
            step();
        for (std::uint32_t position = 0; position < machines_.size(); ++position) {
            if (is_dead_[position]) continue;
            if (machines_[position].colored()) {
                ++outcome_.reached;
            } else {
                outcome_.unreached.push_back(position);
            }
        }
        return outcome_;
    }

  private:
    struct Step {
        std::vector<Message> arrive;
        std::vector<Message> take_effect;
        std::vector<std::uint32_t> may_send;
    };

    Step& at(std::uint64_t time) {
        if (time >= steps_.size()) steps_.resize(time + 1);
        return steps_[time];
    }

    void active_until(std::uint64_t time) { outcome_.total_time = std::max(outcome_.total_time, time); }

    void step() {
        std::vector<Message> arriving = std::move(steps_[now_].arrive);
        std::stable_partition(arriving.begin(), arriving.end(),
                              [](const Message& message) { return message.kind == MessageKind::tree; });
        for (const Message& message : arriving) {
            if (is_dead_[message.to.value]) {
                active_until(now_);
                continue;
            }
            std::uint64_t& port = receive_port_free_[message.to.value];
            port = std::max(port, now_) + model_.overhead;
            active_until(port);
            at(port).take_effect.push_back(message);
        }
        const std::vector<Message> effective = std::move(steps_[now_].take_effect);
        for (const Message& message : effective) {
            Broadcast& machine = machines_[message.to.value];
            const bool was_colored = machine.colored();
            machine.receive(message);
            if (!was_colored && machine.colored()) put_up_walls(message.to);
            if (!was_colored && machine.colored()) outcome_.coloring_time = std::max(outcome_.coloring_time, now_);
            steps_[now_].may_send.push_back(message.to.value);
        }
        std::vector<std::uint32_t> senders = std::move(steps_[now_].may_send);
        std::sort(senders.begin(), senders.end());
        for (const std::uint32_t position : senders)
            send(position);
        steps_[now_] = Step{};
    }

    static bool crosses_the_ends(const Message& message) {
        return (message.kind == MessageKind::correction_left && message.to > message.from) ||
               (message.kind == MessageKind::correction_right && message.to < message.from);
    }

    // The ring cut open: as if somebody at each end had spoken already.
    void put_up_walls(Position member) {
        if (!model_.line || plan_.correction.kind != CorrectionKind::checked) return;
        const Position last{plan_.tree.processes() - 1};
        const Position before = member.value == 0 ? last : Position{0};
        const Position after = member == last ? Position{0} : last;
        machines_[member.value].receive({MessageKind::correction_right, before, member, 0});
        machines_[member.value].receive({MessageKind::correction_left, after, member, 0});
    }

    void send(std::uint32_t position) {
        if (send_port_free_[position] > now_) return;
        std::optional<Message> message = machines_[position].next_send(Nanoseconds{now_});
        while (model_.line && message && crosses_the_ends(*message)) {
            message = machines_[position].next_send(Nanoseconds{now_});
        }
        if (!message) return;
        ++outcome_.messages;
        const std::uint64_t free = now_ + model_.overhead;
        send_port_free_[position] = free;
        active_until(free);
        at(free).may_send.push_back(position);
        at(free + model_.latency).arrive.push_back(*message);
    }

    const BroadcastPlan& plan_;
    LogPModel model_;
    FailedSet nobody_;
    std::vector<bool> is_dead_;
    std::vector<std::uint64_t> send_port_free_;
    std::vector<std::uint64_t> receive_port_free_;
    std::vector<Broadcast> machines_;
    std::vector<Step> steps_;
    std::uint64_t now_ = 0;
    LogPOutcome outcome_;
};

}  // namespace

LogPOutcome run_logp(const BroadcastPlan& plan, const std::vector<std::uint32_t>& dead, const LogPModel& model) {
    return Clockwork(plan, dead, model).run();
}

}  // namespace coppice::protocol::testing
