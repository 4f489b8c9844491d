#include "engine/collectives/agreement/agreements.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/process.hpp"
#include "engine/requests/tracing.hpp"
#include "transport/transport.hpp"

namespace coppice::engine {
namespace {

// Of one host. More have not been tried.
constexpr std::uint32_t kMostPublishing = 512;
// Of the ranks that an agreement waits for and that a status page has no room for, so many are counted.
constexpr std::uint32_t kMostOmitted = 1024;
// Up to so many ranks of a host the lowest one hears of all others directly.
constexpr std::uint32_t kWideStar = 16;
// Messages that a transport has not let go of, for each agreement under way.
constexpr std::size_t kOutgoing = 8;

protocol::AgreementTreeSpec best_tree(const Members& members, bool publishing) {
    std::uint32_t widest = 0;
    for (std::uint32_t node = 0; node < members.nodes(); ++node)
        widest = std::max(widest, static_cast<std::uint32_t>(members.ranks_of(Node(node)).size()));
    const char* within = widest <= kWideStar ? "star" : "bin";
    const std::span<const topology::Site> sites = members.sites();
    const bool several_leaves = std::any_of(
        sites.begin(), sites.end(), [&](const topology::Site& site) { return site.leaf != sites.front().leaf; });
    std::string text = "bin";
    if (publishing || members.nodes() == 1) {
        text = within;
    } else if (several_leaves) {
        text = fmt::format("bin/bin/{}", within);
    } else if (members.nodes() < members.ranks()) {
        text = fmt::format("bin/{}", within);
    }
    return *protocol::parse_agreement_tree(text);
}

protocol::AgreementPlan make_plan(const Members& members, const protocol::AgreementTreeSpec& spec,
                                  const Agreements::Shape& shape) {
    auto tree = protocol::AgreementTree::make(spec, members.ranks(), &members.nodes_table(), {}, members.sites());
    return {.tree = std::move(*tree),
            .hosts = &members.nodes_table(),
            .sites = members.sites(),
            .window = shape.window,
            .rebalance = shape.rebalance};
}

// Twice as many as can be under way: a rank may be one window behind another.
std::uint32_t lines_for(std::uint32_t window) {
    return 2 * window;
}

bool publishes(const transport::Board* board, std::uint32_t ranks, std::uint32_t window) {
    return board != nullptr && ranks <= kMostPublishing && Contributions::fits(*board, ranks, lines_for(window));
}

}  // namespace

transport::Region Agreements::host_region(std::uint32_t ranks, std::uint32_t window) {
    return Contributions::host_region(ranks, lines_for(window));
}

Agreements::Agreements(const Members& members, const Router& router, transport::Board* board, const GroupId& group,
                       Shape shape)
    : members_(members),
      shape_(shape),
      mask_(shape.window - 1),
      plan_(make_plan(members, shape.tree.value_or(best_tree(members, publishes(board, members.ranks(), shape.window))),
                      shape)),
      combiners_(shape.window),
      waiting_(shape.window, nullptr),
      outbox_(members, router, group, Channel::agreement, kOutgoing * shape.window,
              protocol::body_bytes(plan_.max_value)),
      assembly_(protocol::longest_body(plan_.max_value, members.ranks())) {
    if (!shape.tree && publishes(board, members.ranks(), shape.window)) {
        contributions_.emplace(*board, members.ranks(), lines_for(shape.window));
    }
    machine_.emplace(plan_, members.self(), contributions_ ? &*contributions_ : nullptr, members.domains());
}

// --------------------------------------------------------------------------------------------------- starting ---

Result<void> Agreements::start(const AgreementCall& call, Request& request) {
    if (call.value == nullptr && call.bytes > 0) {
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "the value is NULL but {} bytes long", call.bytes);
    }
    if (call.bytes > plan_.max_value) {
        return fail(COPPICE_ERR_TOO_LARGE, "{} bytes are more than the {} that one agreement carries", call.bytes,
                    plan_.max_value);
    }
    end_decided();  // one that was decided when it began still has its place, which this one may take
    protocol::Operation operation = call.operation;
    Combiner& combiner = combiners_[next().value & mask_];  // of an agreement that has been decided, if there is room
    if (has_room()) combiner = {call.combine, call.combine_argument};
    operation.context = &combiner;
    operation.combine = nullptr;
    if (call.combine != nullptr) {
        operation.combine = [](void* context, std::byte* into, const std::byte* from, std::size_t bytes) {
            const Combiner& own = *static_cast<const Combiner*>(context);
            const process::InCallback within;
            own.combine(own.argument, into, from, bytes);
        };
    }
    if (const auto reason = protocol::reason_against(operation, call.bytes)) {
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "no agreement on {} bytes: {}", call.bytes, *reason);
    }
    if (flush_) return fail(COPPICE_ERR_INVALID_ARGUMENT, "the group is being left: nothing can be agreed on any more");
    const std::span<const std::byte> value(call.value, call.bytes);
    const auto sequence = machine_->contribute(operation, value);
    if (!sequence) {
        return fail(COPPICE_ERR_BUSY, "all {} agreements that can be under way at once are: {}", shape_.window,
                    window_holder());
    }
    request.begin(nullptr, *sequence);
    request.buffer = call.value;
    request.capacity = call.bytes;
    waiting_[sequence->value & mask_] = &request;
    if (!machine_->publishes()) send_all();
    return {};
}

