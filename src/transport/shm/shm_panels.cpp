// The boards of groups in the ranks' segments: one for the group that the transport was made for, and panels for those
// that are shrunk from it.
#include <algorithm>
#include <utility>

#include "transport/shm/shm_peer.hpp"

namespace coppice::transport {

Result<void> ShmTransport::seal_board(std::vector<Seat> members) {
    if (!boards_[0]->members().empty()) return fail(COPPICE_ERR_INVALID_ARGUMENT, "shm: the board was sealed twice");
    members.push_back(self_);
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    if (members.back().value >= own_.layout().group_size)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "shm: rank {} is outside of 0…{}", members.back().value,
                    own_.layout().group_size - 1);
    std::vector<const std::byte*> bases(members.size(), nullptr);
    for (std::size_t at = 0; at < members.size(); ++at) {
        if (members[at] == self_) {
            bases[at] = own_.base();
            continue;
        }
        Peer* const peer = find(members[at]);
        if (peer == nullptr) continue;
        const auto base = map_for_boards(*peer);
        if (!base) return tl::unexpected(base.error());
        bases[at] = *base;
    }
    std::vector<Rank> ranks;  // of the first group: the same numbers
    for (const Seat member : members)
        ranks.emplace_back(member.value);
    boards_[0]->seal(std::move(ranks), bases);
    make_panel_ready();
    return {};
}

Result<void> ShmTransport::admit(Seat rank, std::uint32_t incarnation) {
    Peer* const peer = find(rank);
    if (peer == nullptr) return fail(COPPICE_ERR_INVALID_ARGUMENT, "shm: rank {} was not added", rank.value);
    peer->incarnation = incarnation;
    const auto base = map_for_boards(*peer);
    if (!base) return tl::unexpected(base.error());
    return {};
}

Result<const std::byte*> ShmTransport::map_for_boards(Peer& peer) {
    start_watching(peer);
    peer.may_be_on_boards = true;
    if (map(peer)) return peer.segment.board.base();
    if (peer.lost) return nullptr;
    return fail(
        COPPICE_ERR_NO_RESOURCES,
        "shm: rank {} cannot map the segment of rank {}: no file descriptor, memory or address space left; raise "
        "ulimit -n or ulimit -v, or choose a smaller window",
        self_.value, peer.rank.value);
}

// A panel that has its memory is clean, closed or in use.
void ShmTransport::make_panel_ready() {
    for (std::uint32_t panel = 1; panel < kPanels && clean_ == 0; ++panel) {
        const std::uint32_t bit = 1U << panel;
        if ((closed_ & bit) == 0 && boards_[panel] == nullptr && own_.make_panel(panel)) clean_ |= bit;
    }
}

void ShmTransport::make_all_panels_ready() {
    for (std::uint32_t panel = 1; panel < kPanels; ++panel) {
        const std::uint32_t bit = 1U << panel;
        if (((clean_ | closed_) & bit) == 0 && boards_[panel] == nullptr && own_.make_panel(panel)) clean_ |= bit;
    }
}

ShmTransport::Peer* ShmTransport::find_for_board(const BoardMember& member) const {
    Peer* const peer = find(member.seat);
    if (peer != nullptr && peer->incarnation == member.incarnation) return peer;
    for (const std::uint32_t index : forgotten_) {
        Peer& forgotten = *peers_[index];
        const bool is_it = forgotten.rank == member.seat && forgotten.incarnation == member.incarnation;
        if (is_it && forgotten.may_be_on_the_next) return &forgotten;
    }
    return nullptr;
}

Board& ShmTransport::open_board(std::uint32_t panel, std::span<const BoardMember> members) {
    std::vector<Rank> ranks;
    std::vector<const std::byte*> bases;
    for (const BoardMember& member : members) {
        ranks.push_back(member.rank);
        const Peer* const peer = find_for_board(member);
        bases.push_back(member.seat == self_ ? own_.base() : peer == nullptr ? nullptr : peer->segment.board.base());
    }
    const auto wake_member = [this, known = std::vector(members.begin(), members.end())](Rank rank) {
        const auto member = std::ranges::find(known, rank, &BoardMember::rank);
        if (member != known.end()) wake(member->seat);
    };
    boards_[panel] = std::make_unique<shm::ShmBoard>(own_, regions_, panel, *this, wake_member);
    boards_[panel]->seal(std::move(ranks), bases);
    for (const std::uint32_t index : forgotten_)
        peers_[index]->may_be_on_the_next = false;
    clean_ &= ~(1U << panel);
    return *boards_[panel];
}

void ShmTransport::close_board(std::uint32_t panel) {
    if (panel != 0) boards_[panel].reset();
    closed_ |= 1U << panel;
}

void ShmTransport::clear_panels(std::uint32_t panels) {
    own_bulk_.clear(panels & closed_);
    for (std::uint32_t panel = 0; panel < kPanels; ++panel) {
        const std::uint32_t bit = 1U << panel;
        if ((panels & closed_ & bit) == 0) continue;
        own_.clear_panel(panel);
        closed_ &= ~bit;
        clean_ |= bit;
    }
}

Board::Bulk ShmTransport::take_bulk(std::size_t bytes, std::uint64_t most, std::uint32_t panel) {
    return own_bulk_.take(own_, bytes, most, panel);
}

const std::byte* ShmTransport::bulk(const std::byte* segment, std::uint64_t place, std::size_t bytes) {
    const auto its = std::ranges::find_if(
        peers_, [segment](const auto& peer) { return peer != nullptr && peer->segment.board.base() == segment; });
    if (its == peers_.end()) return nullptr;
    Peer& peer = **its;
    if (!peer.bulk.is_mapped()) {
        own_.open_reserve();
        peer.bulk.map(peer.address, peer.segment);
        own_.close_reserve();
    }
    return peer.bulk.at(place, bytes);
}

}  // namespace coppice::transport
