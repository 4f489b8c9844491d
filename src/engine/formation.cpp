#include "engine/formation.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>

#include "base/host.hpp"
#include "base/mix.hpp"
#include "bootstrap/door/door.hpp"
#include "engine/addresses/exchange.hpp"
#include "engine/context.hpp"
#include "engine/greeting.hpp"
#include "engine/group_secret.hpp"
#include "engine/inside.hpp"
#include "engine/joining/cards.hpp"
#include "engine/joining/doorway.hpp"
#include "engine/joining/introductions.hpp"
#include "engine/whereabouts.hpp"
#include "topology/domains.hpp"
#include "topology/switch_path.hpp"
#include "transport/faults.hpp"
#include "transport/registry.hpp"

namespace coppice::engine {
namespace {

using Blobs = std::vector<std::vector<std::byte>>;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

bool is_listed(std::string_view list, std::string_view name) {
    for (;;) {
        const std::size_t comma = list.find(',');
        if (list.substr(0, comma) == name) return true;
        if (comma == std::string_view::npos) return false;
        list.remove_prefix(comma + 1);
    }
}

// Only to make tokens of different groups differ.
std::uint64_t hash_of(const std::vector<std::string>& words) {
    std::uint64_t hash = 0;
    for (const std::string& word : words)
        hash = hash_bytes(word.data(), word.size(), hash);
    return hash;
}

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
        if (auto met = meet(); !met) return tl::unexpected(std::move(met.error()));
        if (auto made = make_transports(); !made) return tl::unexpected(std::move(made.error()));
        if (auto made = make_door(); !made) return tl::unexpected(std::move(made.error()));
        if (auto known = exchange_addresses(); !known) return tl::unexpected(std::move(known.error()));
        if (auto shared = share_host_memory(); !shared) return tl::unexpected(std::move(shared.error()));
        look_at_cores();
        keep_pages();

        auto sites = sites_of(*nodes_, switches_);
        if (!sites) return tl::unexpected(std::move(sites.error()));
        auto plan = settings_.plan_for(nodes_->count(), *sites);
        if (!plan) return fail(COPPICE_ERR_CONFIG, "{}", plan.error());
        std::optional<topology::Nodes> domains;
        if (may_have_domains()) domains = topology::domains_of(places_);
        Members members(self_, std::move(*nodes_), std::move(*sites), std::move(domains));
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
        group->start_with_failed(dead.first(dead_at_meeting_), dead.subspan(dead_at_meeting_));
        if (settings_.keeps_pmix_session) listen_to_launcher();
        if (auto opened = open_door(group->core().id()); !opened) return tl::unexpected(std::move(opened.error()));
        return group;
    }

  private:
    Result<void> meet() {
        auto nonce = draw_nonce();
        if (!nonce) return tl::unexpected(std::move(nonce.error()));
        own_addresses_ = addresses_to_tell();
        auto switches = own_switches(settings_, context_.platform() != nullptr);
        if (!switches) return tl::unexpected(std::move(switches.error()));
        const Greeting mine{.protocol = Greeting::protocol_name(),
                            .library = COPPICE_VERSION,
                            .agreement = settings_.agreement(),
                            .transports = settings_.transport_names(),
                            .host = host_identity(settings_.host),
                            .nonce = std::move(*nonce),
                            .addresses = own_addresses_.text(),
                            .wire = defaults_here(),
                            .switches = std::move(*switches),
                            .node = context_.platform() != nullptr ? "" : host_name()};
        auto all = bootstrap_.allgather(bytes_of(mine.text()), deadline_ns_);
        if (!all) return tl::unexpected(std::move(all.error()));
        std::vector<std::string> nonces(size_);
        std::set<std::string, std::less<>> names;
        for (std::uint32_t r = 0; r < size_; ++r) {
            const auto& blob = (*all)[r];
            if (blob.empty()) {
                bury(Rank(r));
                hosts_.emplace_back();
                switches_.emplace_back();
                continue;
            }
            const auto greeting = Greeting::parse(blob);
            if (auto agreed = compare(Rank(r), greeting, mine); !agreed) return agreed;
            hosts_.push_back(greeting->host);
            switches_.push_back(greeting->switches);
            if (is_host_name(greeting->node)) names.insert(greeting->node);
            nonces[r] = greeting->nonce;
            if (Rank(r) == self_) continue;
            if (greeting->host != mine.host) far_defaults_.push_back(greeting->wire);
            auto addresses = transport::HostAddresses::parse(greeting->addresses);
            if (!addresses)
                return fail(COPPICE_ERR_MISMATCH,
                            "rank {} greets with something that is no list of its host's addresses: \"{}\"", r,
                            shown(greeting->addresses));
            their_addresses_.push_back(std::move(*addresses));
        }
        {
            const Context::Guard guard(context_);
            for (const std::string& name : names)
                context_.note_host(name);
        }
        settle_the_dead(*all);
        nodes_ =
            by_host() ? topology::Nodes::by_host(std::span<const std::string>(hosts_)) : topology::Nodes::flat(size_);
        token_ = hash_of(nonces);
        secret_ = derive_secret(nonces);
        own_defaults_ = mine.wire;
        has_local_peers_ = std::ranges::count(hosts_, mine.host) > 1;
        local_ranks_ = 0;
        for (std::uint32_t r = 0; r < size_; ++r)
            local_ranks_ += !dead(Rank(r)) && hosts_[r] == mine.host;
        return {};
    }

