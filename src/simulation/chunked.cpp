#include "simulation/chunked.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

#include "protocol/pull/pull.hpp"
#include "simulation/chunked_order.hpp"
#include "topology/nodes.hpp"

namespace coppice::simulation {
namespace {

using protocol::Pull;
using protocol::PullKind;
using protocol::PullMessage;
using protocol::PullPlan;

// Of chunks and ranks together: some seconds, and some hundreds of MB.
constexpr std::uint64_t kMostChunksOfAll = std::uint64_t{1} << 24;
// Of a message without a chunk.
constexpr std::uint64_t kLeastMessage = 1;

std::uint64_t chunks_of(const ChunkedSetup& setup) {
    if (setup.shape != Shape::scatter_allgather) return (setup.bytes + setup.chunk - 1) / setup.chunk;
    const std::uint64_t part = (setup.bytes + setup.ranks - 1) / setup.ranks;
    return (part + setup.chunk - 1) / setup.chunk * setup.ranks;
}

// The wire: when messages leave and take effect.
class Wire {
  public:
    struct Event {
        double time;
        std::uint64_t number;  // of several at one time the one that was made first
        std::uint32_t rank;
        bool is_arrival;  // else its port is free
        PullMessage message;

        bool operator>(const Event& other) const {
            return time != other.time ? time > other.time : number > other.number;
        }
    };

    Wire(const LogGP& model, std::uint32_t ranks) : model_(model), ports_(ranks) {}

    bool is_free(std::uint32_t rank, double now) const { return ports_[rank].free_to_send <= now; }

    void send(const PullMessage& message, std::uint64_t bytes, double now) {
        Port& sender = ports_[message.from.value];
        Port& receiver = ports_[message.to.value];
        const double body = static_cast<double>(std::max(bytes, kLeastMessage) - 1) * model_.gap_per_byte;
        const double interval = std::max(model_.gap, model_.overhead) + body;
        sender.free_to_send = now + interval;
        sender.sent += bytes;
        const double begins = std::max(now + model_.overhead + model_.latency, receiver.free_to_receive);
        receiver.free_to_receive = begins + interval;
        push(begins + body + model_.overhead, message.to.value, true, message);
        push(sender.free_to_send, message.from.value, false, {});
        ++messages_;
    }
    void wake(std::uint32_t rank, double now) { push(now, rank, false, {}); }

    bool is_quiet() const { return events_.empty(); }
    Event next() {
        const Event event = events_.top();
        events_.pop();
        return event;
    }
    std::uint64_t messages() const { return messages_; }
    std::uint64_t most_sent() const { return std::ranges::max_element(ports_, {}, &Port::sent)->sent; }

  private:
    struct Port {
        double free_to_send = 0;
        double free_to_receive = 0;
        std::uint64_t sent = 0;
    };

    void push(double time, std::uint32_t rank, bool is_arrival, const PullMessage& message) {
        events_.push({time, number_++, rank, is_arrival, message});
    }

