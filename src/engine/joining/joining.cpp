#include "engine/joining/joining.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/host.hpp"
#include "bootstrap/admission.hpp"
#include "bootstrap/door/caller.hpp"
#include "engine/context.hpp"
#include "engine/formation/greeting.hpp"
#include "engine/formation/transports.hpp"
#include "engine/newcomers/cards.hpp"
#include "engine/newcomers/doorway.hpp"
#include "engine/newcomers/introductions.hpp"
#include "engine/presence.hpp"
#include "engine/whereabouts.hpp"
#include "engine/wire/address_list.hpp"
#include "topology/switch_path.hpp"
#include "transport/faults.hpp"
#include "transport/registry.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint64_t kLongestSleepNs = 100'000'000;
constexpr std::uint64_t kShortestSleepNs = 1'000'000;

class Joining {
  public:
    Joining(Context& context, const Settings& settings, std::uint64_t deadline_ns)
        : context_(context), settings_(settings), deadline_ns_(deadline_ns), host_(host_identity(settings.host)) {}

    Result<std::unique_ptr<Group>> run(const bootstrap::LauncherEnvironment& environment,
                                       Group::FailureCallback on_failure) {
        self_ = Seat(environment.rank.value);
        who_ = fmt::format("rank {}, which was started late,", self_.value);
        if (settings_.join == Join::none || !settings_.capacity || self_.value >= *settings_.capacity) {
            return fail(COPPICE_ERR_CONFIG,
                        "rank {} was started late, but COPPICE_JOIN and COPPICE_CAPACITY do not let it in: coppice-run "
                        "sets them, do not set them by hand",
                        self_.value);
        }
        auto admission = context_.platform() != nullptr
                             ? context_.platform()->admission()
                             : bootstrap::LauncherAdmission::enter(
                                   environment, context_.clock().now_ns() + settings_.start_timeout_ns);
        if (!admission) return tl::unexpected(std::move(admission.error()));
        if (auto invited = be_invited(**admission); !invited) return tl::unexpected(std::move(invited.error()));
        capacity_ = *settings_.capacity;
        if (auto joined = become_member(std::move(*admission)); !joined)
            return tl::unexpected(std::move(joined.error()));
        return make_group(std::move(on_failure));
    }

    // COPPICE_ERR_PEER_FAILED: the member at whose door it waited is gone; it may begin again, as another newcomer.
    Result<std::unique_ptr<Group>> run(std::span<const bootstrap::Ticket> tickets, std::uint64_t joiner,
                                       const Group::FailureCallback& on_failure) {
        who_ = "this process";
        auto let_in = bootstrap::be_let_in(tickets, joiner, settings_.join == Join::host, door_ips(), deadline_ns_);
        if (!let_in) return tl::unexpected(std::move(let_in.error()));
        std::unique_ptr<bootstrap::Door> door = std::move(*let_in);
        if (auto invited = be_invited(*door); !invited) return tl::unexpected(std::move(invited.error()));
        capacity_ = invitation_.capacity;
        if (self_.value >= capacity_ || capacity_ > kMostRanks)
            return fail(COPPICE_ERR_MISMATCH, "the group gives this process a number that it can't have");
        door->belong(invitation_.secret.bytes, {.number = self_.value, .incarnation = incarnation_}, capacity_,
                     invitation_.bytes());
        door_address_ = door->address().bytes();
        if (auto joined = become_member(std::move(door)); !joined) return tl::unexpected(std::move(joined.error()));
        return make_group(on_failure);
    }

  private:
    Result<void> become_member(std::unique_ptr<bootstrap::Admission> admission) {
        auto switches = own_switches(settings_, context_.platform() != nullptr);
        if (!switches)
            return fail(switches.error().status, "{} can't tell where it is: {}", who_, switches.error().message);
        switches_ = std::move(*switches);
        transport_set_ = std::make_shared<TransportSet>(capacity_);
        transport_set_->expect_group();
        transport_set_->attend_by(make_presence(settings_, context_, invitation_.token,
                                                {.number = self_.value, .incarnation = incarnation_}));
        if (auto made = make_transports(); !made) return made;
        admission->tell_card({}, card().bytes());
        transport_set_->introduce_by(
            std::make_unique<Introductions>(*transport_set_, settings_, host_, std::move(admission), context_.clock()));
        return wait_until_born();
    }

    Error too_late() const {
        return {COPPICE_ERR_TIMEOUT, fmt::format("{} waited until its deadline, and no group has taken it in", who_)};
    }
    // False when the time is up.
    bool sleep(int descriptor, std::uint64_t longest_ns) const {
        const std::uint64_t now = context_.clock().now_ns();
        if (now >= deadline_ns_) return false;
        if (Platform* const platform = context_.platform()) {
            platform->pause(descriptor, std::min(longest_ns, deadline_ns_ - now));
            return true;
        }
        pollfd entry{descriptor, POLLIN, 0};
        const std::uint64_t most = std::min(longest_ns, deadline_ns_ - now);
        ::poll(&entry, 1, static_cast<int>(most / kShortestSleepNs + 1));
        return true;
    }