bool Agreements::peek(Request& request) {
    if (request.state == RequestState::waiting) {
        look(false);
        end_decided();
    }
    return request.state == RequestState::done;
}

void Agreements::forget(Request& request) {
    Request*& place = waiting_[request.sequence.value & mask_];
    if (place == &request) place = nullptr;
}

void Agreements::progress(bool thoroughly) {
    if (callbacks_allowed_ && !deferred_.empty()) [[unlikely]]
        take_deferred();
    look(thoroughly);
    send_all();
    end_decided();
}

// ---------------------------------------------------------------------------------------------------- results ---

void Agreements::end_decided() {
    while (waited_below_ < next().value && decided(Sequence(waited_below_))) {
        Request*& place = waiting_[waited_below_ & mask_];
        if (Request* request = std::exchange(place, nullptr)) {
            end(*request);
            trace_end(*request);
        }
        ++waited_below_;
    }
}

std::string Agreements::names_of(Sequence agreement) const {
    const auto who = machine_->who_differs(agreement);
    if (!who) return "ranks differ in its operation or in the size of the value";
    return fmt::format("rank {} contributes with another operation or size than this rank {}", who->value,
                       members_.self().value);
}

void Agreements::end(Request& request) {
    const auto outcome = machine_->outcome(request.sequence);
    request.state = RequestState::done;
    if (!outcome) {
        request.status = COPPICE_ERR_INTERNAL;
        request.message = fmt::format("agreement {}: its outcome is gone", request.sequence.value);
        return;
    }
    request.agreed = machine_->agreed(request.sequence, *outcome);
    request.change_waits = outcome->change_waits;
    if (outcome->mismatched || outcome->value.size() != request.capacity) {
        request.status = COPPICE_ERR_MISMATCH;
        request.message = fmt::format("agreement {}: {}", request.sequence.value, names_of(request.sequence));
        return;
    }
    if (request.capacity > 0) std::memcpy(request.buffer, outcome->value.data(), request.capacity);
    request.received = request.capacity;
    request.status = COPPICE_OK;
    // No sentence yet: all survivors of a death are waiting for each other to get here.
    if (!outcome->acknowledged) request.status = COPPICE_ERR_PEER_FAILED;
}

void Agreements::give_up(coppice_status_t status, const std::string& why) {
    for (Request*& place : waiting_) {
        Request* request = std::exchange(place, nullptr);
        if (request == nullptr) continue;
        request->state = RequestState::done;
        request->status = status;
        request->message = fmt::format("agreement {}: {}", request->sequence.value, why);
        trace_end(*request);
    }
}

void Agreements::acknowledge(const protocol::FailedSet& failed) {
    machine_->acknowledge(failed);
}

bool Agreements::drained(bool in_any_case) {
    if (fenced() || (next().value == 0 && !in_any_case)) return true;
    if (!flush_) flush_ = machine_->flush();
    if (!flush_) return false;
    progress(true);
    const bool wants_to_send = machine_->wants_to_send();
    return decided(*flush_) && !wants_to_send && !outbox_.waits_for_room();
}

// --------------------------------------------------------------------------------------------------- messages ---

// Started here, not decided yet, and combined by a function of the caller's.
bool Agreements::needs_caller(std::uint64_t agreement) const {
    return agreement >= decided_below().value && agreement < next().value &&
           combiners_[agreement & mask_].combine != nullptr;
}

bool Agreements::needs_caller() const {
    for (std::uint64_t agreement = decided_below().value; agreement < next().value; ++agreement)
        if (needs_caller(agreement)) return true;
    return false;
}

void Agreements::look(bool thoroughly) {
    if (machine_->publishes() && (callbacks_allowed_ || !needs_caller())) machine_->look(thoroughly);
}

