#include "engine/collectives/window/window.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace coppice::engine {
namespace {

// So long a rank finds no room before it asks for it.
constexpr Nanoseconds kHeldUp{1'000'000};

}  // namespace

Window::Window(Core& core)
    : around_(core.around()),
      local_peers_(core.local_peers()),
      controls_(core.controls()),
      life_(core.life()),
      membership_(core.membership()),
      news_(core.news()),
      members_(core.members()),
      board_(core.local_peers().board()),
      publishing_(core.local_peers().publishing()),
      size_(core.around().settings().window),
      stability_({.nodes = &members_.nodes_table(), .window = size_, .patience = kHeldUp}, members_.self()) {
    core.carry(*this);
}

// ------------------------------------------------------------------------------------------------ broadcasts ---

bool Window::may_start(Rank root) {
    if (members_.single_node() && root != members_.self()) return next_.value < consumed_.value + size_;
    if (next_.value < stable_ + size_) return true;
    update();
    if (next_.value < stable_ + size_) return true;
    ask_for_room(stable_ + 1);
    return false;
}

void Window::consume(Sequence count) {
    if (count == consumed_) return;
    consumed_ = count;
    if (consumed_.value >= report_at_) news_.count_moved();
    if (board_ != nullptr) board_->set_consumed(count);
}

std::string Window::holder_name() const {
    Rank slowest;
    const std::uint64_t least = local_consumed(slowest);
    const auto not_consumed = [](Rank rank, std::uint64_t sequence) {
        return fmt::format("rank {} has not consumed broadcast {} yet", rank.value, sequence);
    };
    if (members_.single_node() || least <= stable_) return not_consumed(slowest, least);
    const auto rank = stability_.holder();
    if (!rank || *rank == members_.self())
        return fmt::format(
            "some rank of another host has not consumed broadcast {} yet; the ranks have been asked which", stable_);
    return not_consumed(*rank, stable_);
}

void Window::show_holder(status::Waits& waits) const {
    Rank slowest;
    const std::uint64_t least = local_consumed(slowest);
    if (members_.single_node() || least <= stable_) return waits.add(slowest.value, status::Why::room, least);
    if (const auto rank = stability_.holder()) waits.add(rank->value, status::Why::room, stable_);
}

// --------------------------------------------------------------------------------------------- as a component ---

bool Window::message(Rank from, const WireHeader& header, std::span<const std::byte> /*payload*/,
                     transport::Buffer /*buffer*/) {
    const bool is_possible = stability_.receive({.kind = static_cast<protocol::StabilityKind>(header.tag.kind),
                                                 .from = from,
                                                 .to = members_.self(),
                                                 .count = header.sequence,
                                                 .stable = header.stable,
                                                 .slowest = Rank(header.detail)});
    if (!is_possible) news_.note_garbage();
    return false;
}

// Nothing is stable that this rank has not consumed, and nobody starts W ahead of what is stable.
bool Window::heard(std::uint64_t count) {
    if (count > consumed_.value) return false;
    if (count > stable_) {
        learn_stable(count);
        news_.count_moved();
    }
    return true;
}

void Window::member_failed(const Death& death) {
    if (death.is_local && death.was_leader && members_.is_leader() && !members_.single_node()) {
        // What the dead leader had told others outlives it: its failures too, for it may have refused the dead's messages.
        // (What it may not have passed on the detector tells again.)
        membership_.read_failure_logs();
        learn_stable(std::min(board_->stable(death.rank).value, consumed_.value));
    }
    stability_.peer_failed(death.rank);
}

void Window::keep_house() {
    pass_on();
}

void Window::pass_on() {
    if (!life_.revoked()) update();
}

void Window::before_sleep() {
    if (consumed_.value > leader_woken_for_) wake_leader();
}

void Window::wake_leader() {
    leader_woken_for_ = consumed_.value;
    local_peers_.wake_leader();
}

bool Window::drained() {
    stability_.flush();
    if (!all_consumed()) return false;
    if (is_settled()) return true;
    ask_for_room(next_.value);
    return false;
}

std::string Window::leaving_waits_for() const {
    return !all_consumed() || stable_ < next_.value ? holder_name() : std::string();
}

std::optional<Rank> Window::leaving_depends_on() const {
    if (all_consumed() && stable_ >= next_.value) return std::nullopt;
    Rank slowest;
    const std::uint64_t least = local_consumed(slowest);
    if (members_.single_node() || least <= stable_) return slowest;
    const auto rank = stability_.holder();
    return rank ? rank : members_.leader(members_.own_node());
}

// ------------------------------------------------------------------------------------------------- stability ---

// The least that a live rank of this node has consumed, and which rank that is.
std::uint64_t Window::local_consumed(Rank& slowest) const {
    slowest = members_.self();
    std::uint64_t least = consumed_.value;
    if (!publishing_) return least;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        if (local_peer == members_.self() || members_.failed(local_peer) || board_->departed(local_peer)) continue;
        const std::uint64_t count = board_->consumed(local_peer).value;
        if (count < least) {
            least = count;
            slowest = local_peer;
        }
    }
    return least;
}

void Window::learn_stable(std::uint64_t count) {
    stability_.learn_stable(count);
    stable_ = stability_.stable();
}

void Window::update() {
    const auto leader = members_.leader(members_.own_node());
    const bool leads = leader == members_.self();
    if (leads || members_.single_node()) {
        Rank slowest;
        const std::uint64_t count = local_consumed(slowest);
        stability_.node_consumed(count, slowest);
    } else if (leader) {
        stability_.learn_stable(std::min(board_->stable(*leader).value, consumed_.value));
    }
    send();
    const std::uint64_t step = stability_.step();
    report_at_ = (consumed_.value / step + 1) * step;
    if (!publishing_ || members_.single_node()) return;
    if (leads) {
        board_->set_stable(Sequence(stable_));
    } else if (consumed_.value >= stable_ + size_ / 2) {
        wake_leader();
    }
}

// The header of each message carries what is stable, so that must be known before they leave.
void Window::send() {
    while (const auto message = stability_.next_send())
        controls_.send(message->to, {Channel::window, message->kind}, message->count, message->slowest.value);
    stable_ = stability_.stable();
    if (controls_.wait()) controls_.flush();
}

// Some rank finds no room, or waits to leave.
void Window::ask_for_room(std::uint64_t wanted) {
    if (members_.single_node() || life_.revoked()) return;
    stability_.want(wanted, Nanoseconds(around_.now_ns()));
    send();
}

}  // namespace coppice::engine
