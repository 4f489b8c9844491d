// How a group begins and ends at this rank.
#include <algorithm>
#include <utility>

#include "engine/addresses/copying.hpp"
#include "engine/core/core.hpp"
#include "transport/faults.hpp"
#include "transport/host_memory.hpp"

namespace coppice::engine {
namespace {

// Calls that begin something between two in which there is progress whether the caller has to wait or not; half the window if that
// is less (roots.cpp).
constexpr std::uint32_t kStartsPerProgress = 16;

}  // namespace

// A member that is dead may have no seat any more, and still memory.
void GroupParts::open_board() {
    const std::shared_ptr<TransportSet>& transport_set = router.transport_set();
    transport::HostMemory* const host_memory = transport_set->host_memory();
    if (host_memory == nullptr) return;
    std::vector<transport::HostMemory::BoardMember> local_peers;
    std::vector<Seat> known_as;
    for (const Rank local_peer : members.ranks_of(members.own_node())) {
        const Origin& origin = lineage.of(local_peer);
        known_as.push_back(router.seat_of(local_peer));
        local_peers.push_back({.rank = local_peer, .seat = origin.seat, .incarnation = origin.incarnation});
    }
    host_memory->look_at_cores();  // they may have been moved since they were made known
    sharing_cores = host_memory->sharing_cores(known_as);
    board = &host_memory->open_board(panel, local_peers);
    if (!transport_set->faults()) return;
    board_wrapper = std::make_unique<transport::FaultyBoard>(*board, transport_set->faults());
    board = board_wrapper.get();
}

Core::Core(Parts parts)
    : around_(parts),
      members_(std::move(parts.members)),
      local_peers_(parts, around_, members_),
      controls_(around_, members_),
      life_(members_, local_peers_, subscribers_, news_, parts.is_successor),
      membership_(around_, members_, local_peers_, controls_, subscribers_, life_, news_, std::move(parts.on_failure)),
      leaving_(around_, members_, local_peers_, controls_, subscribers_, life_, membership_, news_),
      starts_mask_(std::min(kStartsPerProgress, around_.settings().window / 2) - 1) {}

void Core::open() {
    around_.router().transport_set()->attach(around_.id().token, *this);
    if (life_.is_unclaimed()) local_peers_.meet_leaders(false);
}

void Core::close() {
    const auto failed_as = leaving_.is_in_peace() ? std::nullopt : std::optional(members_.self());
    around_.router().transport_set()->detach(*this, failed_as);
    leaving_.depart_at_the_end();
}

// The board does, too.
void Core::transports_end() {
    leaving_.depart_at_the_end();
    for (Collective* const collective : subscribers_.all())
        collective->transports_end();
    local_peers_.drop_board();
}

Core::~Core() {
    if (around_.router().transport_set()->users() > 0) local_peers_.close_board();  // else the transports have ended
}

std::uint64_t Core::next_timer_ns() const {
    std::uint64_t next = membership_.next_timer_ns();
    for (const Collective* const collective : subscribers_.all())
        next = std::min(next, collective->next_timer_ns());
    if (const Copying* const copying = around_.router().transport_set()->copying())
        next = std::min(next, copying->next_timer_ns());
    return next;
}

void Core::claim(FailureCallback on_failure) {
    membership_.tell_to(std::move(on_failure));
    life_.claim();
}

bool Core::drained() {
    leaving_.want();
    progress();
    return leaving_.drained();
}

void Core::go_on_leaving(bool may_be_asked) {
    if (!leaving_.may_go_on()) return;
    leaving_.go_on(may_be_asked, leaving_.waits_to_be_drained() && may_be_asked && drained());
}

void Core::retire() {
    membership_.tell_nobody();
    around_.router().transport_set()->retire();
}

bool Core::quiet() const {
    return std::ranges::all_of(subscribers_.all(), &Collective::quiet);
}

}  // namespace coppice::engine