    Result<void> be_invited(bootstrap::Admission& admission) {
        for (;;) {
            auto event = admission.next();
            if (!event) return tl::unexpected(std::move(event.error()));
            if (*event && (*event)->kind == bootstrap::Admission::Event::Kind::invited) {
                self_ = Seat((*event)->who.number);
                incarnation_ = (*event)->who.incarnation;
                const auto read = Invitation::parse((*event)->body);
                if (!read) return fail(COPPICE_ERR_MISMATCH, "what the group says of itself is damaged");
                invitation_ = *read;
                return compare();
            }
            if (!*event && !sleep(admission.descriptor(), kLongestSleepNs)) return tl::unexpected(too_late());
        }
    }

    Result<void> compare() const {
        if (invitation_.protocol != Greeting::protocol_name()) {
            return fail(COPPICE_ERR_MISMATCH,
                        "the group speaks \"{}\" (library {}), {} \"{}\" (library {}): install one version",
                        shown(invitation_.protocol), shown(invitation_.library), who_, Greeting::protocol_name(),
                        COPPICE_VERSION);
        }
        if (invitation_.agreement != settings_.agreement() || invitation_.transports != settings_.transport_names()) {
            return fail(COPPICE_ERR_MISMATCH,
                        "the group has {}, transport {}; {} has {}, transport {}: give all ranks the same options and "
                        "environment",
                        shown(invitation_.agreement), shown(invitation_.transports), who_, settings_.agreement(),
                        settings_.transport_names());
        }
        return {};
    }

    Result<void> make_transports() {
        const std::vector<transport::Region> regions = Group::host_regions(capacity_, settings_);
        const transport::GroupFacts facts{.self = self_,
                                          .incarnation = incarnation_,
                                          .group_size = capacity_,
                                          .group_token = invitation_.token,
                                          .secret = invitation_.secret,
                                          .window = settings_.window,
                                          .host = settings_.host,
                                          .local_ranks = capacity_,
                                          .has_far_ranks = settings_.join == Join::any,
                                          .regions = regions};
        auto made = context_.platform() != nullptr ? take_those_of(*context_.platform(), regions) : make_all(facts);
        if (!made) return made;
        transport_set_->plant(faults_);
        transport_set_->directory().take(self_, incarnation_);
        const bool by_host = settings_.hierarchy == Hierarchy::host && settings_.allows_within_host();
        if (!by_host || host_memory_ == nullptr) return {};
        // The first board is one of a group that this process was never in.
        if (auto sealed = host_memory_->seal_board({self_}); !sealed) return sealed;
        host_memory_->close_board(0);
        host_memory_->clear_panels(1);
        transport_set_->share_host_memory(host_memory_);
        return {};
    }

    bool needs_wire() const { return settings_.join == Join::any || !settings_.allows_within_host(); }

    Result<void> make_all(const transport::GroupFacts& facts) {
        for (const TransportChoice& choice : settings_.transports) {
            if (!choice.allowed || !(choice.transport->within_host || (needs_wire() && is_meant_for_this_host(choice))))
                continue;
            auto made = choice.maker->make(facts);
            if (!made) {
                if (made.error().status == COPPICE_ERR_NO_TRANSPORT && can_do_without(settings_, choice)) continue;
                return tl::unexpected(std::move(made.error()));
            }
            if (made->host_memory != nullptr) host_memory_ = made->host_memory;
            if (auto added = add(std::move(made->transport)); !added) return added;
        }
        return {};
    }

    Result<void> take_those_of(Platform& platform, std::span<const transport::Region> regions) {
        Platform::Wires wires = platform.make_transports({.self = self_,
                                                          .ranks = capacity_,
                                                          .window = settings_.window,
                                                          .has_local_peers = settings_.allows_within_host(),
                                                          .has_far_peers = needs_wire(),
                                                          .regions = regions});
        host_memory_ = wires.host_memory;
        for (auto* wire : {&wires.near, &wires.far}) {
            if (*wire == nullptr) continue;
            if (auto added = add(std::move(*wire)); !added) return added;
        }
        return {};
    }

    // As members choose that let processes of any host in (formation/transports.cpp).
    bool is_meant_for_this_host(const TransportChoice& choice) const {
        return !settings_.chosen_by_hardware || choice.transport->probe();
    }

    Result<void> add(std::unique_ptr<transport::Transport> wire) {
        if (!settings_.faults.empty()) {
            auto plan = transport::parse_faults(settings_.faults, self_);
            if (!plan) return tl::unexpected(std::move(plan.error()));
            if (!faults_) faults_ = std::make_shared<transport::MessageCount>(*plan);
            wire = std::make_unique<transport::FaultyTransport>(std::move(wire), *plan, faults_);
        }
        transport_set_->add(std::move(wire));
        return {};
    }

    Card card() const {
        Card card{.host = host_, .switches = switches_, .addresses = {}};
        for (const auto& wire : transport_set_->wires())
            append_address(card.addresses, wire->capabilities().name, wire->address());
        if (!door_address_.empty()) append_address(card.addresses, kDoorName, door_address_);
        return card;
    }

