#include "simulation/world/host_board.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace coppice::world {

HostBoard::HostBoard(Network& network, std::uint32_t self, std::uint32_t panel, std::vector<Rank> members,
                     std::vector<std::uint32_t> ranks, const std::vector<bool>& readable)
    : network_(network), self_(self), panel_(panel), members_(std::move(members)), ranks_(std::move(ranks)) {
    for (const std::uint32_t rank : ranks_)
        readable_.push_back(readable[rank]);
}

std::uint32_t HostBoard::index_of(Rank member) const {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(members_, member) - members_.begin());
}

Panel* HostBoard::of(Rank member) const {
    network_.clockwork().look(self_);
    const std::uint32_t index = index_of(member);
    if (index == members_.size() || members_[index] != member || !readable_[index]) return nullptr;
    return network_.segment(ranks_[index]).panel(panel_);
}

void HostBoard::show() const {
    for (const std::uint32_t rank : ranks_)
        if (rank != self_ && rank < network_.ranks()) network_.stir(rank, false);
}

std::byte* HostBoard::line_memory(Sequence sequence) {
    return own().payload(sequence.value % lines());
}

void HostBoard::publish(Sequence sequence, std::uint32_t length, std::uint32_t root, std::uint32_t detail) {
    network_.clockwork().act(self_);
    line_of(own(), sequence) = {.stamp = sequence.value + 1, .length = length, .root = root, .detail = detail};
    if (is_told()) tell_published(sequence, line_of(own(), sequence));
    show();
}

void HostBoard::publish_copy(Sequence sequence, std::span<const std::byte> payload, std::uint32_t root,
                             std::uint32_t detail) {
    if (!payload.empty()) std::memcpy(line_memory(sequence), payload.data(), payload.size());
    publish(sequence, static_cast<std::uint32_t>(payload.size()), root, detail);
}

bool HostBoard::look(Rank member, Sequence sequence, transport::PublishedLine& line) const {
    Panel* const panel = of(member);
    if (panel == nullptr) return false;
    const Line& seen = line_of(*panel, sequence);
    if (seen.stamp != sequence.value + 1) return false;
    line = {panel->payload(sequence.value % lines()), seen.length, seen.detail, seen.root};
    return true;
}

bool HostBoard::copy_published(Rank member, Sequence sequence, std::span<std::byte> to, std::size_t* length) const {
    transport::PublishedLine line;
    if (!look(member, sequence, line) || !copy_line(member, line, to) || fenced()) return false;
    if (length != nullptr) *length = line.length;
    return true;
}

void HostBoard::set_consumed(Sequence sequence) {
    network_.clockwork().act(self_);
    own().consumed = sequence.value;
    if (is_told()) tell_stored("consumed", sequence.value);
    show();
}

Sequence HostBoard::consumed(Rank member) const {
    const Panel* const panel = of(member);
    return Sequence{panel == nullptr ? 0 : panel->consumed};
}

void HostBoard::set_stable(Sequence sequence) {
    if (own().stable == sequence.value) return;
    network_.clockwork().act(self_);
    own().stable = sequence.value;
    if (is_told()) tell_stored("stable", sequence.value);
    show();
}

Sequence HostBoard::stable(Rank member) const {
    const Panel* const panel = of(member);
    return Sequence{panel == nullptr ? 0 : panel->stable};
}

void HostBoard::wake(Rank member) {
    network_.clockwork().act(self_);
    const std::uint32_t index = index_of(member);
    // One that has come too late to know a member that is dead has no seat for it.
    const bool is_there = index < members_.size() && members_[index] == member && ranks_[index] < network_.ranks();
    if (is_there) network_.port(Wire::near, ranks_[index]).ring();
}

void HostBoard::log_failure(Rank failed) {
    network_.clockwork().act(self_);
    const Within outside(nullptr);
    own().log.push_back(failed.value);
    if (is_told()) tell_stored("failed", failed.value);
    show();
}

std::uint32_t HostBoard::log_length(Rank member) const {
    const Panel* const panel = of(member);
    return panel == nullptr ? 0 : static_cast<std::uint32_t>(panel->log.size());
}

Rank HostBoard::logged(Rank member, std::uint32_t index) const {
    const Panel* const panel = of(member);
    return Rank{panel == nullptr || index >= panel->log.size() ? UINT32_MAX : panel->log[index]};
}

const std::byte* HostBoard::region(Rank member, transport::Regions::Place place) const {
    Panel* const panel = of(member);
    return panel == nullptr ? nullptr : panel->regions() + place.at;
}

void HostBoard::publish_word(shared::Published<std::uint64_t>& word, std::uint64_t value) {
    network_.clockwork().act(self_);
    word.publish(value);
    if (is_told()) tell_word(word, value);
    show();
}

void HostBoard::leave_word(shared::Published<std::uint64_t>& word, std::uint64_t value) {
    network_.clockwork().act(self_);
    word.publish(value);
    if (is_told()) tell_word(word, value);
}

transport::Board::Bulk HostBoard::take_bulk(std::size_t bytes, std::uint64_t /*most*/) {
    const std::uint64_t place = own().take_bulk(bytes);
    return place == 0 ? Bulk{} : Bulk{.data = own().bulk(place, bytes), .place = place};
}

