#include "integration/job.hpp"

#include <sched.h>
#include <signal.h>
#include <time.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "bootstrap/witness_keeper.hpp"

namespace coppice::testing {
namespace {

constexpr std::size_t kMaxRanks = 64;
constexpr std::size_t kMaxPiece = 32768;
constexpr std::size_t kMaxRounds = 64;

}  // namespace

// An allgather over shared memory. A rank that the test has marked as dead contributes zeros.
struct alignas(64) Job::Exchange {
    struct Round {
        std::atomic<std::uint32_t> given[kMaxRanks];
        char pieces[kMaxRanks][kMaxPiece];
    };
    std::atomic<std::uint32_t> dead[kMaxRanks];
    std::atomic<std::uint32_t> round_of[kMaxRanks];
    Round rounds[kMaxRounds];
    std::uint32_t ranks;
    std::atomic<std::uint32_t> is_known;  // the witness knows all processes
};

namespace {

struct Caller {
    void* exchange = nullptr;
    std::uint32_t rank = 0;
    const JobOptions* options = nullptr;
};

}  // namespace

Job::Job(const JobOptions& options, const Body& body, std::size_t notes)
    : options_(options),
      memory_(sizeof(Exchange) + notes * sizeof(std::uint64_t)),
      witness_(options.is_witnessed ? bootstrap::WitnessKeeper::create(options.ranks) : nullptr),
      endings_(options.ranks),
      reaped_(options.ranks, false) {
    exchange_ = static_cast<Exchange*>(memory_.get());
    exchange_->ranks = options_.ranks;
    notes_ = reinterpret_cast<std::atomic<std::uint64_t>*>(exchange_ + 1);
    for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
        processes_.start([&, rank] {
            if (witness_) {
                setenv("COPPICE_WITNESS", witness_->path().c_str(), 1);
                setenv("COPPICE_LAUNCHER", "/nowhere", 1);
                setenv("COPPICE_SIZE", std::to_string(options_.ranks).c_str(), 1);
                setenv("COPPICE_RANK", std::to_string(rank).c_str(), 1);
                while (exchange_->is_known.load() == 0)
                    sched_yield();
            }
            for (const auto& [name, value] : options_.environment)
                setenv(name.c_str(), value.c_str(), 1);
            if (options_.hosts > 1) {
                setenv("COPPICE_HOST", ("host" + std::to_string(rank * options_.hosts / options_.ranks)).c_str(), 1);
            }
            if (const auto own = options_.of_rank.find(rank); own != options_.of_rank.end()) {
                for (const auto& [name, value] : own->second)
                    setenv(name.c_str(), value.c_str(), 1);
            }
            Caller caller{exchange_, rank, &options_};
            Member member;
            member.rank = rank;
            member.ranks = options_.ranks;
            member.notes = notes_;
            member.exchange_ = &caller;
            body(member);
            return 0;
        });
    }
    if (witness_) be_witness();
}

void Job::be_witness() {
    for (std::uint32_t rank = 0; rank < options_.ranks; ++rank)
        witness_->arrived(rank, processes_.pid(rank));
    exchange_->is_known.store(1);
    looks_ = std::jthread([this](const std::stop_token& stop) {
        constexpr auto kLook = std::chrono::milliseconds(20);  // as often as coppice-run
        for (; !stop.stop_requested(); std::this_thread::sleep_for(kLook))
            witness_->look();
    });
}

Job::~Job() {
    looks_ = {};
    processes_.clear();
}

namespace {

// Waiting among more ranks than cores: give the core away.
template <class Condition>
bool wait_until(Condition&& condition) {
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    for (std::uint32_t i = 0; !condition(); ++i) {
        sched_yield();
        if (i % 64 == 0 && now_ns() > deadline) return false;
    }
    return true;
}

}  // namespace

coppice_status_t Member::join(const coppice_group_options_t& options) {
    Caller& caller = *static_cast<Caller*>(exchange_);
    coppice_context_options_t context_options = caller.options->context;
    if (const coppice_status_t status = coppice_context_create(&context_options, &context); status != COPPICE_OK) {
        return status;
    }
    coppice_group_options_t mine = options;
    mine.rank = rank;
    mine.size = ranks;
    mine.exchange_argument = exchange_;
    mine.exchange = [](void* argument, const void* piece, size_t bytes, void* all) {
        return Job::exchange(argument, piece, bytes, all);
    };
    return coppice_group_create(context, &mine, &group);
}

int Job::exchange(void* argument, const void* piece, std::size_t bytes, void* all) {
    const Caller& caller = *static_cast<Caller*>(argument);
    Exchange& exchange = *static_cast<Exchange*>(caller.exchange);
    const std::uint32_t number = exchange.round_of[caller.rank].fetch_add(1);
    if (number >= kMaxRounds || bytes > kMaxPiece) return 1;
    Exchange::Round& round = exchange.rounds[number];
    std::vector<char> mine(static_cast<const char*>(piece), static_cast<const char*>(piece) + bytes);
    if (caller.options->tamper) caller.options->tamper(caller.rank, mine);
    std::memcpy(round.pieces[caller.rank], mine.data(), bytes);
    round.given[caller.rank].store(1);
    for (std::uint32_t r = 0; r < exchange.ranks; ++r) {
        const auto there = [&] { return round.given[r].load() != 0 || exchange.dead[r].load() != 0; };
        if (!wait_until(there)) return 1;
        std::memcpy(static_cast<char*>(all) + r * bytes, round.pieces[r], bytes);
    }
    return 0;
}

