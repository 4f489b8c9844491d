#include "engine/formation/formation.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "base/host.hpp"
#include "bootstrap/door/door.hpp"
#include "engine/context.hpp"
#include "engine/formation/exchange.hpp"
#include "engine/formation/greeting.hpp"
#include "engine/formation/inside.hpp"
#include "engine/formation/meeting.hpp"
#include "engine/formation/transports.hpp"
#include "engine/newcomers/cards.hpp"
#include "engine/newcomers/doorway.hpp"
#include "engine/newcomers/introductions.hpp"
#include "engine/presence.hpp"
#include "engine/whereabouts.hpp"
#include "engine/wire/address_list.hpp"
#include "topology/domains.hpp"
#include "topology/switch_path.hpp"
#include "transport/faults.hpp"

namespace coppice::engine {
namespace {

class Formation {
  public:
    Formation(Context& context, const Settings& settings, bootstrap::Bootstrap& bootstrap, std::uint64_t deadline_ns)
        : context_(context),
          settings_(settings),
          bootstrap_(bootstrap),
          deadline_ns_(deadline_ns),
          self_(bootstrap.rank()),
          size_(bootstrap.size()),
          capacity_(settings.capacity.value_or(bootstrap.size())),
          transport_set_(std::make_shared<TransportSet>(capacity_)),
          is_dead_(bootstrap.size(), false) {}

    Result<std::unique_ptr<Group>> run(Group::FailureCallback on_failure) {
        if (size_ > kMostRanks) {
            return fail(COPPICE_ERR_OUT_OF_RANGE, "a group of {} ranks: at most {} are possible", size_, kMostRanks);
        }
        if (size_ > capacity_) {
            return fail(COPPICE_ERR_CONFIG, "COPPICE_CAPACITY = {}, but the group begins with {} ranks: allow as many",
                        capacity_, size_);
        }
        auto met = meet(context_, settings_, bootstrap_, deadline_ns_);
        if (!met) return tl::unexpected(std::move(met.error()));
        take(std::move(*met));
        if (auto can_be = check_reach_of_newcomers(); !can_be) return tl::unexpected(std::move(can_be.error()));
        if (auto made = make_transports(); !made) return tl::unexpected(std::move(made.error()));
        if (auto made = make_door(); !made) return tl::unexpected(std::move(made.error()));
        // Before the last exchange: nobody has the group without a rank that may have ended later, and was not known to the witness.
        transport_set_->attend_by(make_presence(settings_, context_, meeting_.token, {.number = self_.value}));
        if (auto known = exchange_addresses(); !known) return tl::unexpected(std::move(known.error()));
        if (auto shared = share_host_memory(); !shared) return tl::unexpected(std::move(shared.error()));
        look_at_cores();
        keep_pages();

        auto switches = switches_by_node(*nodes_, meeting_.switches);
        if (!switches) return tl::unexpected(std::move(switches.error()));
        std::vector<topology::Site> sites = topology::sites_of(*switches);
        if (settings_.join == Join::none) *switches = std::vector<std::string>();
        auto plan = settings_.plan_for(nodes_->count(), sites);
        if (!plan) return fail(COPPICE_ERR_CONFIG, "{}", plan.error());
        std::optional<topology::Nodes> domains;
        if (may_have_domains()) domains = topology::domains_of(places_);
        Members members(self_, std::move(*nodes_), std::move(sites), std::move(domains), std::move(*switches));
        auto group = std::make_unique<Group>(Core::Parts{.context = &context_,
                                                         .settings = settings_,
                                                         .members = std::move(members),
                                                         .router = Router(transport_set_, size_),
                                                         .board = board_,
                                                         .board_wrapper = std::move(board_wrapper_),
                                                         .id = {.token = token32()},
                                                         .cores = cores_,
                                                         .sharing_cores = sharing_,
                                                         .on_failure = std::move(on_failure),
                                                         .lineage = lineage()},
                                             std::move(*plan));
        // The greetings have told everybody of the same; later ones may be news to others.
        const std::span<const Rank> dead = dead_;
        group->core().membership().note_voteless(absent_);
        group->start_with_failed(dead.first(dead_at_meeting_), dead.subspan(dead_at_meeting_));
        if (settings_.keeps_pmix_session) listen_to_launcher();
        if (auto opened = open_door(group->core().around().id()); !opened)
            return tl::unexpected(std::move(opened.error()));
        return group;
    }

