#include "simulation/checked_rounds.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace coppice::simulation {

using protocol::CorrectionKind;
using protocol::MessageKind;

bool CheckedRounds::applies(const protocol::BroadcastPlan& plan, const LogP& model, const FlatTree& tree) {
    constexpr Step kLongestLag = 64;
    const bool is_checked = plan.correction.kind == CorrectionKind::checked && plan.correction.synchronized &&
                            plan.gossip.rounds == 0 && plan.correction_start.value >= tree.end;
    const bool is_plain = model.overlap && !model.one_sided_ring && model.interval() == model.overhead;
    const Step lag = 2 + (model.latency + model.overhead - 1) / model.overhead;
    if (!is_checked || !is_plain || lag > kLongestLag || tree.processes() < lag + 4) return false;
    // Nobody sends more than the root, apart from edges.
    for (std::uint32_t position = 0; position < tree.processes(); ++position) {
        if (tree.child_count(position) > tree.child_count(0)) return false;
    }
    return true;
}

CheckedRounds::CheckedRounds(const protocol::BroadcastPlan& plan, const LogP& model, FlatTree tree)
    : tree_(std::move(tree)),
      overhead_(model.overhead),
      latency_(model.latency),
      start_(static_cast<Step>(plan.correction_start.value)),
      processes_(tree_.processes()),
      lag_(2 + (model.latency + model.overhead - 1) / model.overhead),
      equal_rounds_(lag_ % 2 == 0 ? lag_ + 1 : lag_),
      places_(processes_),
      left_out_(processes_),
      edge_at_(processes_),
      busy_until_(processes_),
      received_(processes_),
      takes_part_(processes_ + 2 * equal_rounds_),
      equally_received_(processes_) {}

const Outcome* CheckedRounds::run(std::span<const Position> dead, std::uint64_t /*seed*/) {
    start(dead);
    find_gaps();
    find_edges();
    foresee_hearing();
    color_beside_edges();
    for (std::uint32_t round = equal_rounds_; round == equal_rounds_ || !sending_.empty(); ++round)
        take_round(round);
    conclude(dead);
    return &outcome_;
}

void CheckedRounds::start(std::span<const Position> dead) {
    std::fill(places_.begin(), places_.end(), Place::inner);
    std::fill(busy_until_.begin(), busy_until_.end(), 0);
    std::fill(received_.begin(), received_.end(), 0);
    for (std::vector<Heard>& heard : heard_)
        heard.clear();
    left_out_.clear();
    sent_left_ = 0;
    sent_right_ = 0;
    missing_ = 0;
    any_late_ = false;
    last_colored_ = 0;
    last_begun_ = 0;
    last_vanished_ = 0;
    outcome_ = Outcome{};

    for (const Position position : dead) {
        places_[position.value] = Place::dead;
        left_out_.insert(position.value);
        open_.push_back(position.value);
    }
    while (!open_.empty()) {
        const std::uint32_t position = open_.back();
        open_.pop_back();
        for (const std::uint32_t child : tree_.children_of(position)) {
            if (places_[child] != Place::inner) continue;
            places_[child] = Place::out;
            left_out_.insert(child);
            ++missing_;
            open_.push_back(child);
        }
    }
}

// The root takes part: no gap goes around.
void CheckedRounds::find_gaps() {
    gaps_.clear();
    for (std::size_t word = 0; word < left_out_.words(); ++word) {
        for (std::uint64_t bits = left_out_.word(word); bits != 0; bits &= bits - 1) {
            const auto position = static_cast<std::uint32_t>(word * 64 + static_cast<unsigned>(std::countr_zero(bits)));
            if (!gaps_.empty() && gaps_.back().first + gaps_.back().length == position) {
                ++gaps_.back().length;
            } else {
                gaps_.push_back({position, 1});
            }
        }
    }
}

void CheckedRounds::find_edges() {
    edges_.clear();
    const bool root_has_gap = !gaps_.empty() && gaps_.back().first + gaps_.back().length == processes_;
    if (root_has_gap) edge_at(0).to_left = gaps_.back().length + 1;
    for (const Gap& gap : gaps_) {
        edge_at(gap.first - 1).to_right = gap.length + 1;
        if (gap.first + gap.length < processes_) edge_at(gap.first + gap.length).to_left = gap.length + 1;
    }
    sending_.resize(edges_.size());
    std::iota(sending_.begin(), sending_.end(), 0);
}

// They come in ascending order, some twice in a row.
CheckedRounds::Edge& CheckedRounds::edge_at(std::uint32_t position) {
    if (edges_.empty() || edges_.back().position != position) {
        places_[position] = Place::edge;
        edge_at_[position] = static_cast<std::uint32_t>(edges_.size());
        edges_.push_back({position, 1, 1, lefts_of_equal_rounds(), rights_of_equal_rounds()});
    }
    return edges_.back();
}

