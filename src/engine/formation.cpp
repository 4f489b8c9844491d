#include "engine/formation.hpp"

#include <sched.h>

#include <algorithm>

#include "engine/context.hpp"
#include "engine/greeting.hpp"
#include "engine/group_secret.hpp"
#include "transport/faults.hpp"
#include "transport/host.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/ucx/ucx_transport.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace coppice::engine {
namespace {

using Blobs = std::vector<std::vector<std::byte>>;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

// What a peer sent, made fit for a message to people: it may be anything.
std::string shown(std::string_view text) {
    constexpr std::size_t kLongest = 160;
    std::string result;
    for (const char c : text.substr(0, kLongest))
        result += c >= ' ' && c <= '~' ? c : '?';
    return text.size() > kLongest ? result + "..." : result;
}

std::string transport_names(const Settings& settings) {
    if (settings.chosen_by_hardware) return "auto";
    std::string names;
    const auto add = [&](bool allowed, const char* name) {
        if (!allowed) return;
        if (!names.empty()) names += ',';
        names += name;
    };
    add(settings.allow_shm, "shm");
    add(settings.allow_verbs, "verbs");
    add(settings.allow_ucx, "ucx");
    add(settings.allow_tcp, "tcp");
    return names;
}

// FNV-1a: only to make tokens of different groups differ.
std::uint64_t hash_of(const std::vector<std::string>& words) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const std::string& word : words) {
        for (const char c : word)
            hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
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
          transport_set_(std::make_shared<TransportSet>(bootstrap.size())),
          is_dead_(bootstrap.size(), false) {}

    Result<std::unique_ptr<Group>> run(Group::FailureCallback on_failure) {
        if (size_ > kMostRanks) {
            return fail(COPPICE_ERR_OUT_OF_RANGE, "a group of {} ranks: at most {} are possible", size_, kMostRanks);
        }
        if (auto met = meet(); !met) return tl::unexpected(std::move(met.error()));
        if (auto made = make_transports(); !made) return tl::unexpected(std::move(made.error()));
        if (auto known = exchange_addresses(); !known) return tl::unexpected(std::move(known.error()));
        if (auto shared = share_boards(); !shared) return tl::unexpected(std::move(shared.error()));
        look_at_cores();

        topology::Nodes nodes =
            by_host() ? topology::Nodes::by_host(std::span<const std::string>(hosts_)) : topology::Nodes::flat(size_);
        auto plan = settings_.plan_for(nodes.count());
        if (!plan) return fail(COPPICE_ERR_CONFIG, "{}", plan.error());
        Members members(self_, std::move(nodes));
        auto group =
            std::make_unique<Group>(Group::Parts{.context = &context_,
                                                 .settings = settings_,
                                                 .members = std::move(members),
                                                 .router = Router(transport_set_),
                                                 .board = board_,
                                                 .board_wrapper = std::move(board_wrapper_),
                                                 .id = {.token = static_cast<std::uint32_t>(token_ ^ (token_ >> 32))},
                                                 .plan = std::move(*plan),
                                                 .cores = cores_,
                                                 .sharing_cores = sharing_,
                                                 .on_failure = std::move(on_failure)});
        // The greetings have told everybody of the same; later ones may be news to others.
        const std::span<const Rank> dead = dead_;
        group->start_with_failed(dead.first(dead_at_meeting_), dead.subspan(dead_at_meeting_));
        return group;
    }

  private:
    Result<void> meet() {
        auto nonce = draw_nonce();
        if (!nonce) return tl::unexpected(std::move(nonce.error()));
        if (settings_.ucx_admits_all)
            own_addresses_.everybody = true;
        else if (settings_.allow_ucx)
            own_addresses_ = transport::HostAddresses::own();
        const Greeting mine{.protocol = Greeting::protocol_name(),
                            .library = COPPICE_VERSION,
                            .agreement = settings_.agreement(),
                            .transports = transport_names(settings_),
                            .host = transport::host_identity(settings_.host),
                            .nonce = std::move(*nonce),
                            .addresses = own_addresses_.text(),
                            .wire = transport::has_rdma_devices() ? "ucx" : "tcp"};
        auto all = bootstrap_.allgather(bytes_of(mine.text()), deadline_ns_);
        if (!all) return tl::unexpected(std::move(all.error()));
        std::vector<std::string> nonces(size_);
        for (std::uint32_t r = 0; r < size_; ++r) {
            const auto& blob = (*all)[r];
            if (blob.empty()) {
                bury(Rank(r));
                hosts_.emplace_back();
                continue;
            }
            const auto greeting = Greeting::parse(blob);
            if (auto agreed = compare(Rank(r), greeting, mine); !agreed) return agreed;
            hosts_.push_back(greeting->host);
            nonces[r] = greeting->nonce;
            rdma_everywhere_ = rdma_everywhere_ && greeting->wire == "ucx";
            if (Rank(r) == self_) continue;
            auto addresses = transport::HostAddresses::parse(greeting->addresses);
            if (!addresses)
                return fail(COPPICE_ERR_MISMATCH,
                            "rank {} greets with something that is no list of its host's addresses: \"{}\"", r,
                            shown(greeting->addresses));
            their_addresses_.push_back(std::move(*addresses));
        }
        settle_the_dead(*all);
        token_ = hash_of(nonces);
        secret_ = derive_secret(nonces);
        rdma_here_ = mine.wire == "ucx";
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
        std::string host = hosts_[static_cast<std::size_t>(first - greetings.begin())];
        for (std::uint32_t r = 0; r < size_; ++r) {
            if (dead(Rank(r))) {
                hosts_[r] = host;
            } else {
                host = hosts_[r];
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

    bool by_host() const { return settings_.hierarchy == Hierarchy::host && settings_.allow_shm; }
    bool same_host(Rank rank) const { return hosts_[rank.value] == hosts_[self_.value]; }
    bool dead(Rank rank) const { return is_dead_[rank.value]; }
    void bury(Rank rank) {
        dead_.push_back(rank);
        is_dead_[rank.value] = true;
    }

    Result<void> make_transports() {
        for (std::uint32_t r = 0; r < size_; ++r)
            far_ = far_ || (Rank(r) != self_ && !dead(Rank(r)) && !same_host(Rank(r)));
        const bool alone = size_ == dead_.size() + 1;
        if (Platform* const platform = context_.platform()) return take_transports_of(*platform, alone);
        if (settings_.allow_shm && has_local_peers_) {
            auto shm = transport::ShmTransport::create({.self = self_,
                                                        .group_size = size_,
                                                        .window = settings_.window,
                                                        .host = settings_.host,
                                                        .max_local = std::max(local_ranks_, 2U),
                                                        .second_look_ns = settings_.process_look.value});
            if (!shm) return tl::unexpected(std::move(shm.error()));
            boards_ = shm->get();
            if (auto added = add(std::move(*shm)); !added) return added;
        }
        const bool needs_wire = far_ || (!settings_.allow_shm && !alone);
        if (settings_.allow_verbs && needs_wire) {
            if (auto made = make_verbs(); !made) return made;
        }
        if (wants_ucx() && needs_wire) {
            auto ucx = transport::UcxTransport::create(
                {.self = self_,
                 .group_size = size_,
                 .group_token = token_,
                 .net_devices = settings_.ucx_net_devices,
                 .tls = settings_.ucx_tls,
                 .loopback_only = !far_,
                 .put = settings_.ucx_put,
                 .admitted = transport::Admission::of(own_addresses_, their_addresses_)});
            if (!ucx) return tl::unexpected(std::move(ucx.error()));
            if (auto added = add(std::move(*ucx)); !added) return added;
        }
        if (wants_tcp() && needs_wire) {
            auto tcp = transport::TcpTransport::create({.self = self_,
                                                        .group_size = size_,
                                                        .group_token = token_,
                                                        .secret = secret_,
                                                        .interfaces = settings_.tcp_interface,
                                                        .port = settings_.tcp_port,
                                                        .loopback_only = !far_});
            if (!tcp) return tl::unexpected(std::move(tcp.error()));
            if (auto added = add(std::move(*tcp)); !added) return added;
        }
        return {};
    }

    Result<void> take_transports_of(Platform& platform, bool alone) {
        Platform::Wires wires = platform.make_transports({.self = self_,
                                                          .ranks = size_,
                                                          .window = settings_.window,
                                                          .has_local_peers = settings_.allow_shm && has_local_peers_,
                                                          .has_far_peers = far_ || (!settings_.allow_shm && !alone)});
        boards_ = wires.boards;
        if (wires.near) {
            if (auto added = add(std::move(wires.near)); !added) return added;
        }
        if (wires.far) return add(std::move(wires.far));
        return {};
    }

    // Where the hardware decides, a rank has what it needs for all others: with RDMA devices somewhere but not everywhere, those
    // that have some need both.
    bool wants_ucx() const { return settings_.allow_ucx && (!settings_.chosen_by_hardware || rdma_here_); }
    bool wants_tcp() const { return settings_.allow_tcp && (!settings_.chosen_by_hardware || !rdma_everywhere_); }

    // Where it can't be had but another one is allowed too, this rank does without: others then find no address of its kind.
    Result<void> make_verbs() {
        transport::VerbsOptions options;
        static_cast<transport::VerbsTuning&>(options) = settings_.verbs;
        options.self = self_;
        options.group_size = size_;
        options.group_token = token_;
        options.window = settings_.window;
        auto verbs = transport::VerbsTransport::create(options);
        if (verbs) return add(std::move(*verbs));
        if ((settings_.allow_ucx || settings_.allow_tcp) && verbs.error().status == COPPICE_ERR_NO_TRANSPORT) return {};
        return tl::unexpected(std::move(verbs.error()));
    }

    Result<void> add(std::unique_ptr<transport::Transport> wire) {
        if (!settings_.faults.empty()) {
            auto plan = transport::parse_faults(settings_.faults, self_);
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
        if (all.empty()) all.push_back(std::byte{'\n'});  // alone: nothing to reach, but here
        return all;
    }

    Result<void> exchange_addresses() {
        auto all = bootstrap_.allgather(transport_addresses(), deadline_ns_);
        if (!all) return tl::unexpected(std::move(all.error()));
        for (std::uint32_t r = 0; r < size_; ++r) {
            const Rank rank(r);
            if (rank == self_ || dead(rank)) continue;
            if ((*all)[r].empty()) {
                bury(rank);
                continue;
            }
            if (auto routed = route(rank, (*all)[r]); !routed) return routed;
        }
        return {};
    }

    // What a process has mapped of an RDMA device stays open as long as its memory is there.
    void look_at_cores() {
        cores_ = transport::own_cores();
        sharing_ = local_ranks_;
        if (boards_ == nullptr) return;
        std::vector<Rank> local_peers;
        for (std::uint32_t r = 0; r < size_; ++r)
            if (same_host(Rank(r))) local_peers.emplace_back(r);  // the dead are counted out as they become known
        boards_->look_at_cores();
        sharing_ = boards_->sharing_cores(local_peers);
        const bool by_default = sharing_ > cores_ && !(far_ && transport::has_rdma_devices());
        if (settings_.keeper.value_or(by_default)) boards_->keep_memory();
    }

    // Where ranks of a host publish to each other, all of them must have mapped all others before the first one
    // publishes: only what is mapped outlives its writer.
    Result<void> share_boards() {
        if (!by_host()) return {};
        if (boards_ != nullptr) {
            std::vector<Rank> local_peers;
            for (std::uint32_t r = 0; r < size_; ++r) {
                if (!dead(Rank(r)) && same_host(Rank(r))) local_peers.emplace_back(r);
            }
            if (auto sealed = boards_->seal_board(std::move(local_peers)); !sealed) return sealed;
            board_ = &boards_->board();
            transport_set_->share_boards(boards_, fault_count_);
            if (fault_count_) {
                board_wrapper_ = std::make_unique<transport::FaultyBoard>(*board_, fault_count_);
                board_ = board_wrapper_.get();
            }
        }
        const std::byte ready{1};
        auto all = bootstrap_.allgather(std::span(&ready, 1), deadline_ns_);
        if (!all) return tl::unexpected(std::move(all.error()));
        for (std::uint32_t r = 0; r < size_; ++r) {
            if ((*all)[r].empty() && !dead(Rank(r))) bury(Rank(r));
        }
        return {};
    }

    Result<void> route(Rank rank, std::span<const std::byte> addresses) {
        const auto wires = transport_set_->wires();
        for (std::size_t i = 0; i < wires.size(); ++i) {
            const std::string_view name = wires[i]->capabilities().name;
            if (name == "shm" && !same_host(rank)) continue;
            const auto address = find_address(addresses, name);
            if (!address) continue;
            if (auto added = wires[i]->add_peer(rank, *address); !added) {
                if (added.error().status != COPPICE_ERR_PEER_FAILED) return added;
                bury(rank);
                return {};
            }
            transport_set_->route(rank, static_cast<std::uint8_t>(i));
            return {};
        }
        if (settings_.allow_ucx || settings_.allow_verbs || settings_.allow_tcp || same_host(rank)) {
            return fail(
                COPPICE_ERR_MISMATCH,
                "rank {} gave no address for any of the transports ({}) that both ranks have: it was damaged on its "
                "way; check the exchange of addresses",
                rank.value, transport_names(settings_));
        }
        return fail(COPPICE_ERR_NO_TRANSPORT,
                    "rank {} runs on another host (\"{}\") and the allowed transports ({}) do not reach it; allow tcp, "
                    "ucx or verbs in COPPICE_TRANSPORT",
                    rank.value, shown(hosts_[rank.value]), transport_names(settings_));
    }

    Context& context_;
    const Settings& settings_;
    bootstrap::Bootstrap& bootstrap_;
    std::uint64_t deadline_ns_;
    Rank self_;
    std::uint32_t size_;
    std::shared_ptr<TransportSet> transport_set_;
    transport::Boards* boards_ = nullptr;
    transport::Board* board_ = nullptr;
    std::unique_ptr<transport::Board> board_wrapper_;
    std::shared_ptr<transport::MessageCount> fault_count_;
    std::vector<std::string> hosts_;  // by rank
    transport::HostAddresses own_addresses_;
    std::vector<transport::HostAddresses> their_addresses_;  // of the other ranks' hosts
    std::vector<Rank> dead_;
    std::size_t dead_at_meeting_ = 0;
    std::vector<bool> is_dead_;  // by rank
    std::uint64_t token_ = 0;
    transport::GroupSecret secret_;
    bool rdma_here_ = false;
    bool rdma_everywhere_ = true;
    bool has_local_peers_ = false;   // on this host, dead or alive
    std::uint32_t local_ranks_ = 1;  // alive
    std::uint32_t cores_ = 1;        // of this rank
    std::uint32_t sharing_ = 1;      // ranks that have no others
    bool far_ = false;               // there are other hosts
};

}  // namespace

Result<std::unique_ptr<Group>> form_group(Context& context, const Settings& settings, bootstrap::Bootstrap& bootstrap,
                                          Group::FailureCallback on_failure, std::uint64_t deadline_ns) {
    return Formation(context, settings, bootstrap, deadline_ns).run(std::move(on_failure));
}

}  // namespace coppice::engine