    Result<void> wait_until_born() {
        Introductions& introductions = *transport_set_->introductions();
        for (;;) {
            introductions.poll();
            transport_set_->poll();
            if (introductions.born()) return {};
            if (introductions.descriptor() < 0) return tl::unexpected(*introductions.error());
            const int descriptor = transport_set_->arm().descriptor;
            const std::uint64_t longest = descriptor < 0 ? kShortestSleepNs : kLongestSleepNs;
            if (!sleep(descriptor < 0 ? introductions.descriptor() : descriptor, longest))
                return tl::unexpected(too_late());
        }
    }

    Result<std::unique_ptr<Group>> make_group(Group::FailureCallback on_failure) {
        const auto birth = Birth::parse(*transport_set_->introductions()->born());
        std::optional<Rank> own;
        bool has_seats = birth.has_value();
        for (std::uint32_t rank = 0; birth && rank < birth->members.size(); ++rank) {
            const Origin& origin = birth->members[rank].origin;
            has_seats = has_seats && origin.seat.value < transport_set_->capacity();
            if (origin.seat == self_ && origin.incarnation == incarnation_) own = Rank(rank);
        }
        const bool has_panel =
            birth && (host_memory() == nullptr || (birth->panel < transport::HostMemory::kPanels &&
                                                   (host_memory()->clean_panels() >> birth->panel & 1) != 0));
        if (!own || !has_seats || !has_panel)
            return fail(COPPICE_ERR_MISMATCH, "{} was taken into a group that it can't make", who_);
        const auto count = static_cast<std::uint32_t>(birth->members.size());
        std::vector<std::uint64_t> nodes;
        std::vector<Seat> there;
        std::vector<Rank> dead;
        std::vector<Origin> origins;
        for (std::uint32_t rank = 0; rank < count; ++rank) {
            const Birth::Member& one = birth->members[rank];
            nodes.push_back(one.node);
            origins.push_back(one.origin);
            there.push_back(transport_set_->seat_of(one.origin));
            if (there.back() == transport_set_->nowhere()) dead.emplace_back(rank);
        }
        topology::Nodes table = topology::Nodes::by_host(nodes);
        std::vector<std::string> switches = birth->switches_by_node(table);
        std::vector<topology::Site> sites = topology::sites_of(switches);
        Members members(*own, std::move(table), std::move(sites), {}, std::move(switches));
        auto plan = settings_.plan_for(members.nodes(), members.sites());
        if (!plan) return fail(COPPICE_ERR_CONFIG, "{}", plan.error());
        Core::Parts parts{.context = &context_,
                          .settings = settings_,
                          .members = std::move(members),
                          .router = Router(transport_set_, std::move(there)),
                          .id = birth->id,
                          .cores = own_cores(),
                          .on_failure = std::move(on_failure),
                          .panel = birth->panel,
                          .lineage = Lineage(std::move(origins))};
        parts.open_board();
        transport_set_->introductions()->note_members(*birth);
        transport_set_->introductions()->admit_from(birth->id.token, birth->most);
        auto group = std::make_unique<Group>(std::move(parts), std::move(*plan), std::make_shared<bool>(false));
        group->start_with_failed({}, dead);
        return group;
    }

    transport::HostMemory* host_memory() const { return transport_set_->host_memory(); }

    Context& context_;
    const Settings& settings_;
    std::uint64_t deadline_ns_;
    std::string who_;  // for people
    Seat self_;
    std::uint32_t capacity_ = 0;
    std::uint32_t incarnation_ = 0;
    std::string host_;
    std::string switches_;  // above it
    Invitation invitation_;
    Bytes door_address_;  // empty: the launcher's newcomers have none
    std::shared_ptr<TransportSet> transport_set_;
    transport::HostMemory* host_memory_ = nullptr;
    std::shared_ptr<transport::MessageCount> faults_;
};

}  // namespace

Result<std::unique_ptr<Group>> join_group(Context& context, const Settings& settings,
                                          const bootstrap::LauncherEnvironment& environment,
                                          Group::FailureCallback on_failure, std::uint64_t deadline_ns) {
    return Joining(context, settings, deadline_ns).run(environment, std::move(on_failure));
}

Result<std::unique_ptr<Group>> join_group(Context& context, const Settings& settings,
                                          std::span<const std::byte> tickets, Group::FailureCallback on_failure,
                                          std::uint64_t deadline_ns) {
    if (settings.join == Join::none) {
        return fail(COPPICE_ERR_CONFIG,
                    "COPPICE_JOIN=none, and this process is to join a group: give it the group's settings, "
                    "COPPICE_JOIN=host or any and COPPICE_CAPACITY among them");
    }
    auto read = bootstrap::read_tickets(tickets);
    if (!read) return tl::unexpected(std::move(read.error()));
    const std::uint64_t joiner = bootstrap::draw_joiner();
    for (;;) {
        auto joined = Joining(context, settings, deadline_ns).run(*read, joiner, on_failure);
        if (joined || joined.error().status != COPPICE_ERR_PEER_FAILED) return joined;
        if (context.clock().now_ns() >= deadline_ns) return fail(COPPICE_ERR_TIMEOUT, "{}", joined.error().message);
    }
}

}  // namespace coppice::engine