// What edges hear through messages of the equal rounds: of the next one on that side first, if at all.
void CheckedRounds::foresee_hearing() {
    for (std::uint32_t i = 0; i < edges_.size(); ++i) {
        const Edge& edge = edges_[i];
        const std::uint32_t sent_by_right = 2 * (edge.to_right - 1);
        const std::uint32_t sent_by_left = 2 * edge.to_left - 1;
        if (sent_by_right < equal_rounds_) heard_in(sent_by_right + lag_).push_back({i, edge.to_right, false});
        if (sent_by_left < equal_rounds_) heard_in(sent_by_left + lag_).push_back({i, edge.to_left, true});
    }
    // The last equal round is over before it is asked what was heard in it.
    for (std::uint32_t round = 0; round < equal_rounds_ && round < heard_.size(); ++round) {
        std::vector<Heard>& next = heard_in(equal_rounds_);
        next.insert(next.end(), heard_[round].begin(), heard_[round].end());
    }
}

// Those that messages of the equal rounds color.
void CheckedRounds::color_beside_edges() {
    for (const Gap& gap : gaps_) {
        for (std::uint32_t i = 0; i < gap.length; ++i) {
            Place& place = places_[gap.first + i];
            const std::uint32_t round = std::min(2 * (gap.length - 1 - i), 2 * i + 1);
            if (place == Place::dead || round >= equal_rounds_) continue;
            place = Place::late;
            --missing_;
            any_late_ = true;
            last_colored_ = std::max(last_colored_, round);
        }
    }
}

// ---------------------------------------------------------------------------------------------------- the rounds

void CheckedRounds::take_round(std::uint32_t round) {
    for (const Heard& heard : heard_in(round)) {
        std::uint32_t& nearest = heard.from_left ? edges_[heard.edge].heard_left : edges_[heard.edge].heard_right;
        nearest = std::min(nearest, heard.offset);
    }
    if (round == lag_) {
        sweep(round);
        return;
    }
    std::size_t kept = 0;
    for (const std::uint32_t edge : sending_) {
        if (send(edges_[edge], round)) sending_[kept++] = edge;
    }
    sending_.resize(kept);
}

// The round in which not only edges send: with an odd lag.
void CheckedRounds::sweep(std::uint32_t round) {
    const std::uint32_t offset = lefts_of_equal_rounds() + 1;
    for (std::uint32_t position = 0; position < processes_; ++position) {
        if (places_[position] == Place::edge) send(edges_[edge_at_[position]], round);
        if (places_[position] != Place::inner) continue;
        deliver(position >= offset ? position - offset : position + processes_ - offset, offset, true, round);
    }
}

// False when it is done.
bool CheckedRounds::send(Edge& edge, std::uint32_t round) {
    if (edge.left + edge.right >= processes_ - 1) return false;
    const bool left_open = edge.left < edge.heard_left;
    const bool right_open = edge.right < edge.heard_right;
    if (!left_open && !right_open) return false;
    if (left_open && (!right_open || edge.left <= edge.right)) {
        const std::uint32_t offset = ++edge.left;
        deliver(edge.position >= offset ? edge.position - offset : edge.position + processes_ - offset, offset, true,
                round);
    } else {
        const std::uint32_t offset = ++edge.right;
        const std::uint32_t to = edge.position + offset;
        deliver(to < processes_ ? to : to - processes_, offset, false, round);
    }
    return true;
}

void CheckedRounds::deliver(std::uint32_t to, std::uint32_t offset, bool to_left, std::uint32_t round) {
    ++(to_left ? sent_left_ : sent_right_);
    const Place place = places_[to];
    if (place == Place::dead) {
        last_vanished_ = round;
        return;
    }
    const std::uint32_t begin = std::max(busy_until_[to], round);
    busy_until_[to] = begin + 1;
    ++received_[to];
    last_begun_ = std::max(last_begun_, begin);
    if (place == Place::edge) heard_in(begin + lag_).push_back({edge_at_[to], offset, !to_left});
    if (place == Place::out) {
        places_[to] = Place::late;
        --missing_;
        any_late_ = true;
        last_colored_ = begin;
    }
}

std::vector<CheckedRounds::Heard>& CheckedRounds::heard_in(std::uint32_t round) {
    if (round >= heard_.size()) heard_.resize(round + lag_ + 1);
    return heard_[round];
}

// --------------------------------------------------------------------------------------------------- the outcome

bool CheckedRounds::all_of_last_equal_round_vanish() const {
    const bool to_left = equal_rounds_ % 2 != 0;
    const std::uint32_t offset = to_left ? lefts_of_equal_rounds() : rights_of_equal_rounds();
    for (std::uint32_t position = 0; position < processes_; ++position) {
        if (left_out_.contains(position)) continue;
        const std::uint32_t to = (position + (to_left ? processes_ - offset : offset)) % processes_;
        if (places_[to] != Place::dead) return false;
    }
    return true;
}

