// The agreements of one group at one rank: drives the machines over the transports, or over the host's board.
//
// Where all ranks of the group share a host's board contributions are published there (published_agreement.hpp), and
// messages go out only after a death. Everywhere else the tree machine runs among all ranks (agreement.hpp), on a tree of
// two levels where ranks share hosts. Both answer late questions in every progress().
//
// One thread at a time. While nobody dies nothing is allocated after construction, except by transports and by the ring of
// messages that a transport has not let go of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "engine/collectives/agreement/assembly.hpp"
#include "engine/collectives/agreement/contributions.hpp"
#include "engine/collectives/agreement/outbox.hpp"
#include "engine/core/members.hpp"
#include "engine/requests/request.hpp"
#include "engine/router.hpp"
#include "engine/wire/wire.hpp"
#include "protocol/agreement/agreement.hpp"
#include "protocol/published/agreement_machine.hpp"
#include "status/page.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {

// What an agreement call says. `value` is contributed, and takes the result.
struct AgreementCall {
    protocol::Operation operation;         // `combine` and `context` are not looked at
    coppice_combine_fn combine = nullptr;  // Operator::user
    void* combine_argument = nullptr;
    std::byte* value = nullptr;
    std::size_t bytes = 0;
};

// "rank 3", "ranks 1, 2, 5": at most a line of them.
std::string rank_names(const protocol::FailedSet& ranks);
// What COPPICE_ERR_PEER_FAILED means for an agreement whose agreed set this is.
std::string not_acknowledged(Sequence agreement, const protocol::FailedSet& failed);

class Agreements {
  public:
    struct Shape {
        std::uint32_t window = 8;  // agreements under way at once at one rank
        // One to send along, whichever ranks share a host; none: the best that is known.
        std::optional<protocol::AgreementTreeSpec> tree = std::nullopt;
        protocol::Rebalance rebalance = protocol::Rebalance::when_degenerated;
    };
    // `board`: where all ranks of the group publish, else null. References outlive this object.
    // What publishing needs of the memory that each rank of a host shows to the others.
    static transport::Region host_region(std::uint32_t ranks, std::uint32_t window);

    Agreements(const Members& members, const Router& router, transport::Board* board, const GroupId& group,
               Shape shape);
    Agreements(const Agreements&) = delete;
    Agreements& operator=(const Agreements&) = delete;

    // False while a start would only be told COPPICE_ERR_BUSY.
    bool has_room() const { return machine_->can_start(); }
    // Fills in the request (state free) and contributes. Refuses operations that can't be.
    Result<void> start(const AgreementCall& call, Request& request);
    // Whether the callers' own functions may be called now. What needs one of them waits until they may.
    void allow_callbacks(bool allowed) { callbacks_allowed_ = allowed; }
    // A cheap look whether the request has ended.
    bool peek(Request& request);
    // Its caller does not wait any more.
    void forget(Request& request);

    // Sends what there is to send, and ends what has been decided.
    void progress(bool thoroughly);

    // From the wire, a body or a part of one; `header` has been checked by decode(). False: garbage.
    bool message(Rank from, const WireHeader& header, std::span<const std::byte> part);
    void peer_failed(Rank rank);
    void peers_failed(const protocol::FailedSet& ranks);
    // Everybody that the machine was told of, as far as this rank can't know it yet; they may have failed or left.
    const protocol::FailedSet& failed() const { return machine_->failed(); }
    bool fenced() const { return machine_->fenced(); }
    // Ends every waiting request.
    void give_up(coppice_status_t status, const std::string& why);

    void acknowledge(const protocol::FailedSet& failed);
    // What this rank contributes from now on says whether it knows of a change of members that waits.
    void set_change_waits(bool waits) { machine_->set_change_waits(waits); }

    // The group ends: true when nobody needs this rank for any agreement. Call with progress() until it is. All wait for all, unless
    // there was no agreement and that does not matter.
    bool drained(bool in_any_case);

    // Calls `tell` for each rank that this one waits for, until it returns false.
    void waited_for(const Request& request, const std::function<bool(Rank)>& tell) const;
    // The same for people.
    std::string waiting_for(const Request& request) const;
    std::string window_holder() const;
    void show_waits(const Request& request, status::Waits& waits) const;
    void show_holders(status::Waits& waits) const { show_waits(oldest(), waits); }
    // One of those whose message the oldest agreement waits for.
    std::optional<Rank> one_waited_for() const;

    // How many were started here, and how often the board's ranks had to come to terms about a death.
    std::uint64_t started() const { return next().value; }
    std::uint64_t recoveries() const { return machine_->recoveries(); }
    // Others wait for this rank's next progress.
    bool owes_summary() const { return machine_->owes_summary(); }
    // Every live rank has contributed to all agreements below this one.
    std::uint64_t ended_below() const { return decided_below().value; }
    // Messages wait that a transport has not taken.
    bool waits_for_room() const { return outbox_.waits_for_room(); }
    // Transports refer to nothing of this object.
    bool quiet() const { return outbox_.quiet(); }

  private:
    // What came for an agreement whose values only a function of the caller's can combine, when that could not be called.
    struct Deferred {
        Rank from;
        WireHeader header;
        std::vector<std::byte> body;
    };
    static constexpr std::size_t kMostDeferred = 65536;

    bool needs_caller(std::uint64_t agreement) const;
    bool needs_caller() const;
    void look(bool thoroughly);
    bool receive(Rank from, const WireHeader& header, std::span<const std::byte> body);
    void take_deferred();
    Sequence next() const { return machine_->next(); }
    Sequence decided_below() const { return machine_->decided_below(); }
    bool decided(Sequence agreement) const { return machine_->decided(agreement); }
    void end_decided();
    void end(Request& request);
    void send_all();
    std::string names_of(Sequence agreement) const;
    Request oldest() const;

    const Members& members_;
    Shape shape_;
    std::uint64_t mask_;  // of the window, a power of two
    protocol::AgreementPlan plan_;
    std::optional<Contributions> contributions_;
    std::optional<protocol::AgreementMachine> machine_;  // from the constructor on
    struct Combiner {
        coppice_combine_fn combine = nullptr;
        void* argument = nullptr;
    };
    std::vector<Combiner> combiners_;  // by agreement mod window, as
    std::vector<Request*> waiting_;    // by agreement mod window
    std::uint64_t waited_below_ = 0;
    Outbox outbox_;
    bool callbacks_allowed_ = true;
    std::vector<Deferred> deferred_;
    Assembly assembly_;
    std::optional<Sequence> flush_;
};

}  // namespace coppice::engine
