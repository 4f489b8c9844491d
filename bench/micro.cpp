// What the inside costs, one thread, nobody waiting: tree look-ups, a broadcast's machines, publishing on one host.
//
// Figures here say where time goes and whether a change made it worse; they are no latencies. Two ranks that really
// wait for each other are measured by two_ranks and coppice-perf.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "protocol/agreement/agreement.hpp"
#include "protocol/broadcast.hpp"
#include "topology/tree.hpp"
#include "transport/shm/shm_transport.hpp"

namespace {

using namespace coppice;

constexpr const char* kTrees[] = {"binomial", "kary:4", "lame:2", "optimal", "binomial:inorder"};

topology::Tree tree_of(const char* name, std::uint32_t processes) {
    const auto spec = topology::parse_tree(name);
    return topology::Tree::make(spec.value(), processes).value();
}

// Parent and all children of one position after the other.
void tree_look_ups(benchmark::State& state, const char* name) {
    const auto processes = static_cast<std::uint32_t>(state.range(0));
    const topology::Tree tree = tree_of(name, processes);
    std::uint32_t position = 0;
    for (auto _ : state) {
        position = (position + 7919) % processes;
        benchmark::DoNotOptimize(tree.parent(Position(position)));
        const std::uint32_t children = tree.child_count(Position(position));
        for (std::uint32_t i = 0; i < children; ++i)
            benchmark::DoNotOptimize(tree.child(Position(position), i));
    }
}

// One broadcast at all its ranks, in lockstep: each turn every rank sends one message if it wants to, then all arrive;
// until nobody wants anything. (One at a time matters to checked correction: it looks at what came before it sends on.)
void protocol_broadcast(benchmark::State& state, const char* correction) {
    const auto processes = static_cast<std::uint32_t>(state.range(0));
    const protocol::BroadcastPlan plan{tree_of("binomial", processes), protocol::parse_correction(correction).value()};
    const protocol::FailedSet failed;
    std::vector<protocol::Broadcast> machines;
    machines.reserve(processes);
    std::vector<protocol::Message> wire;
    wire.reserve(processes);
    std::uint64_t messages = 0;
    for (auto _ : state) {
        machines.clear();
        for (std::uint32_t position = 0; position < processes; ++position) {
            machines.emplace_back(plan, Position(position), 0, failed, position == 0);
        }
        do {
            wire.clear();
            for (protocol::Broadcast& machine : machines) {
                if (const auto message = machine.next_send(Nanoseconds{})) wire.push_back(*message);
            }
            for (const protocol::Message& message : wire)
                machines[message.to.value].receive(message);
            messages += wire.size();
        } while (!wire.empty());
    }
    const double broadcasts = static_cast<double>(state.iterations());
    state.counters["messages"] = static_cast<double>(messages) / broadcasts / processes;
    state.counters["per_rank"] =
        benchmark::Counter(broadcasts * processes, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// One inner rank's part in agreements among so many, its peers played by hand: the caller's contribution, those of both
// children, the decision, and the three messages that it sends. With so many known to be dead.
void agreement_events(benchmark::State& state) {
    const auto ranks = static_cast<std::uint32_t>(state.range(0));
    const auto dead = static_cast<std::uint32_t>(state.range(1));
    const auto tree = protocol::AgreementTree::make(*protocol::parse_agreement_tree("binary"), ranks, nullptr, {});
    const protocol::AgreementPlan plan{
        .tree = *tree, .window = 8, .max_value = 8, .rebalance = protocol::Rebalance::never};
    const std::uint32_t self = plan.tree.child(0, 0);
    protocol::Agreement machine(plan, Rank{self});
    for (std::uint32_t rank = ranks - dead; rank < ranks; ++rank)
        machine.peer_failed(Rank{rank});
    const std::uint64_t value = 5;
    const auto bytes = std::as_bytes(std::span(&value, 1));
    // What a leaf contributes, in place of what children contribute and of what is decided.
    protocol::Agreement leaf(plan, Rank{ranks - dead - 1});
    leaf.contribute({protocol::Operator::bit_or}, bytes);
    const auto up = leaf.next_send(Nanoseconds{});
    std::vector<std::byte> body(up->body.begin(), up->body.end());
    for (auto _ : state) {
        const auto agreement = machine.contribute({protocol::Operator::bit_or}, bytes);
        for (std::uint32_t i = 0; i < plan.tree.child_count(self); ++i) {
            machine.receive(
                {protocol::AgreementKind::up, Rank{plan.tree.child(self, i)}, Rank{self}, *agreement, body});
        }
        while (machine.next_send(Nanoseconds{})) {
        }
        machine.receive({protocol::AgreementKind::down, Rank{0}, Rank{self}, *agreement, body});
        while (machine.next_send(Nanoseconds{})) {
        }
        if (!machine.decided(*agreement)) state.SkipWithError("not decided");
    }
}

// The transports of the ranks of one host, all in this process.
class Host {
  public:
    explicit Host(std::uint32_t ranks) {
        std::vector<Seat> members;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            transport::ShmOptions options;
            options.self = Seat(rank);
            options.group_size = ranks;
            transports_.push_back(must(transport::ShmTransport::create(options)));
            members.push_back(Seat(rank));
        }
        for (std::uint32_t self = 0; self < ranks; ++self) {
            for (std::uint32_t peer = 0; peer < ranks; ++peer) {
                if (auto added = at(self).add_peer(Seat(peer), at(peer).address()); !added) give_up(added.error());
            }
            if (auto sealed = at(self).seal_board(members); !sealed) give_up(sealed.error());
        }
    }
    transport::ShmTransport& at(std::uint32_t rank) { return *transports_[rank]; }

  private:
    [[noreturn]] static void give_up(const Error& error) {
        fmt::print(stderr, "micro: {}\n", error.message);
        std::exit(1);
    }
    template <class T>
    static T must(Result<T> result) {
        if (!result) give_up(result.error());
        return std::move(*result);
    }
    std::vector<std::unique_ptr<transport::ShmTransport>> transports_;
};

void board_publish(benchmark::State& state) {
    Host host(2);
    transport::Board& board = host.at(0).board(0);
    const auto bytes = static_cast<std::uint32_t>(state.range(0));
    const std::vector<std::byte> payload(bytes);
    std::uint64_t sequence = 0;
    for (auto _ : state) {
        std::copy(payload.begin(), payload.end(), board.line_memory(Sequence(sequence)));
        board.publish(Sequence(sequence), bytes, 0, 0);
        ++sequence;
    }
}

void board_look(benchmark::State& state) {
    Host host(2);
    const bool there = state.range(0) != 0;
    if (there) host.at(0).board(0).publish(Sequence(0), 8, 0, 0);
    const transport::Board& board = host.at(1).board(0);
    transport::PublishedLine line;
    for (auto _ : state)
        benchmark::DoNotOptimize(board.look(Rank(0), Sequence(0), line));
}

void board_alive(benchmark::State& state) {
    Host host(2);
    const transport::Board& board = host.at(1).board(0);
    for (auto _ : state)
        benchmark::DoNotOptimize(board.alive(Rank(0)));
}

class Sink final : public transport::Receiver {
  public:
    bool message(Seat, std::span<const std::byte>, std::span<const std::byte>, transport::Buffer) override {
        ++count;
        return false;
    }
    void peer_failed(Seat, transport::FailureCause) override {}
    std::uint64_t count = 0;
};

// What every turn of a waiting loop pays when nothing has arrived.
void poll_nothing(benchmark::State& state) {
    Host host(static_cast<std::uint32_t>(state.range(0)));
    Sink sink;
    for (auto _ : state)
        benchmark::DoNotOptimize(host.at(0).poll(sink));
}

// A message put into an inbox and taken out of it again.
void send_and_poll(benchmark::State& state) {
    Host host(2);
    Sink sink;
    const std::vector<std::byte> header(32), payload(static_cast<std::size_t>(state.range(0)));
    std::uint32_t in_flight = 0;
    for (auto _ : state) {
        const std::uint64_t before = sink.count;
        while (host.at(0).send(Seat(1), header, payload, &in_flight) == transport::SendStatus::again) {
            host.at(1).poll(sink);
        }
        while (sink.count == before) {
            host.at(0).poll(sink);
            host.at(1).poll(sink);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    for (const char* tree : kTrees) {
        benchmark::RegisterBenchmark(fmt::format("tree/{}", tree).c_str(), tree_look_ups, tree)
            ->Arg(32)
            ->Arg(65536)
            ->Arg(1 << 20);
    }
    for (const char* correction : {"none", "opportunistic:1", "optimized:2", "checked"}) {
        benchmark::RegisterBenchmark(fmt::format("protocol/{}", correction).c_str(), protocol_broadcast, correction)
            ->Arg(8)
            ->Arg(1024);
    }
    benchmark::RegisterBenchmark("agreement/events", agreement_events)
        ->ArgNames({"ranks", "dead"})
        ->ArgsProduct({{1 << 6, 1 << 10, 1 << 16, 1 << 20}, {0, 1, 16}});
    benchmark::RegisterBenchmark("board/publish", board_publish)->Arg(8)->Arg(256)->Arg(8192);
    benchmark::RegisterBenchmark("board/look", board_look)->ArgName("there")->Arg(0)->Arg(1);
    benchmark::RegisterBenchmark("board/alive", board_alive);
    benchmark::RegisterBenchmark("shm/poll_nothing", poll_nothing)->ArgName("ranks")->Arg(2)->Arg(16);
    benchmark::RegisterBenchmark("shm/send_and_poll", send_and_poll)->Arg(8)->Arg(256)->Arg(8192);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
