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

#include "engine/collectives/shrink/shrink.hpp"
#include "engine/newcomers/introductions.hpp"
#include "topology/domains.hpp"
#include "topology/switch_path.hpp"
#include "transport/host_memory.hpp"

namespace coppice::engine {
namespace {

// A rank that leaves in peace says so on the connections that it has: one that is waited for for so many rounds is connected to.
constexpr std::uint32_t kRoundsBeforeDoubt = 256;

// Where nobody asks for them there are none.
std::unique_ptr<LastVotes> make_votes(const Core& core) {
    if (core.around().settings().quorum != protocol::Quorum::certain) return nullptr;
    bootstrap::Presence* const presence = core.around().router().transport_set()->presence();
    const Testimony testimony{.witness = presence == nullptr ? nullptr : &presence->witness(),
                              .group = std::uint64_t{core.around().id().token} << 32 | core.around().id().epoch.value,
                              .presence = presence,
                              .lineage = &core.around().lineage(),
                              .epoch = core.around().id().epoch.value};
    if (!core.local_peers().publishing() && testimony.witness == nullptr) return nullptr;
    return std::make_unique<LastVotes>(core.local_peers().publishing() ? core.local_peers().board() : nullptr,
                                       core.members(), core.around().router().transport_set()->capacity(), testimony);
}

}  // namespace

Shrink::Shrink(Core& core, Agreement& agreement, Successors& successors, std::shared_ptr<bool> established)
    : core_(core),
      around_(core.around()),
      subscribers_(core.subscribers()),
      life_(core.life()),
      membership_(core.membership()),
      news_(core.news()),
      agreement_(agreement),
      successors_(successors),
      members_(core.members()),
      router_(core.around().router()),
      votes_(make_votes(core)),
      quorum_(core, votes_.get()),
      established_(std::move(established)) {
    if (votes_ && votes_->has_witness()) membership_.heed(*this);
    // A rank that leaves a group which not all have made yet could not tell them any more which ranks are in it.
    if (established_) agreement_.flush_in_any_case();
}

Shrink::~Shrink() {
    if (established_) *established_ = true;
    // Its caller had given it up: no group comes of this one any more.
    if (succession_ && succession_->under_way()) router_.transport_set()->expect_no_more();
}

Result<void> Shrink::start(Request& request, const RenewalOptions& options) {
    subscribers_.hear_last_words();
    // There this rank may find that it is fenced: nothing would end a shrink that has yet to begin.
    membership_.read_failure_logs();
    if (life_.fenced())
        return fail(COPPICE_ERR_FENCED, "rank {} was taken for dead by the others", members_.self().value);
    if (shrinking_ != nullptr) return fail(COPPICE_ERR_BUSY, "this group is being shrunk already: wait for that");
    const std::uint32_t room = std::max(members_.ranks(), router_.transport_set()->capacity());
    if (options.bounds && options.bounds->least > room) {
        return fail(COPPICE_ERR_INVALID_ARGUMENT,
                    "a renewal waits until there are {} members, and there can be {} at most: start all ranks with a "
                    "larger COPPICE_CAPACITY",
                    options.bounds->least, room);
    }
    request.begin(this, Sequence(0));
    request.view = false;
    shrinking_ = &request;
    if (untold_) {
        request.agreed = excluded_;
        const Error untold = *std::exchange(untold_, std::nullopt);
        end(untold.status, untold.message);
        return {};
    }
    const bool has_left = succession_ && succession_->has_left() && !succession_->under_way();
    if (successors_.has_one() || has_left) {  // after an earlier call had given up, or again
        request.agreed = excluded_;
        end(COPPICE_OK);
    } else if (!succession().under_way()) {
        router_.transport_set()->expect_group();
        succession().begin(options);
    } else {
        succession().ask_for(options);
    }
    progress(true);
    return {};
}

Result<void> Shrink::leave() {
    core_.look_whether_fenced();
    if (life_.fenced())
        return fail(COPPICE_ERR_FENCED, "rank {} was taken for dead by the others", members_.self().value);
    if (succession().under_way() || successors_.has_one() || untold_)
        return fail(COPPICE_ERR_BUSY, "this group is being renewed already, with this rank: leave the new one");
    succession().leave();
    agreement_.announce_change(true);
    return {};
}

// Made when it is first needed, here or by others.
Succession& Shrink::succession() {
    if (!succession_) {
        succession_ =
            std::make_unique<Succession>(members_, router_, around_.id(), around_.settings().quorum, votes_.get());
        tell_of_the_voteless();
        for (const Rank rank : life_.departed())
            succession_->peer_left(rank);
        tell_of_newcomers();
    }
    return *succession_;
}

// They are certainly gone, and nothing that they may have voted is missing.
void Shrink::tell_of_the_voteless() {
    const protocol::FailedSet& voteless = membership_.voteless();
    if (!succession_ || voteless.count() == voteless_told_) return;
    voteless_told_ = voteless.count();
    for (const protocol::FailedSet::Interval& run : voteless.intervals())
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
            succession_->peer_was_never_here(Rank(rank));
}

bool Shrink::message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                     transport::Buffer /*buffer*/) {
    if (!succession().message(from, header, payload)) news_.note_garbage();
    if (succession_->fenced()) life_.be_fenced();
    membership_.learn_from(succession_->failed());
    return false;
}