  private:
    void take(Meeting meeting) {
        meeting_ = std::move(meeting);
        for (const Rank rank : meeting_.dead)
            bury(rank);
        dead_at_meeting_ = dead_.size();
        absent_ = dead_;
        nodes_ = by_host() ? topology::Nodes::by_host(std::span<const std::string>(meeting_.hosts))
                           : topology::Nodes::flat(size_);
        reach_ = {.capacity = capacity_, .local_ranks = 0, .is_alone = size_ == dead_.size() + 1};
        for (std::uint32_t r = 0; r < size_; ++r) {
            const bool here = same_host(Rank(r));
            reach_.has_local_peers |= here && Rank(r) != self_;
            reach_.local_ranks += here && !dead(Rank(r));
            reach_.has_far_peers |= !here && !dead(Rank(r));
        }
    }

    // What a group's messages carry of it.
    std::uint32_t token32() const { return static_cast<std::uint32_t>(meeting_.token ^ (meeting_.token >> 32)); }
    bool by_host() const { return settings_.hierarchy == Hierarchy::host && settings_.allows_within_host(); }
    bool same_host(Rank rank) const { return meeting_.same_host(rank); }
    bool dead(Rank rank) const { return is_dead_[rank.value]; }
    void bury(Rank rank) {
        dead_.push_back(rank);
        is_dead_[rank.value] = true;
    }

    // With COPPICE_JOIN=host doors listen on loopback, and newcomers make no transport between hosts: over several hosts no member could call
    // the keeper, and no newcomer reach all members. All ranks find the same.
    Result<void> check_reach_of_newcomers() const {
        if (settings_.join != Join::host) return {};
        const auto other =
            std::ranges::find_if(meeting_.hosts, [this](const auto& one) { return one != meeting_.hosts.front(); });
        if (other == meeting_.hosts.end()) return {};
        return fail(COPPICE_ERR_CONFIG,
                    "COPPICE_JOIN=host lets processes of one host join, and ranks 0 and {} are on different hosts: "
                    "start all ranks with "
                    "COPPICE_JOIN=any (coppice-run sets it with --hosts)",
                    other - meeting_.hosts.begin());
    }

    Result<void> make_transports() {
        const std::vector<transport::Region> regions = Group::host_regions(capacity_, settings_);
        auto made = engine::make_transports(*transport_set_, settings_, meeting_, reach_, regions, context_.platform());
        if (!made) return tl::unexpected(std::move(made.error()));
        host_memory_ = made->host_memory;
        fault_count_ = std::move(made->fault_count);
        transport_set_->plant(fault_count_);
        return {};
    }

    std::vector<std::byte> transport_addresses() const {
        std::vector<std::byte> all;
        for (const auto& wire : transport_set_->wires())
            append_address(all, wire->capabilities().name, wire->address());
        if (door_) append_address(all, kDoorName, door_->address().bytes());
        if (const int page = context_.page_descriptor(); page >= 0 && host_memory_ != nullptr)
            append_address(all, kPageName, std::as_bytes(std::span(&page, 1)));
        if (all.empty()) all.push_back(std::byte{'\n'});  // alone: nothing to reach, but here
        return all;
    }

    Result<void> exchange_addresses() {
        const std::vector<std::byte> mine = transport_addresses();
        transport_set_->directory().take(Seat(self_.value), 0,
                                         settings_.join != Join::none ? mine : std::vector<std::byte>());
        auto learned = engine::exchange_addresses(bootstrap_,
                                                  {.settings = settings_,
                                                   .transport_set = *transport_set_,
                                                   .self = self_,
                                                   .hosts = meeting_.hosts,
                                                   .is_dead = is_dead_,
                                                   .nodes = *nodes_,
                                                   .token = token32(),
                                                   .clock = context_.clock()},
                                                  mine, deadline_ns_);
        if (!learned) return tl::unexpected(std::move(learned.error()));
        for (const Rank rank : learned->dead)
            bury(rank);
        absent_.insert(absent_.end(), learned->silent.begin(), learned->silent.end());
        pages_ = std::move(learned->pages);
        return {};
    }