    // Where a dead rank ran is unknown and does not matter, as long as it makes no position of its own: it is counted to the
    // host of the rank that lives before it, so that no host gets all of them.
    void settle_the_dead(const Blobs& greetings) {
        if (dead_.empty()) return;
        const auto first = std::ranges::find_if_not(greetings, [](const auto& blob) { return blob.empty(); });
        auto from = static_cast<std::size_t>(first - greetings.begin());
        for (std::uint32_t r = 0; r < size_; ++r) {
            if (dead(Rank(r))) {
                hosts_[r] = hosts_[from];
                switches_[r] = switches_[from];
            } else {
                from = r;
            }
        }
        dead_at_meeting_ = dead_.size();
    }

    Result<void> compare(Rank rank, const std::optional<Greeting>& greeting, const Greeting& mine) const {
        if (!greeting) {
            return fail(COPPICE_ERR_MISMATCH, "rank {} sent something that is no greeting of Coppice", rank.value);
        }
        if (greeting->protocol != mine.protocol) {
            return fail(
                COPPICE_ERR_MISMATCH,
                "rank {} speaks \"{}\" (library {}), this rank {} speaks \"{}\" (library {}): install one version",
                rank.value, shown(greeting->protocol), shown(greeting->library), self_.value, mine.protocol,
                mine.library);
        }
        if (greeting->agreement != mine.agreement || greeting->transports != mine.transports) {
            return fail(
                COPPICE_ERR_MISMATCH,
                "rank {} has {}, transport {}; this rank {} has {}, transport {}: give all ranks the same options "
                "and environment",
                rank.value, shown(greeting->agreement), shown(greeting->transports), self_.value, mine.agreement,
                mine.transports);
        }
        return {};
    }

    // What a group's messages carry of it.
    std::uint32_t token32() const { return static_cast<std::uint32_t>(token_ ^ (token_ >> 32)); }
    bool by_host() const { return settings_.hierarchy == Hierarchy::host && settings_.allows_within_host(); }
    bool same_host(Rank rank) const { return hosts_[rank.value] == hosts_[self_.value]; }
    bool dead(Rank rank) const { return is_dead_[rank.value]; }
    // Now, or later when processes join.
    bool may_have_local_peers() const { return has_local_peers_ || settings_.join != Join::none; }
    bool may_have_far_ranks() const { return far_ || settings_.join == Join::any; }
    std::uint32_t most_local_ranks() const { return settings_.join == Join::none ? local_ranks_ : capacity_; }
    void bury(Rank rank) {
        dead_.push_back(rank);
        is_dead_[rank.value] = true;
    }