transport::Region Shrink::host_region(const Settings& settings) {
    return LastVotes::host_region(settings.quorum == protocol::Quorum::certain);
}

// Before the others: what would end well now without those that can't be reached may end otherwise on their side.
void Shrink::member_failed(const Death& death) {
    look_at_quorum();
    if (succession_) succession_->peer_failed(death.rank);
}

// As if somebody had revoked the group, but this rank alone knows of it; the others come to the same by themselves. For good: what others
// have ended meanwhile this rank has not. A renewal may still find that there is a quorum.
void Shrink::look_at_quorum(const protocol::FailedSet& news) {
    if (around_.settings().quorum == protocol::Quorum::any) return;
    const bool had_quorum = !no_quorum_;
    if (had_quorum && quorum_.has_quorum(news)) return;
    if (had_quorum) no_quorum_ = Error{COPPICE_ERR_NO_QUORUM, quorum_.why_not(news)};
    if (around_.settings().quorum == protocol::Quorum::certain) membership_.tell_of_the_living(news);
    if (!had_quorum) return;
    if (!life_.is_member()) return;
    life_.note_revoked();
    subscribers_.end_all(no_quorum_->status, no_quorum_->message);
}

bool Shrink::awaits_witness(const protocol::FailedSet& news) const {
    return !no_quorum_ && !quorum_.has_quorum(news);
}

std::uint64_t Shrink::next_timer_ns() const {
    const std::uint64_t now_ns = around_.now_ns();
    return !no_quorum_ && grace_.lasts(now_ns) ? now_ns + Membership::kWitnessLookNs : UINT64_MAX;
}

void Shrink::member_left(Rank rank) {
    if (no_quorum_) look_at_quorum();
    if (succession_) succession_->peer_left(rank);
}

void Shrink::progress(bool thorough) {
    // A member that has contributed to an agreement of this group has made it, and asks no more about how.
    if (established_ && !*established_)
        *established_ = agreement_.has_ended_any() || (succession_ && succession_->ended() > 0);
    if (membership_.still_alive().count() != living_heard_) {
        living_heard_ = membership_.still_alive().count();
        look_at_quorum();
    }
    if (router_.transport_set()->introductions() != nullptr) heed_newcomers();
    if (!succession_) return;
    tell_of_the_voteless();
    const auto heritage = succession_->progress();
    if (succession_->fenced()) life_.be_fenced();
    if (thorough && succession_->under_way() && ++undecided_rounds_ % kRoundsBeforeDoubt == 0) {
        const protocol::FailedSet ranks = succession_->waited_for();
        for (const protocol::FailedSet::Interval& run : ranks.intervals()) {
            for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
                membership_.watch(Rank(rank));
        }
    }
    if (thorough) succession_->look_for_dead();
    const bool may_be_witnessed = votes_ && votes_->has_witness() && !no_quorum_;
    grace_.look(succession_->lacks_quorum() && may_be_witnessed, around_.now_ns());
    if (!heritage && succession_->lacks_quorum() && !grace_.lasts(around_.now_ns()))
        end(COPPICE_ERR_NO_QUORUM, succession_->why_no_quorum());
    if (!heritage) return;
    undecided_rounds_ = 0;
    protocol::FailedSet dead = *heritage->excluded;
    dead.subtract(heritage->left);
    membership_.learn_from(dead);
    make_successor(*heritage);
}