    // One more source of deaths; without it the others are left.
    void listen_to_launcher() {
        auto reports = bootstrap_.reports();
        if (reports) return transport_set_->heed(std::move(*reports));
        static std::once_flag told;
        std::call_once(told, [&] {
            std::fprintf(stderr, "coppice: COPPICE_PMIX_SESSION=keep is of no use here: %s\n",
                         reports.error().message.c_str());
        });
    }

    Lineage lineage() const {
        std::vector<Origin> origins;
        for (std::uint32_t rank = 0; settings_.join != Join::none && rank < size_; ++rank)
            origins.push_back({.seat = Seat(rank), .host = host_number(meeting_.hosts[rank])});
        return Lineage(std::move(origins));
    }

    Result<void> make_door() {
        if (settings_.join == Join::none || context_.platform() != nullptr) return {};
        auto door = bootstrap::Door::open(settings_.join == Join::host, door_ips());
        if (!door) return tl::unexpected(std::move(door.error()));
        door_ = std::move(*door);
        return {};
    }

    // For processes that come later: by the launcher, where it starts some, else with tickets.
    Result<void> open_door(const GroupId& id) {
        if (settings_.join == Join::none) return {};
        auto admission =
            context_.platform() != nullptr ? context_.platform()->admission() : bootstrap_.admission(deadline_ns_);
        if (!admission) return tl::unexpected(std::move(admission.error()));
        if (*admission) door_.reset();
        if (!*admission && !door_) return {};
        const Invitation invitation{.protocol = Greeting::protocol_name(),
                                    .library = COPPICE_VERSION,
                                    .agreement = settings_.agreement(),
                                    .transports = settings_.transport_names(),
                                    .token = meeting_.token,
                                    .secret = meeting_.secret,
                                    .capacity = capacity_};
        const Card card{.host = meeting_.hosts[self_.value],
                        .switches = meeting_.switches[self_.value],
                        .addresses = transport_addresses()};
        if (door_) {
            door_->belong(meeting_.secret.bytes, {.number = self_.value}, capacity_, invitation.bytes());
            *admission = std::move(door_);
        }
        (*admission)->tell_card(invitation.bytes(), card.bytes());
        transport_set_->introduce_by(std::make_unique<Introductions>(*transport_set_, settings_, card.host,
                                                                     std::move(*admission), context_.clock()));
        transport_set_->introductions()->admit_from(id.token, UINT32_MAX);
        return {};
    }

    // What a process has mapped of an RDMA device stays open as long as its memory is there.
    void look_at_cores() {
        cores_ = own_cores();
        sharing_ = reach_.local_ranks;
        if (host_memory_ == nullptr) return;
        std::vector<Seat> local_peers;
        for (std::uint32_t r = 0; r < size_; ++r)
            if (same_host(Rank(r))) local_peers.emplace_back(r);  // the dead are counted out as they become known
        host_memory_->look_at_cores();
        sharing_ = host_memory_->sharing_cores(local_peers);
        const bool by_default = sharing_ > cores_ && !(reach_.has_far_peers && has_rdma_devices());
        if (settings_.keeper.value_or(by_default)) host_memory_->keep_memory();
    }

    // Each rank keeps the pages of the two behind it on its host. A page is lost where a rank and the two before it are killed.
    void keep_pages() {
        if (host_memory_ == nullptr) return;
        constexpr int kKept = 2;
        const Context::Guard guard(context_);
        int kept = 0;
        for (std::uint32_t i = 1; i < size_ && kept < kKept; ++i) {
            const Rank rank((self_.value + i) % size_);
            if (dead(rank) || !same_host(rank)) continue;
            const pid_t process = host_memory_->process_of(Seat(rank.value));
            const auto page = pages_.find(rank);
            if (process > 0 && page != pages_.end()) context_.keep_page_of(process, page->second);
            ++kept;
        }
    }

