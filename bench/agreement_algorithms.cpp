// The agreement of Coppice beside the older ones that it is compared with, message by message: Early Returning
// Agreement, gathering and telling in two phases (Hursey et al.), and three phases (Buntinas), without failures.
//
// The pure machines run among forked ranks of one host, all three along the same tree, by the same driver, over the
// library's own shared memory transport, with headers as large as the engine's. So what differs is the algorithms.
// (Where ranks share a host the library itself publishes contributions, and sends nothing.) Rounds of the three
// alternate; a rank's part has ended when it has the decision and has sent what it owes for it.
//
//   agreement_algorithms [RANKS [AGREEMENTS [TREE]]]
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "agreement_machines.hpp"
#include "arguments.hpp"
#include "measure.h"
#include "transport/shm/shm_transport.hpp"

namespace {

using coppice::Rank;
using coppice::Seat;
namespace protocol = coppice::protocol;
namespace transport = coppice::transport;

using bench::Era;
using bench::Header;
using bench::Machine;
using bench::Phased;

constexpr std::uint64_t kRounds = 9;
constexpr std::size_t kAlgorithms = 3;
constexpr const char* kNames[kAlgorithms] = {"ERA", "two-phase", "three-phase"};
constexpr std::size_t kMostAddress = 2048;

// What a rank notes for the parent, in front of its address.
struct Own {
    std::uint64_t sends[kAlgorithms];
    std::uint64_t wrong;
    std::uint64_t address_bytes;
    char address[kMostAddress];
};

[[noreturn]] void give_up(const char* what, const char* why) {
    std::fprintf(stderr, "agreement_algorithms: %s: %s\n", what, why);
    std::exit(1);
}

class Participant final : private transport::Receiver {
  public:
    Participant(measure_area_t* area, Rank self, const protocol::AgreementPlan& plan)
        : area_(area), crew_(measure_join(area, self.value)), self_(self) {
        transport::ShmOptions options;
        options.self = Seat(self.value);
        options.group_size = crew_.ranks;
        auto made = transport::ShmTransport::create(options);
        if (!made) give_up("shared memory", made.error().message.c_str());
        wire_ = std::move(*made);
        machines_[0] = std::make_unique<Era>(plan, self);
        machines_[1] = std::make_unique<Phased>(plan, self, 2);
        machines_[2] = std::make_unique<Phased>(plan, self, 3);
    }

    void meet() {
        const std::vector<std::byte> mine = wire_->address();
        if (mine.size() > kMostAddress) give_up("shared memory", "a long address");
        own(self_.value).address_bytes = mine.size();
        std::memcpy(own(self_.value).address, mine.data(), mine.size());
        measure_barrier(&crew_, nullptr, nullptr);
        for (std::uint32_t rank = 0; rank < crew_.ranks; ++rank) {
            const auto* bytes = reinterpret_cast<const std::byte*>(own(rank).address);
            if (rank == self_.value) continue;
            if (auto added = wire_->add_peer(Seat(rank), {bytes, own(rank).address_bytes}); !added)
                give_up("shared memory", added.error().message.c_str());
        }
        measure_barrier(&crew_, nullptr, nullptr);
    }

    // So many agreements of each algorithm, the rounds of which alternate; stamps by algorithm, then agreement.
    void run(std::uint64_t agreements) {
        measure_stamp_t* const row = measure_row(area_, self_.value);
        for (std::uint64_t round = 0; round < kRounds; ++round) {
            for (std::size_t algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
                const std::uint64_t before = wire_->counters().sends;
                for (std::uint64_t i = 0; i < agreements; ++i)
                    row[(algorithm * kRounds + round) * agreements + i] = agree(algorithm);
                own(self_.value).sends[algorithm] += wire_->counters().sends - before;
            }
        }
        measure_barrier(&crew_, nullptr, nullptr);  // nobody's memory goes before all have read it
    }

  private:
    Own& own(std::uint32_t rank) { return *static_cast<Own*>(measure_own(area_, rank)); }

    measure_stamp_t agree(std::size_t algorithm) {
        Machine& machine = *machines_[algorithm];
        const std::uint64_t number = machine.ended();
        measure_barrier(&crew_, nullptr, nullptr);
        measure_stamp_t stamp{};
        stamp.start = measure_now();
        // A bit that moves, so that a stale result shows.
        machine.start(std::uint64_t{1} << ((self_.value + number) % 64));
        for (std::uint64_t poll = 0; !send_all(algorithm) || machine.ended() == number; ++poll) {
            if (wire_->poll(*this) == 0) measure_relax(&crew_, poll);
        }
        stamp.end = measure_now();
        std::uint64_t all = 0;
        for (std::uint32_t rank = 0; rank < crew_.ranks; ++rank)
            all |= std::uint64_t{1} << ((rank + number) % 64);
        own(self_.value).wrong += machine.last_value() != all;
        return stamp;
    }