void Shrink::make_successor(const Heritage& heritage) {
    excluded_ = heritage.excluded;
    if (shrinking_ != nullptr) shrinking_->agreed = excluded_;
    const auto self = std::ranges::find(heritage.heirs, std::optional(members_.self()), &Heritage::Heir::before);
    const std::shared_ptr<TransportSet>& transport_set = router_.transport_set();
    const bool has_board = transport_set->host_memory() != nullptr;
    const auto refuse = [&](coppice_status_t status, const std::string& why) {
        transport_set->expect_no_more();
        if (shrinking_ == nullptr) untold_ = Error{status, "shrinking: " + why};
        end(status, "shrinking: " + why);
    };
    if (succession_->has_left()) {
        transport_set->expect_no_more();
        return end(COPPICE_OK);
    }
    if (self == heritage.heirs.end()) return refuse(COPPICE_ERR_FENCED, "the others take this rank for dead");
    if (heritage.is_at_odds) {
        return refuse(COPPICE_ERR_MISMATCH,
                      "ranks have given different options to coppice_group_renew: no group was made");
    }
    if (const Heritage::Heir* const unknown = unknown_newcomer(heritage)) {
        return refuse(COPPICE_ERR_MISMATCH,
                      fmt::format("the others take in a process that this rank was not told of: number {}, started {} "
                                  "times before",
                                  unknown->number, unknown->incarnation));
    }
    if (has_board && !heritage.panel) {
        const std::string why = fmt::format(
            "{} groups of these ranks share memory already, or there is no more of it: destroy "
            "groups that are not used any more, at all ranks",
            transport::HostMemory::kPanels);
        if (!heritage.others_have_one) turn_away(heritage, why);
        return refuse(COPPICE_ERR_NO_RESOURCES, why);
    }
    const Birth birth = birth_of(heritage);
    std::vector<Seat> there;
    std::vector<Rank> dead;  // whose seat another process has already
    std::vector<std::uint64_t> nodes;
    std::vector<Origin> origins;
    for (std::size_t i = 0; i < birth.members.size(); ++i) {
        const Birth::Member& one = birth.members[i];
        const std::optional<Rank> before = heritage.heirs[i].before;
        there.push_back(before ? router_.seat_of(*before) : transport_set->seat_of(one.origin));
        if (there.back() == transport_set->nowhere()) dead.emplace_back(static_cast<std::uint32_t>(origins.size()));
        nodes.push_back(one.node);
        origins.push_back(one.origin);
    }
    topology::Nodes new_nodes = topology::Nodes::by_host(nodes);
    std::vector<std::string> switches = birth.switches_by_node(new_nodes);
    std::vector<topology::Site> sites = topology::sites_of(switches);
    const bool has_sites = !members_.sites().empty() && switches.empty();  // without newcomers: the paths were not kept
    for (std::uint32_t node = 0; has_sites && node < new_nodes.count(); ++node)
        sites.push_back(members_.sites()[nodes[new_nodes.members(node).front().value]]);
    // Nobody knows where newcomers are within the host.
    std::vector<std::uint64_t> domains;
    const bool has_domains = members_.domains() != nullptr && !heritage.has_newcomers();
    for (std::size_t i = 0; has_domains && i < heritage.heirs.size(); ++i)
        domains.push_back(members_.domains()->node_of(*heritage.heirs[i].before));
    Members members(Rank(static_cast<std::uint32_t>(self - heritage.heirs.begin())), std::move(new_nodes),
                    std::move(sites), topology::domains_of(domains), std::move(switches));
    auto plan = around_.settings().plan_for(members.nodes(), members.sites());
    if (!plan) {
        turn_away(heritage, plan.error());
        return refuse(COPPICE_ERR_CONFIG, plan.error());
    }

    Core::Parts parts{
        .context = &around_.context(),
        .settings = around_.settings(),
        .members = std::move(members),
        .router = Router(transport_set, std::move(there)),
        .id = birth.id,
        .cores = around_.cores(),
        .sharing_cores = std::min(around_.sharing_cores(), static_cast<std::uint32_t>(heritage.heirs.size())),
        .on_failure = nullptr,
        .panel = heritage.panel.value_or(0),
        .is_successor = true,
        .lineage = Lineage(std::move(origins))};
    parts.open_board();
    successors_established_.push_back(std::make_shared<bool>(false));
    // It is told of the deaths that the transports know. What this group takes for dead besides may have left this group alone.
    successors_.make(std::move(parts), std::move(*plan), successors_established_.back(), dead);
    announce(heritage, birth);
    end(COPPICE_OK);
}

void Shrink::end(coppice_status_t status, std::string message) {
    Request* const request = std::exchange(shrinking_, nullptr);
    if (request != nullptr) request->end(status, std::move(message));
}

// A revoked group can still be shrunk.
void Shrink::end_all(coppice_status_t status, const std::string& why) {
    if (status != COPPICE_ERR_FENCED || !succession_ || !succession_->under_way()) return;
    succession_->give_up();
    router_.transport_set()->expect_no_more();
    end(status, "shrinking: " + why);
}

bool Shrink::peek(Request& request) {
    if (request.state == RequestState::waiting) progress(false);
    return request.state == RequestState::done;
}

void Shrink::finish(Request& request) {
    if (shrinking_ == &request) shrinking_ = nullptr;
}

std::string Shrink::waiting_for(const Request& /*request*/) const {
    return succession_->waiting_for();
}

void Shrink::show_waits(const Request& /*request*/, status::Waits& waits) const {
    succession_->show_waits(waits);
}

// While it is under way this rank is counted on.
bool Shrink::drained() {
    const bool is_over = !succession_ || !succession_->under_way() || succession_->lacks_quorum();
    return is_over && (!succession_ || !succession_->waits_for_room());
}

std::string Shrink::leaving_waits_for() const {
    const bool is_waited_for = succession_ && succession_->under_way() && !succession_->lacks_quorum();
    return is_waited_for ? succession_->waiting_for() : std::string();
}

bool Shrink::is_settled() const {
    return std::ranges::all_of(successors_established_, [](const auto& flag) { return *flag; });
}

bool Shrink::quiet() const {
    return is_settled() && (!succession_ || succession_->quiet());
}

}  // namespace coppice::engine