    Result<void> make_transports() {
        const std::vector<transport::Region> regions = Group::host_regions(capacity_, settings_);
        for (std::uint32_t r = 0; r < size_; ++r)
            far_ = far_ || (Rank(r) != self_ && !dead(Rank(r)) && !same_host(Rank(r)));
        const bool alone = size_ == dead_.size() + 1;
        if (Platform* const platform = context_.platform()) return take_transports_of(*platform, alone, regions);
        const bool needs_wire =
            may_have_far_ranks() || (!settings_.allows_within_host() && (!alone || settings_.join != Join::none));
        // Later ones come from the hosts on which ranks begin, this one among them.
        if (settings_.join != Join::none) their_addresses_.push_back(own_addresses_);
        const transport::GroupFacts facts{.self = Seat(self_.value),
                                          .group_size = capacity_,
                                          .group_token = token_,
                                          .secret = secret_,
                                          .window = settings_.window,
                                          .host = settings_.host,
                                          .local_ranks = most_local_ranks(),
                                          .has_far_ranks = may_have_far_ranks(),
                                          .admitted = transport::Admission::of(own_addresses_, their_addresses_),
                                          .regions = regions};
        for (const TransportChoice& choice : settings_.transports) {
            const bool of_use = choice.transport->within_host ? may_have_local_peers() : needs_wire;
            if (!of_use || !wants(choice)) continue;
            auto made = choice.maker->make(facts);
            if (!made) {
                if (made.error().status == COPPICE_ERR_NO_TRANSPORT && can_do_without(choice)) continue;
                return tl::unexpected(std::move(made.error()));
            }
            if (made->host_memory != nullptr) host_memory_ = made->host_memory;
            if (auto added = add(std::move(made->transport)); !added) return added;
        }
        return {};
    }

    Result<void> take_transports_of(Platform& platform, bool alone, std::span<const transport::Region> regions) {
        const bool near = settings_.allows_within_host();
        Platform::Wires wires = platform.make_transports({.self = Seat(self_.value),
                                                          .ranks = capacity_,
                                                          .window = settings_.window,
                                                          .has_local_peers = near && has_local_peers_,
                                                          .has_far_peers = far_ || (!near && !alone),
                                                          .regions = regions});
        host_memory_ = wires.host_memory;
        if (wires.near) {
            if (auto added = add(std::move(wires.near)); !added) return added;
        }
        if (wires.far) return add(std::move(wires.far));
        return {};
    }

    // What the first allowed transport asks for that lets in the job's hosts alone.
    transport::HostAddresses addresses_to_tell() const {
        for (const TransportChoice& choice : settings_.transports) {
            if (!choice.allowed) continue;
            auto addresses = choice.maker->addresses();
            if (addresses != transport::HostAddresses()) return addresses;
        }
        return {};
    }

    // The transports that this host is for when nobody has chosen, separated by commas.
    std::string defaults_here() const {
        std::string names;
        for (const TransportChoice& choice : settings_.transports) {
            const transport::Registration& one = *choice.transport;
            if (one.is_default() && !one.within_host && one.probe())
                names.append(names.empty() ? "" : ",").append(one.name);
        }
        return names;
    }

    // Where the hardware decides, a rank makes what it needs for any of the others: the first one that is meant for both hosts.
    bool wants(const TransportChoice& choice) const {
        const transport::Registration& one = *choice.transport;
        if (!choice.allowed) return false;
        if (!settings_.chosen_by_hardware || one.within_host) return true;
        if (settings_.join == Join::any && is_listed(own_defaults_, one.name)) return true;
        return std::ranges::any_of(far_defaults_, [&](const std::string& theirs) {
            const auto first = std::ranges::find_if(settings_.transports, [&](const TransportChoice& other) {
                return is_listed(own_defaults_, other.transport->name) && is_listed(theirs, other.transport->name);
            });
            return first != settings_.transports.end() && first->transport == &one;
        });
    }

    // Where it can't be had but another one is allowed too, this rank does without: others then find no address of its kind.
    bool can_do_without(const TransportChoice& choice) const {
        if (settings_.chosen_by_hardware) return false;
        return std::ranges::any_of(settings_.transports, [&](const TransportChoice& other) {
            return other.allowed && !other.transport->within_host && other.transport != choice.transport;
        });
    }

    Result<void> add(std::unique_ptr<transport::Transport> wire) {
        if (!settings_.faults.empty()) {
            auto plan = transport::parse_faults(settings_.faults, Seat(self_.value));
            if (!plan) return tl::unexpected(std::move(plan.error()));
            if (!fault_count_) fault_count_ = std::make_shared<transport::MessageCount>(*plan);
            wire = std::make_unique<transport::FaultyTransport>(std::move(wire), *plan, fault_count_);
        }
        transport_set_->add(std::move(wire));
        return {};
    }

    std::vector<std::byte> transport_addresses() const {
        std::vector<std::byte> all;
        for (const auto& wire : transport_set_->wires())
            append_address(all, wire->capabilities().name, wire->address());
        if (door_) append_address(all, kDoorName, door_->address().bytes());
        if (all.empty()) all.push_back(std::byte{'\n'});  // alone: nothing to reach, but here
        return all;
    }