bool Agreements::message(Rank from, const WireHeader& header, std::span<const std::byte> part) {
    const auto [state, body] = assembly_.take(from, {header.tag.kind, header.sequence}, part, header.detail);
    if (state != Assembly::State::whole) return state == Assembly::State::unfinished;
    if (callbacks_allowed_ || !needs_caller(header.sequence)) return receive(from, header, body);
    if (deferred_.size() >= kMostDeferred) return false;
    deferred_.push_back({from, header, {body.begin(), body.end()}});
    return true;
}

void Agreements::take_deferred() {
    std::vector<Deferred> deferred;
    deferred.swap(deferred_);
    for (const Deferred& one : deferred)
        if (!members_.failed(one.from)) receive(one.from, one.header, one.body);
}

// False: garbage.
bool Agreements::receive(Rank from, const WireHeader& header, std::span<const std::byte> body) {
    const protocol::AgreementMessage message{.kind = static_cast<protocol::AgreementKind>(header.tag.kind),
                                             .from = from,
                                             .to = members_.self(),
                                             .agreement = Sequence(header.sequence),
                                             .body = body};
    return machine_->receive(message) != protocol::Reception::garbage;
}

void Agreements::peer_failed(Rank rank) {
    assembly_.forget(rank);
    machine_->peer_failed(rank);
}

void Agreements::peers_failed(const protocol::FailedSet& ranks) {
    assembly_.forget(ranks);
    machine_->peers_failed(ranks);
}

// Sends what waits, then what the machine has to say. Messages to one rank may overtake each other: the machine allows that.
void Agreements::send_all() {
    outbox_.send_waiting();
    while (machine_->wants_to_send()) {
        Outbox::Outgoing* place = outbox_.free_place();
        if (place == nullptr) return;
        const auto message = machine_->next_send(Nanoseconds(0));
        if (!message) return;
        if (members_.failed(message->to)) continue;
        place->to = message->to;
        place->kind = static_cast<std::uint8_t>(message->kind);
        place->sequence = message->agreement.value;
        place->body.assign(message->body.begin(), message->body.end());
        outbox_.post(*place);
    }
}

// ------------------------------------------------------------------------------------------------- for people ---

std::string rank_names(const protocol::FailedSet& ranks) {
    constexpr std::uint32_t kMostNames = 16;
    std::string names;
    std::uint32_t count = 0;
    for (const protocol::FailedSet::Interval& interval : ranks.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank) {
            if (count++ >= kMostNames) continue;
            names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
        }
    }
    if (count > kMostNames) names += fmt::format(" and {} more", count - kMostNames);
    return fmt::format("{} {}", count == 1 ? "rank" : "ranks", names);
}

std::string not_acknowledged(Sequence agreement, const protocol::FailedSet& failed) {
    return fmt::format("agreement {}: the value is agreed, but not every rank had acknowledged that {} failed",
                       agreement.value, rank_names(failed));
}

void Agreements::waited_for(const Request& request, const std::function<bool(Rank)>& tell) const {
    machine_->waiting_for(request.sequence, tell);
}

std::string Agreements::waiting_for(const Request& request) const {
    protocol::FailedSet ranks;
    waited_for(request, [&ranks](Rank rank) {
        ranks.insert(rank.value);
        return ranks.count() <= 64;
    });
    if (ranks.empty()) return fmt::format("agreement {}: waiting until it is through", request.sequence.value);
    return fmt::format("agreement {}: waiting for {}{}", request.sequence.value, rank_names(ranks),
                       machine_->waits_for_recovery(request.sequence) ? " to agree on the dead" : "");
}

// Within a wait: a function object of more than two words would be allocated.
void Agreements::show_waits(const Request& request, status::Waits& waits) const {
    struct Teller {
        status::Waits& waits;
        std::uint64_t number;
        status::Why why;
    };
    const bool recovers = machine_->waits_for_recovery(request.sequence);
    const Teller teller{waits, request.sequence.value, recovers ? status::Why::recovery : status::Why::contribution};
    waited_for(request, [&teller](Rank rank) {
        teller.waits.add(rank.value, teller.why, teller.number);
        return teller.waits.omitted < kMostOmitted;
    });
}

Request Agreements::oldest() const {
    Request request;
    request.sequence = decided_below();
    return request;
}

std::string Agreements::window_holder() const {
    return waiting_for(oldest());
}

std::optional<Rank> Agreements::one_waited_for() const {
    std::optional<Rank> one;
    waited_for(oldest(), [&one](Rank rank) {
        one = rank;
        return false;
    });
    return one;
}

}  // namespace coppice::engine