    LogGP model_;
    std::vector<Port> ports_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::uint64_t number_ = 0;
    std::uint64_t messages_ = 0;
};

std::uint64_t length_of(const ChunkedSetup& setup, std::uint64_t chunks, std::uint32_t chunk) {
    if (setup.shape == Shape::scatter_allgather) return (setup.bytes + chunks - 1) / chunks;
    return chunk + 1 < chunks ? setup.chunk : setup.bytes - std::uint64_t{chunk} * setup.chunk;
}

ChunkedOutcome outcome_of(const Wire& wire, double steps, std::uint64_t again, bool is_everywhere) {
    return {.steps = steps,
            .messages = wire.messages(),
            .most_sent = wire.most_sent(),
            .again = again,
            .is_everywhere = is_everywhere};
}

ChunkedOutcome simulate_pull(const ChunkedSetup& setup) {
    const auto chunks = static_cast<std::uint32_t>(chunks_of(setup));
    const topology::Nodes nodes = topology::Nodes::flat(setup.ranks);
    // Nobody is silent: there is no clock for the machines.
    const PullPlan plan{.nodes = &nodes, .credit = setup.ahead, .patience = Nanoseconds(UINT64_MAX / 2)};
    std::vector<Pull> machines;
    machines.reserve(setup.ranks);
    Wire wire(setup.model, setup.ranks);
    for (std::uint32_t rank = 0; rank < setup.ranks; ++rank) {
        Pull& machine = machines.emplace_back(plan, Rank(rank), Rank(0), protocol::FailedSet());
        if (rank == 0) machine.hold(chunks);
        if (rank != 0) machine.learn(chunks);
        wire.wake(rank, 0);
    }
    double steps = 0;
    std::uint64_t again = 0;
    while (!wire.is_quiet()) {
        const Wire::Event event = wire.next();
        Pull& machine = machines[event.rank];
        if (event.is_arrival) {
            const bool is_chunk = event.message.kind == PullKind::chunk;
            if (is_chunk && !machine.takes(event.message.first)) ++again;
            machine.receive(event.message);
            if (is_chunk) steps = std::max(steps, event.time);
        }
        while (wire.is_free(event.rank, event.time)) {
            const auto next = machine.next_send(Nanoseconds(0));
            if (!next) break;
            wire.send(*next, next->kind == PullKind::chunk ? length_of(setup, chunks, next->first) : 0, event.time);
        }
    }
    const bool is_everywhere =
        std::ranges::all_of(machines, [chunks](const Pull& machine) { return machine.have() == chunks; });
    return outcome_of(wire, steps, again, is_everywhere);
}

ChunkedOutcome simulate_order(const ChunkedSetup& setup) {
    const auto chunks = static_cast<std::uint32_t>(chunks_of(setup));
    const ChunkOrder order = setup.shape == Shape::chain               ? chain_order(setup.ranks, chunks)
                             : setup.shape == Shape::binomial_pipeline ? binomial_pipeline_order(setup.ranks, chunks)
                                                                       : scatter_allgather_order(setup.ranks, chunks);
    std::vector<std::vector<bool>> has(setup.ranks, std::vector<bool>(chunks));
    has[0].assign(chunks, true);
    std::vector<std::size_t> next(setup.ranks);
    Wire wire(setup.model, setup.ranks);
    wire.wake(0, 0);
    double steps = 0;
    std::uint64_t again = 0;
    while (!wire.is_quiet()) {
        const Wire::Event event = wire.next();
        const std::uint32_t rank = event.rank;
        if (event.is_arrival) {
            again += has[rank][event.message.first] ? 1 : 0;
            has[rank][event.message.first] = true;
            steps = std::max(steps, event.time);
        }
        if (next[rank] == order[rank].size() || !wire.is_free(rank, event.time)) continue;
        const ChunkSend send = order[rank][next[rank]];
        if (!has[rank][send.chunk]) continue;
        ++next[rank];
        wire.send({.kind = PullKind::chunk, .from = Rank(rank), .to = Rank(send.to), .first = send.chunk, .end = 0},
                  length_of(setup, chunks, send.chunk), event.time);
    }
    const bool is_everywhere =
        std::ranges::all_of(has, [](const auto& of) { return std::ranges::find(of, false) == of.end(); });
    return outcome_of(wire, steps, again, is_everywhere);
}

}  // namespace

std::string_view to_string(Shape shape) {
    switch (shape) {
        case Shape::pull:
            return "pull";
        case Shape::chain:
            return "chain";
        case Shape::binomial_pipeline:
            return "binomial pipeline";
        case Shape::scatter_allgather:
            return "scatter+allgather";
    }
    return "?";
}

std::optional<std::string> reason_against(const ChunkedSetup& setup) {
    if (setup.ranks < 2) return "a payload that goes in chunks takes 2 ranks";
    if (setup.bytes == 0 || setup.chunk == 0) return "a payload, and a chunk of it, have at least 1 byte";
    if (setup.ahead == 0) return "at least 1 chunk is asked for ahead";
    const LogGP& model = setup.model;
    for (const double cost : {model.latency, model.overhead, model.gap, model.gap_per_byte}) {
        const bool is_one = cost >= 0 && cost <= 1e9;
        if (!is_one) return "latency, overhead and gaps are from 0 to 1e9";
    }
    const std::uint64_t chunks = std::min(setup.bytes / setup.chunk, kMostChunksOfAll) + setup.ranks;
    if (chunks > kMostChunksOfAll / setup.ranks) {
        return std::to_string(setup.bytes) + " bytes in chunks of " + std::to_string(setup.chunk) + " for " +
               std::to_string(setup.ranks) + " ranks are more than " + std::to_string(kMostChunksOfAll) +
               " chunks at all ranks together: larger ones can be simulated";
    }
    return std::nullopt;
}

ChunkedOutcome simulate(const ChunkedSetup& setup) {
    return setup.shape == Shape::pull ? simulate_pull(setup) : simulate_order(setup);
}

}  // namespace coppice::simulation