const std::byte* HostBoard::bulk(Rank member, std::uint64_t place, std::size_t bytes) {
    Panel* const panel = of(member);
    return panel == nullptr ? nullptr : panel->bulk(place, bytes);
}

bool HostBoard::alive(Rank member) const {
    network_.clockwork().look(self_);
    const std::uint32_t index = index_of(member);
    if (index == members_.size() || members_[index] != member || !readable_[index]) return false;
    const std::uint32_t rank = ranks_[index];
    return !network_.clockwork().dead(rank) && network_.port(Wire::near, rank).is_there();
}

bool HostBoard::fenced() const {
    network_.clockwork().look(self_);
    return std::ranges::any_of(network_.segment(self_).fencers(), [this](std::uint32_t fencer) {
        return std::ranges::find(ranks_, fencer) != ranks_.end();
    });
}

void HostBoard::depart() {
    network_.clockwork().act(self_);
    own().departed = true;
    if (is_told()) tell_stored("departed", 1);
    show();
}

bool HostBoard::departed(Rank member) const {
    const Panel* const panel = of(member);
    return panel != nullptr && panel->departed;
}

// ------------------------------------------------------------------------------------------------------- boards ---

WorldMemory::WorldMemory(Network& network, std::uint32_t self)
    : network_(network), self_(self), mapped_(network.ranks() + 1, false) {
    mapped_[self] = true;
    network_.segment(self).make(0);
}

bool WorldMemory::made(std::uint32_t panel) const {
    return network_.segment(self_).panel(panel) != nullptr;
}

Result<void> WorldMemory::seal_board(std::vector<Seat> members) {
    members.push_back(network_.seat_of(self_));
    std::ranges::sort(members);
    members.erase(std::unique(members.begin(), members.end()), members.end());
    std::vector<Rank> ranks;  // of the first group: the same numbers
    std::vector<std::uint32_t> seats;
    for (const Seat member : members) {
        ranks.emplace_back(member.value);
        seats.push_back(network_.rank_at(self_, member));
        map(member);
    }
    boards_[0] = std::make_unique<HostBoard>(network_, self_, 0, std::move(ranks), std::move(seats), mapped_);
    make_panel_ready();
    return {};
}

Result<void> WorldMemory::admit(Seat seat, std::uint32_t /*incarnation*/) {
    map(seat);
    return {};
}

// The memory of a process that has ended is not there to be mapped.
void WorldMemory::map(Seat seat) {
    network_.clockwork().look(self_);
    const std::uint32_t rank = network_.rank_at(self_, seat);
    mapped_[rank] = rank == self_ || (!network_.clockwork().dead(rank) && network_.port(Wire::near, rank).is_there());
}

void WorldMemory::make_panel_ready() {
    for (std::uint32_t panel = 1; panel < kPanels && clean_ == 0; ++panel) {
        const std::uint32_t bit = 1U << panel;
        if ((closed_ & bit) != 0 || boards_[panel] != nullptr) continue;
        if (!made(panel)) network_.segment(self_).make(panel);
        clean_ |= bit;
    }
}

void WorldMemory::make_all_panels_ready() {
    for (std::uint32_t panel = 1; panel < kPanels; ++panel) {
        const std::uint32_t bit = 1U << panel;
        if (((clean_ | closed_) & bit) != 0 || boards_[panel] != nullptr) continue;
        if (!made(panel)) network_.segment(self_).make(panel);
        clean_ |= bit;
    }
}

// What was kept of those that have been forgotten since the last board was opened.
void WorldMemory::forget_all_but(const std::vector<std::uint32_t>& ranks) {
    for (std::uint32_t rank = 0; rank < network_.ranks(); ++rank) {
        const bool is_known = rank == self_ || network_.rank_at(self_, network_.seat_of(rank)) == rank;
        if (!is_known && std::ranges::find(ranks, rank) == ranks.end()) mapped_[rank] = false;
    }
}

transport::Board& WorldMemory::open_board(std::uint32_t panel, std::span<const BoardMember> members) {
    std::vector<Rank> ranks;
    std::vector<std::uint32_t> seats;
    for (const BoardMember& member : members) {
        ranks.push_back(member.rank);
        const std::uint32_t rank = network_.clockwork().fate().rank_with(member.seat.value, member.incarnation);
        seats.push_back(std::min(rank, network_.ranks()));  // of no seat
    }
    forget_all_but(seats);
    boards_[panel] = std::make_unique<HostBoard>(network_, self_, panel, std::move(ranks), std::move(seats), mapped_);
    clean_ &= ~(1U << panel);
    return *boards_[panel];
}

void WorldMemory::close_board(std::uint32_t panel) {
    network_.clockwork().act(self_);
    if (panel != 0) boards_[panel].reset();
    closed_ |= 1U << panel;
}

void WorldMemory::clear_panels(std::uint32_t panels) {
    for (std::uint32_t panel = 0; panel < kPanels; ++panel) {
        const std::uint32_t bit = 1U << panel;
        if ((panels & closed_ & bit) == 0) continue;
        network_.clockwork().act(self_);
        network_.segment(self_).panel(panel)->clear();
        closed_ &= ~bit;
        clean_ |= bit;
    }
}

}  // namespace coppice::world
