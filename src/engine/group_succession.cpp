// Shrinking: the group of the survivors, made from what they have agreed upon (succession.hpp) and from what is there.
//
// The new group has the old one's transports, connections and segments (transport_set.hpp), numbers of its own, a panel of its own in
// the segments, a token of its own, and the old one's settings. Nothing is exchanged beyond the agreement: no launcher and no
// callback of the caller is asked.
//
// A member may be done earlier than others, send messages of the new group, and leave the old one. So the others keep what
// comes too early (TransportSet), and the old group is retired rather than destroyed, to answer late questions about the
// succession, until the new one has agreed on anything, or is gone.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/context.hpp"
#include "engine/group.hpp"

namespace coppice::engine {
namespace {

// Whoever leaves in peace says so on the connections that it has: a rank that is waited for for so many rounds is connected to.
constexpr std::uint32_t kRoundsBeforeDoubt = 256;

}  // namespace

Result<void> Group::start_shrink(Request& request) {
    read_revocations();
    if (fenced_) return fail(COPPICE_ERR_FENCED, "rank {} was taken for dead by the others", members_.self().value);
    if (shrinking_ != nullptr) return fail(COPPICE_ERR_BUSY, "this group is being shrunk already: wait for that");
    request.group = this;
    request.kind = RequestKind::shrink;
    request.view = false;
    request.state = RequestState::waiting;
    request.status = COPPICE_IN_PROGRESS;
    request.received = 0;
    shrinking_ = &request;
    if (successor_) {  // made after an earlier call had given up
        end_shrink(COPPICE_OK);
    } else if (!succession().under_way()) {
        read_failure_logs();
        router_.transport_set()->expect_group();
        succession().begin();
    }
    progress_succession(true);
    return {};
}

Result<Request*> Group::start_pooled_shrink(coppice_group_t* old, coppice_group_t** shrunk) {
    if (free_requests_.empty()) {
        return fail(COPPICE_ERR_BUSY, "all {} requests are in use: free those that have ended", settings_.requests());
    }
    Request* request = free_requests_.back();
    request->old = old;
    request->shrunk = shrunk;
    if (auto started = start_shrink(*request); !started) return tl::unexpected(std::move(started.error()));
    free_requests_.pop_back();
    ++requests_in_use_;
    return request;
}

// Made when it is first needed, here or by others.
Succession& Group::succession() {
    if (!succession_) {
        succession_ = std::make_unique<Succession>(members_, router_, id_);
        for (const Rank rank : departed_peers_)
            succession_->peer_failed(rank);
    }
    return *succession_;
}

void Group::succession_message(Rank from, const WireHeader& header, std::span<const std::byte> body) {
    if (!succession().message(from, header, body)) ++garbage_;
    if (succession_->fenced()) be_fenced();
    learn_from(succession_->failed());
}

void Group::progress_succession(bool thoroughly) {
    if (!succession_) return;
    const auto heritage = succession_->progress(thoroughly);
    if (succession_->fenced()) be_fenced();
    if (thoroughly && succession_->under_way() && ++undecided_rounds_ % kRoundsBeforeDoubt == 0) {
        succession_->waited_for([this](Rank rank) {
            if (rank != members_.self()) watch(rank);
            return true;
        });
    }
    if (!heritage) return;
    undecided_rounds_ = 0;
    learn_from(*heritage->excluded);
    make_successor(*heritage);
}

void Group::make_successor(const Heritage& heritage) {
    if (shrinking_ != nullptr) shrinking_->agreed = heritage.excluded;
    const std::vector<Rank> survivors = heirs(members_.ranks(), *heritage.excluded);
    const auto self = std::ranges::lower_bound(survivors, members_.self());
    const std::shared_ptr<TransportSet>& transport_set = router_.transport_set();
    const bool has_board = transport_set->boards() != nullptr;
    const auto refuse = [&](coppice_status_t status, const std::string& why) {
        transport_set->expect_no_more();
        end_shrink(status, "shrinking: " + why);
    };
    if (self == survivors.end() || *self != members_.self()) {
        return refuse(COPPICE_ERR_FENCED, "the others take this rank for dead");
    }
    if (has_board && !heritage.panel) {
        return refuse(COPPICE_ERR_NO_RESOURCES,
                      fmt::format("{} groups of these ranks share memory already, or there is no more of it: destroy "
                                  "groups that are not used any more, at all ranks",
                                  transport::Boards::kPanels));
    }
    std::vector<Rank> there;
    std::vector<std::uint64_t> nodes;
    there.reserve(survivors.size());
    nodes.reserve(survivors.size());
    for (const Rank rank : survivors) {
        there.push_back(router_.set_rank(rank));
        nodes.push_back(members_.node_of(rank));
    }
    Members members(Rank(static_cast<std::uint32_t>(self - survivors.begin())), topology::Nodes::by_host(nodes));
    auto plan = settings_.plan_for(members.nodes());
    if (!plan) return refuse(COPPICE_ERR_CONFIG, plan.error());

    Parts parts{.context = context_,
                .settings = settings_,
                .members = std::move(members),
                .router = Router(transport_set, std::move(there)),
                .id = id_after(id_, heritage),
                .plan = std::move(*plan),
                .cores = cores_,
                .sharing_cores = std::min(sharing_cores_, static_cast<std::uint32_t>(survivors.size())),
                .on_failure = nullptr,
                .panel = heritage.panel.value_or(0),
                .established = std::make_shared<bool>(false)};
    if (has_board) {
        std::vector<transport::Boards::BoardMember> local_peers;
        std::vector<Rank> known_as;
        for (const Rank local_peer : parts.members.ranks_of(parts.members.own_node())) {
            known_as.push_back(parts.router.set_rank(local_peer));
            local_peers.push_back({local_peer, known_as.back()});
        }
        parts.sharing_cores = transport_set->boards()->sharing_cores(known_as);
        parts.board = &transport_set->boards()->open_board(parts.panel, local_peers);
        if (transport_set->faults()) {
            parts.board_wrapper = std::make_unique<transport::FaultyBoard>(*parts.board, transport_set->faults());
            parts.board = parts.board_wrapper.get();
        }
    }
    // Those who have died since, as far as it is known here.
    std::vector<Rank> dead;
    for (const Rank rank : members_.failed_ranks()) {
        if (const auto heir = parts.router.own_rank(router_.set_rank(rank))) dead.push_back(*heir);
    }
    successors_established_.push_back(parts.established);
    successor_ = std::make_unique<Group>(std::move(parts));
    successor_->start_with_failed({}, dead);
    context_->attach(*successor_);
    end_shrink(COPPICE_OK);
}

// Who has contributed to an agreement of this group has made it, and asks no more about how.
void Group::note_established() {
    *established_ = agreements_.ended_below() > 0 || (succession_ && succession_->ended() > 0);
}

void Group::end_shrink(coppice_status_t status, std::string message) {
    Request* request = std::exchange(shrinking_, nullptr);
    if (request == nullptr) return;
    request->status = status;
    request->message = std::move(message);
    request->state = RequestState::done;
}

// The others have made it with this rank, which does not take part in it.
void Group::drop_successor() {
    if (!successor_) return;
    successor_->abandon();
    context_->retire(std::move(successor_));
}

void Group::claim(FailureCallback on_failure) {
    on_failure_ = std::move(on_failure);
    claimed_ = true;
    if (!on_failure_) untold_.clear();
}

void Group::retire() {
    drop_successor();
    on_failure_ = nullptr;
    untold_.clear();
    router_.transport_set()->retire();
}

// No successor's member could ask any more who is in it.
bool Group::is_settled() const {
    return std::ranges::all_of(successors_established_, [](const auto& flag) { return *flag; });
}

bool Group::may_go() const {
    if (router_.transport_set()->users() == 0) return true;
    const bool still = std::ranges::all_of(slots_, [](const Slot& slot) { return slot.in_flight == 0; });
    return is_settled() && still && agreements_.quiet() && (!succession_ || succession_->quiet());
}

}  // namespace coppice::engine