void Member::leave() {
    COPPICE_CHECK(coppice_group_destroy(group, kDeadlineNs) == COPPICE_OK);
    COPPICE_CHECK(coppice_context_destroy(context) == COPPICE_OK);
}

void Member::await(const char* what, const std::function<bool()>& condition) const {
    if (wait_until(condition)) return;
    std::string text = "rank " + std::to_string(rank) + " waited in vain: " + what + "; failed for it:";
    for (const std::uint32_t other : group == nullptr ? std::vector<std::uint32_t>() : failed())
        text += ' ' + std::to_string(other);
    throw CheckFailed(text);
}

void Member::await_call(const char* what, const std::function<bool()>& condition) const {
    await(what, [&] {
        COPPICE_CHECK(coppice_progress(context) == COPPICE_OK);
        return condition();
    });
}

void Member::await_note(std::size_t index, std::uint64_t value) const {
    const std::string what = "note " + std::to_string(index) + " to be " + std::to_string(value);
    await(what.c_str(), [&] { return notes[index].load() >= value; });
}

void Member::await_failed(std::size_t count) const {
    const std::string what = std::to_string(count) + " failed";
    await(what.c_str(), [&] { return failed().size() >= count; });
}

std::vector<std::uint32_t> Member::failed() const {
    std::vector<std::uint32_t> ranks_failed(ranks);
    std::size_t count = 0;
    COPPICE_CHECK(coppice_group_failed(group, ranks_failed.data(), ranks_failed.size(), &count) == COPPICE_OK);
    ranks_failed.resize(count);
    return ranks_failed;
}

coppice_group_counts_t Member::counts() const {
    coppice_group_counts_t counts{};
    counts.struct_size = sizeof counts;
    COPPICE_CHECK(coppice_group_count(group, &counts) == COPPICE_OK);
    return counts;
}

bool Member::exchange(std::span<const std::byte> mine, std::span<std::byte> all) const {
    return Job::exchange(exchange_, mine.data(), mine.size(), all.data()) == 0;
}

bool Job::await_note(std::size_t index, std::uint64_t value) const {
    return wait_until([&] { return notes_[index].load() >= value; });
}

void Job::kill(std::uint32_t rank, bool reap) {
    processes_.signal(rank, SIGKILL);
    if (reap) {
        endings_[rank] = processes_.wait(rank);
        reaped_[rank] = true;
    } else {
        processes_.await_zombie(rank);
    }
    exchange_->dead[rank].store(1);
}

std::string Job::finish(const std::function<bool(std::uint32_t)>& may_be_killed) {
    std::string wrong;
    const std::uint64_t deadline = now_ns() + kDeadlineNs + kDeadlineNs / 4;
    for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
        if (!reaped_[rank]) endings_[rank] = processes_.wait(rank, deadline);
        reaped_[rank] = true;
        const bool killed = may_be_killed && may_be_killed(rank) && endings_[rank].killed_by(SIGKILL);
        if (!endings_[rank].well() && !killed)
            wrong += "rank " + std::to_string(rank) + ": " + endings_[rank].text() + "\n";
    }
    return wrong;
}

unsigned char payload_byte(std::uint64_t number, std::uint32_t root, std::size_t offset) {
    std::uint64_t x = number * 0x9e3779b97f4a7c15U + root * 0xbf58476d1ce4e5b9U + offset * 0x94d049bb133111ebU;
    x ^= x >> 31;
    return static_cast<unsigned char>((x * 0xd6e8feb86659fd93U) >> 56);
}

std::vector<unsigned char> payload_of(std::uint64_t number, std::uint32_t root, std::size_t bytes) {
    std::vector<unsigned char> payload(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        payload[i] = payload_byte(number, root, i);
    return payload;
}

std::vector<Layout> ways_to_be_connected(std::uint32_t ranks_on_two_hosts) {
    return {
        {"one_host", 5, 1, {}},
        {"flat", 6, 1, {{"COPPICE_HIERARCHY", "flat"}}},
        {"ucx", 4, 1, {{"COPPICE_TRANSPORT", "ucx"}}},
        {"tcp", 4, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
        {"two_hosts", ranks_on_two_hosts, 2, {}},
        {"hosts_of_one_and_two", 5, 3, {}},
    };
}

std::string faults_at(const char* moment, int message, const std::vector<std::uint32_t>& victims) {
    std::string faults;
    for (const std::uint32_t victim : victims) {
        if (!faults.empty()) faults += ',';
        faults.append(moment).append(":").append(std::to_string(message));
        faults.append("@").append(std::to_string(victim));
    }
    return faults;
}

}  // namespace coppice::testing
