// A parallel job of real processes, for tests: forked ranks that form a group over an exchange of their own and use the
// C API as any program does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "coppice/coppice.h"
#include "support/processes.hpp"

namespace coppice::bootstrap {
class WitnessKeeper;
}

namespace coppice::testing {

// How a job's ranks are set up. Environment per rank: `environment` for all, `of_rank` on top.
struct JobOptions {
    std::uint32_t ranks = 4;
    std::uint32_t hosts = 1;   // simulated: ranks in blocks, shared memory inside, tcp between
    bool is_witnessed = true;  // the test is a witness of its ranks' deaths, as coppice-run is
    std::map<std::string, std::string> environment{};
    std::map<std::uint32_t, std::map<std::string, std::string>> of_rank{};
    // Changes what a rank contributes to the exchange (another version's greeting, garbage).
    std::function<void(std::uint32_t rank, std::vector<char>& piece)> tamper{};
    coppice_context_options_t context = COPPICE_CONTEXT_OPTIONS_INIT;
};

// A way in which a group can be laid out on this machine.
struct Layout {
    const char* name;
    std::uint32_t ranks;
    std::uint32_t hosts;
    std::map<std::string, std::string> environment;
    std::map<std::uint32_t, std::map<std::string, std::string>> of_rank = {};

    JobOptions job() const {
        JobOptions options;
        options.ranks = ranks;
        options.hosts = hosts;
        options.environment = environment;
        options.of_rank = of_rank;
        return options;
    }
    bool uses(const std::string& variable, const std::string& value) const {
        const auto setting = environment.find(variable);
        return setting != environment.end() && setting->second == value;
    }
    bool uses_ucx() const { return uses("COPPICE_TRANSPORT", "ucx"); }
    bool uses_network() const { return hosts > 1 || environment.contains("COPPICE_TRANSPORT"); }
    friend void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }
};

// One layout of each way in which ranks reach each other; so many ranks where two hosts share them.
std::vector<Layout> ways_to_be_connected(std::uint32_t ranks_on_two_hosts);

// One rank's side, in its own process. COPPICE_CHECK ends it with exit code 1 and the text.
class Member {
  public:
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
    std::uint32_t rank = 0;
    std::uint32_t ranks = 0;

    // Creates context and group; the status of the call that failed, if one did.
    coppice_status_t join(const coppice_group_options_t& options = COPPICE_GROUP_OPTIONS_INIT);
    // Destroys both, waiting for the others.
    void leave();
    // What was handed to every rank to note things in: zeroed, shared by all ranks and the test.
    std::atomic<std::uint64_t>* notes = nullptr;
    // Wait outside of the library until it is so; a rank that waited in vain ends with what it knows.
    void await(const char* what, const std::function<bool()>& condition) const;
    // The same, calling now and then: for what the library says in a call only.
    void await_call(const char* what, const std::function<bool()>& condition) const;
    void await_note(std::size_t index, std::uint64_t value) const;  // reaches at least `value`
    void await_failed(std::size_t count) const;                     // so many ranks, or more
    std::vector<std::uint32_t> failed() const;
    coppice_group_counts_t counts() const;
    // The exchange of groups that are made otherwise, as coppice::GroupOptions wants it.
    bool exchange(std::span<const std::byte> mine, std::span<std::byte> all) const;

  private:
    friend class Job;
    void* exchange_ = nullptr;
};

class Job {
  public:
    using Body = std::function<void(Member&)>;

    // Starts the ranks at once. `notes` is how many words they share.
    Job(const JobOptions& options, const Body& body, std::size_t notes = 64);
    ~Job();

    std::uint32_t ranks() const { return options_.ranks; }
    Processes& processes() { return processes_; }
    std::atomic<std::uint64_t>& note(std::size_t index) { return notes_[index]; }
    // Waits until a note reaches `value`; false at the deadline.
    bool await_note(std::size_t index, std::uint64_t value) const;
    // Kills a rank; `reap` or leave it a zombie.
    void kill(std::uint32_t rank, bool reap);
    // Reaps all, within one deadline that comes after that of whatever a rank itself waits for. Empty when every rank
    // ended well, or by SIGKILL where `may_be_killed` says so; else what was wrong.
    std::string finish(const std::function<bool(std::uint32_t)>& may_be_killed = nullptr);
    const Ending& ending(std::uint32_t rank) const { return endings_[rank]; }

    // The coppice_exchange_fn of the ranks.
    static int exchange(void* argument, const void* piece, std::size_t bytes, void* all);

  private:
    struct Exchange;

    void be_witness();

    JobOptions options_;
    SharedMemory memory_;
    std::unique_ptr<bootstrap::WitnessKeeper> witness_;
    Exchange* exchange_;
    std::atomic<std::uint64_t>* notes_;
    Processes processes_;
    std::vector<Ending> endings_;
    std::vector<bool> reaped_;
    std::jthread looks_;  // begins when all processes have been started
};

// Byte `offset` of the payload of broadcast `number` from `root`: no two broadcasts, roots or offsets look alike for
// long.
unsigned char payload_byte(std::uint64_t number, std::uint32_t root, std::size_t offset);
std::vector<unsigned char> payload_of(std::uint64_t number, std::uint32_t root, std::size_t bytes);

// COPPICE_FAULTS for all of these ranks: `moment` is kill-before or kill-after, `message` counts from 1.
std::string faults_at(const char* moment, int message, const std::vector<std::uint32_t>& victims);

}  // namespace coppice::testing