    // False when a message waits for room.
    bool send_all(std::size_t algorithm) {
        while (true) {
            if (!to_) {
                header_ = Header{.algorithm = static_cast<std::uint32_t>(algorithm)};
                to_ = machines_[algorithm]->next_send(header_, body_);
                if (!to_) return true;
            }
            const auto header = std::as_bytes(std::span(&header_, 1));
            const auto status = wire_->send(Seat(to_->value), header, body_, &in_flight_);
            if (status == transport::SendStatus::failed) give_up("send", "a rank is gone");
            if (status == transport::SendStatus::again) return false;
            to_.reset();
            while (in_flight_ > 0)
                wire_->poll(*this);
        }
    }

    bool message(Seat from, std::span<const std::byte> bytes, std::span<const std::byte> payload,
                 transport::Buffer) override {
        Header header;
        if (bytes.size() != sizeof header) return false;
        std::memcpy(&header, bytes.data(), sizeof header);
        if (header.algorithm < kAlgorithms) machines_[header.algorithm]->receive(Rank(from.value), header, payload);
        return false;
    }
    void peer_failed(Seat, transport::FailureCause) override { give_up("agreement", "a rank died"); }

    measure_area_t* area_;
    measure_crew_t crew_;
    Rank self_;
    std::unique_ptr<transport::ShmTransport> wire_;
    std::array<std::unique_ptr<Machine>, kAlgorithms> machines_;
    std::optional<Rank> to_;
    Header header_;
    std::vector<std::byte> body_;
    std::uint32_t in_flight_ = 0;
};

void tell(measure_area_t* area, std::uint32_t ranks, std::uint64_t agreements) {
    std::printf(
        "# the last rank's call -> the last rank has returned; medians of %llu rounds, of %llu agreements each\n",
        static_cast<unsigned long long>(kRounds), static_cast<unsigned long long>(agreements));
    std::printf("%-12s %12s %12s %12s %22s\n", "algorithm", "median[us]", "least", "greatest", "messages/agreement");
    for (std::size_t algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
        std::vector<double> medians;
        for (std::uint64_t round = 0; round < kRounds; ++round) {
            std::vector<double> done(agreements), mean(agreements);
            for (std::uint64_t i = 0; i < agreements; ++i)
                measure_evaluate(area, (algorithm * kRounds + round) * agreements + i, MEASURE_LAST, &done[i],
                                 &mean[i]);
            medians.push_back(measure_statistics(done.data(), done.size()).typical);
        }
        const measure_stats_t stats = measure_statistics(medians.data(), medians.size());
        std::uint64_t sends = 0;
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
            sends += static_cast<const Own*>(measure_own(area, rank))->sends[algorithm];
        std::printf("%-12s %12.2f %12.2f %12.2f %22.2f\n", kNames[algorithm], stats.typical, stats.min, stats.max,
                    static_cast<double>(sends) / static_cast<double>(kRounds * agreements));
    }
}

}  // namespace

int main(int argc, char** argv) {
    const auto ranks = static_cast<std::uint32_t>(bench::argument(argc, argv, 1, 8, 2, 256));
    const std::uint64_t agreements = bench::argument(argc, argv, 2, 1000, 1, 100'000);
    const auto spec = protocol::parse_agreement_tree(argc > 3 ? argv[3] : "binary");
    if (!spec) give_up("TREE", spec.error().c_str());
    auto tree = protocol::AgreementTree::make(*spec, ranks, nullptr, {});
    if (!tree) give_up("TREE", tree.error().c_str());
    const protocol::AgreementPlan plan{.tree = std::move(*tree), .window = 1, .max_value = 8};

    measure_area_t* const area = measure_create(ranks, kAlgorithms * kRounds * agreements, sizeof(Own), nullptr);
    if (area == nullptr) give_up("memory for the time stamps", std::strerror(errno));
    std::vector<pid_t> children;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const pid_t child = fork();
        if (child < 0) give_up("fork", std::strerror(errno));
        children.push_back(child);
        if (child != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        measure_pin(rank);
        measure_clear_row(area, rank);
        {
            Participant participant(area, Rank(rank), plan);
            participant.meet();
            participant.run(agreements);
        }
        std::_Exit(0);
    }
    bool well = true;
    int status = 0;
    for (pid_t ended = wait(&status); ended > 0; ended = wait(&status)) {
        std::erase(children, ended);
        if (status == 0) continue;
        well = false;
        for (const pid_t child : children)
            kill(child, SIGKILL);  // they would wait for it
    }
    if (!well) give_up("a rank", "did not end well");
    std::uint64_t wrong = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        wrong += static_cast<const Own*>(measure_own(area, rank))->wrong;
    std::printf("# %u ranks, tree %s, 8 bytes, no failures\n", ranks, to_string(*spec).c_str());
    tell(area, ranks, agreements);
    std::printf("wrong %llu\n", static_cast<unsigned long long>(wrong));
    return wrong == 0 ? 0 : 1;
}