    Result<void> exchange_addresses() {
        const std::vector<std::byte> mine = transport_addresses();
        transport_set_->directory().take(Seat(self_.value), 0,
                                         settings_.join != Join::none ? mine : std::vector<std::byte>());
        auto dead = engine::exchange_addresses(bootstrap_,
                                               {.settings = settings_,
                                                .transport_set = *transport_set_,
                                                .self = self_,
                                                .hosts = hosts_,
                                                .is_dead = is_dead_,
                                                .nodes = *nodes_,
                                                .token = token32(),
                                                .clock = context_.clock()},
                                               mine, deadline_ns_);
        if (!dead) return tl::unexpected(std::move(dead.error()));
        for (const Rank rank : *dead)
            bury(rank);
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
            origins.push_back({.seat = Seat(rank), .host = host_number(hosts_[rank])});
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
        auto admission = bootstrap_.admission(deadline_ns_);
        if (!admission) return tl::unexpected(std::move(admission.error()));
        if (*admission) door_.reset();
        if (!*admission && !door_) return {};
        const Invitation invitation{.protocol = Greeting::protocol_name(),
                                    .library = COPPICE_VERSION,
                                    .agreement = settings_.agreement(),
                                    .transports = settings_.transport_names(),
                                    .token = token_,
                                    .secret = secret_,
                                    .capacity = capacity_};
        const Card card{.host = hosts_[self_.value], .addresses = transport_addresses()};
        if (door_) {
            door_->belong(secret_.bytes, {.number = self_.value}, capacity_, invitation.bytes());
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
        sharing_ = local_ranks_;
        if (host_memory_ == nullptr) return;
        std::vector<Seat> local_peers;
        for (std::uint32_t r = 0; r < size_; ++r)
            if (same_host(Rank(r))) local_peers.emplace_back(r);  // the dead are counted out as they become known
        host_memory_->look_at_cores();
        sharing_ = host_memory_->sharing_cores(local_peers);
        const bool by_default = sharing_ > cores_ && !(far_ && has_rdma_devices());
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
            if (const pid_t process = host_memory_->process_of(Seat(rank.value)); process > 0)
                context_.keep_page_of(process);
            ++kept;
        }
    }

    bool may_have_domains() const {
        return by_host() && size_ > topology::kMostInOneLevel &&
               std::ranges::all_of(hosts_, [this](const std::string& host) { return host == hosts_.front(); });
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
            transport_set_->share_host_memory(host_memory_, fault_count_);
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
        auto told = bootstrap_.exchange_with(wanted, bytes_of(ready), deadline_ns_);
        if (!told) return tl::unexpected(std::move(told.error()));
        auto places = read_places(wanted, *told);
        if (!places) return tl::unexpected(std::move(places.error()));
        places_ = std::move(*places);
        for (std::size_t i = 0; i < wanted.size(); ++i)
            if ((*told)[i].empty() && !dead(wanted[i])) bury(wanted[i]);
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
    std::vector<std::string> hosts_;        // by rank
    std::vector<std::string> switches_;     // by rank: above its host
    std::optional<topology::Nodes> nodes_;  // once all have met
    std::vector<std::string> places_;       // within their host: of all ranks, where these are on one
    transport::HostAddresses own_addresses_;
    std::vector<transport::HostAddresses> their_addresses_;  // of the other ranks' hosts
    std::vector<Rank> dead_;
    std::size_t dead_at_meeting_ = 0;
    std::vector<bool> is_dead_;  // by rank
    std::uint64_t token_ = 0;
    transport::GroupSecret secret_;
    std::string own_defaults_;               // defaults_here()
    std::vector<std::string> far_defaults_;  // of the ranks on other hosts
    bool has_local_peers_ = false;           // on this host, dead or alive
    std::uint32_t local_ranks_ = 1;          // alive
    std::uint32_t cores_ = 1;                // of this rank
    std::uint32_t sharing_ = 1;              // ranks that have no others
    bool far_ = false;                       // there are other hosts
};

}  // namespace

Result<std::unique_ptr<Group>> form_group(Context& context, const Settings& settings, bootstrap::Bootstrap& bootstrap,
                                          Group::FailureCallback on_failure, std::uint64_t deadline_ns) {
    return Formation(context, settings, bootstrap, deadline_ns).run(std::move(on_failure));
}

}  // namespace coppice::engine