    bool may_have_domains() const {
        return by_host() && size_ > topology::kMostInOneLevel &&
               std::ranges::all_of(meeting_.hosts,
                                   [this](const std::string& host) { return host == meeting_.hosts.front(); });
    }

    // Where ranks of a host publish to each other, all of them must have mapped all others before the first one
    // publishes: only what is mapped outlives its writer.
    Result<void> share_host_memory() {
        if (!by_host()) return {};
        if (host_memory_ != nullptr) {
            std::vector<Seat> local_peers;
            for (std::uint32_t r = 0; r < size_; ++r) {
                if (!dead(Rank(r)) && same_host(Rank(r))) local_peers.emplace_back(r);
            }
            if (auto sealed = host_memory_->seal_board(std::move(local_peers)); !sealed) return sealed;
            board_ = &host_memory_->board(0);
            transport_set_->share_host_memory(host_memory_);
            if (fault_count_) {
                board_wrapper_ = std::make_unique<transport::FaultyBoard>(*board_, fault_count_);
                board_ = board_wrapper_.get();
            }
        }
        return exchange_places();
    }

    // When all have mapped each other. With the word that it has each tells where it is within its host: of other hosts that is of no
    // interest, and a store is not asked for it.
    Result<void> exchange_places() {
        std::vector<Rank> wanted;
        for (std::uint32_t r = 0; r < size_; ++r)
            if (!bootstrap_.has_store() || same_host(Rank(r))) wanted.emplace_back(r);
        std::string ready(1, '+');  // never empty
        if (!settings_.within.empty())
            ready += settings_.within;
        else if (may_have_domains() && context_.platform() == nullptr && host_memory_ != nullptr)
            ready += own_place(*host_memory_, size_, own_cores());
        auto told = bootstrap_.exchange_with(wanted, std::as_bytes(std::span(ready)), deadline_ns_);
        if (!told) return tl::unexpected(std::move(told.error()));
        auto places = read_places(wanted, *told);
        if (!places) return tl::unexpected(std::move(places.error()));
        places_ = std::move(*places);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            if (!(*told)[i].empty()) continue;
            absent_.push_back(wanted[i]);
            if (!dead(wanted[i])) bury(wanted[i]);
        }
        return {};
    }

    Context& context_;
    const Settings& settings_;
    bootstrap::Bootstrap& bootstrap_;
    std::uint64_t deadline_ns_;
    Rank self_;
    std::uint32_t size_;
    std::uint32_t capacity_;
    std::shared_ptr<TransportSet> transport_set_;
    std::unique_ptr<bootstrap::Door> door_;  // null: the launcher has one, or nobody may come
    transport::HostMemory* host_memory_ = nullptr;
    transport::Board* board_ = nullptr;
    std::unique_ptr<transport::Board> board_wrapper_;
    std::shared_ptr<transport::MessageCount> fault_count_;
    Meeting meeting_;
    Reach reach_;
    std::optional<topology::Nodes> nodes_;  // once all have met
    std::vector<std::string> places_;       // within their host: of all ranks, where these are on one
    std::vector<Rank> dead_;
    std::size_t dead_at_meeting_ = 0;
    std::map<Rank, int> pages_;  // Learned::pages
    std::vector<Rank> absent_;   // of the dead: from an exchange without which nobody has the group
    std::vector<bool> is_dead_;  // by rank
    std::uint32_t cores_ = 1;    // of this rank
    std::uint32_t sharing_ = 1;  // ranks that have no others
};

}  // namespace

Result<std::unique_ptr<Group>> form_group(Context& context, const Settings& settings, bootstrap::Bootstrap& bootstrap,
                                          Group::FailureCallback on_failure, std::uint64_t deadline_ns) {
    return Formation(context, settings, bootstrap, deadline_ns).run(std::move(on_failure));
}

}  // namespace coppice::engine