void CheckedRounds::conclude(std::span<const Position> dead) {
    count_messages(dead);
    outcome_.gaps = gaps();
    outcome_.failed = static_cast<std::uint32_t>(dead.size());
    outcome_.reached = processes_ - outcome_.failed - missing_;
    for (std::uint32_t position = 0; position < processes_ && missing_ != 0; ++position) {
        if (places_[position] == Place::out) outcome_.unreached.push_back(Position{position});
    }
    // What is sent in round 0 arrives then.
    const Step arrival = start_ + overhead_ + latency_;
    if (any_late_) {
        outcome_.coloring_latency = arrival + (last_colored_ + 1) * overhead_;
    } else {
        for (std::uint32_t position = 0; position < processes_; ++position) {
            const Step colored_at = left_out_.contains(position) ? 0 : tree_.colored_at[position];
            outcome_.coloring_latency = std::max(outcome_.coloring_latency, colored_at);
        }
    }
    const std::uint32_t of_equal_rounds = equal_rounds_ - (all_of_last_equal_round_vanish() ? 1 : 0);
    const std::uint32_t served = last_begun_ == 0 ? 0 : last_begun_ + 1;
    outcome_.quiescence_latency = arrival + std::max({of_equal_rounds, served, last_vanished_}) * overhead_;
}

void CheckedRounds::count_messages(std::span<const Position> dead) {
    const std::uint32_t taking_part =
        processes_ - std::accumulate(gaps_.begin(), gaps_.end(), 0U,
                                     [](std::uint32_t sum, const Gap& gap) { return sum + gap.length; });
    std::uint64_t tree = taking_part - 1;
    for (const Position position : dead)
        tree += left_out_.contains(tree_.parents[position.value]) ? 0 : 1;
    sent_left_ += std::uint64_t{taking_part} * lefts_of_equal_rounds();
    sent_right_ += std::uint64_t{taking_part} * rights_of_equal_rounds();
    outcome_.by_kind[static_cast<std::size_t>(MessageKind::tree)] = tree;
    outcome_.by_kind[static_cast<std::size_t>(MessageKind::correction_left)] = sent_left_;
    outcome_.by_kind[static_cast<std::size_t>(MessageKind::correction_right)] = sent_right_;
    outcome_.messages = tree + sent_left_ + sent_right_;

    // Edges send no less than others.
    outcome_.most_sent = tree_.child_count(0) + lag_ + 1;
    for (const Edge& edge : edges_)
        outcome_.most_sent = std::max(outcome_.most_sent, tree_.child_count(edge.position) + edge.left + edge.right);
    outcome_.most_received = most_received();
}

Gaps CheckedRounds::gaps() const {
    Gaps gaps;
    for (const Gap& gap : gaps_)
        gaps.largest = std::max(gaps.largest, gap.length);
    std::vector<std::uint32_t> counts(gaps.largest + 1);
    for (const Gap& gap : gaps_)
        ++counts[gap.length];
    for (std::uint32_t length = 1; length <= gaps.largest; ++length) {
        if (counts[length] != 0) gaps.histogram.emplace_back(length, counts[length]);
    }
    return gaps;
}

// Loops that a compiler makes vectors of: bytes may alias anything, so it is told what does not change.
std::uint32_t CheckedRounds::most_received() {
    const std::uint32_t processes = processes_;
    const std::uint32_t room = equal_rounds_;
    const Place* places = places_.data();
    std::uint8_t* self = takes_part_.data() + room;
    for (std::uint32_t position = 0; position < processes; ++position)
        self[position] = places[position] <= Place::edge ? 1 : 0;
    std::copy_n(self + processes - room, room, self - room);
    std::copy_n(self, room, self + processes);

    std::uint8_t* equally = equally_received_.data();
    std::copy_n(self, processes, equally);  // from the tree, but for the root
    equally[0] = 0;
    for (std::uint32_t round = 0; round < room; ++round) {
        const std::uint8_t* sender = round % 2 == 0 ? self + round / 2 + 1 : self - (round + 1) / 2;
        for (std::uint32_t position = 0; position < processes; ++position)
            equally[position] = static_cast<std::uint8_t>(equally[position] + sender[position]);
    }
    const std::uint32_t* unequally = received_.data();
    std::uint32_t most = 0;
    for (std::uint32_t position = 0; position < processes; ++position) {
        const std::uint32_t received = unequally[position] + equally[position];
        most = std::max(most, places[position] == Place::dead ? 0 : received);
    }
    return most;
}

}  // namespace coppice::simulation
