// The conformance suite: what every transport must do, among real processes.
//
// To put a transport under it: derive a Factory, and in one source file of your own
//
//     INSTANTIATE_TEST_SUITE_P(mine, Conformance, ::testing::Values(&factory), factory_name);
//
// linked with `conformance` (tests/transport/meson.build). The tests' own process never makes a transport:
// each rank is a forked child, so libraries that do not survive a fork are initialized after it.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/processes.hpp"
#include "transport/faults.hpp"
#include "transport/transport.hpp"

namespace coppice::testing {

using transport::Transport;
using Bytes = std::vector<std::byte>;

class Factory {
  public:
    virtual ~Factory() = default;

    virtual const char* name() const = 0;

    // In the rank's own process. `size` ranks, all on this machine; a window of kWindow broadcasts.
    virtual Result<std::unique_ptr<Transport>> make(Seat self, std::uint32_t size) = 0;

    // Of the rank that is made next, for transports that want to know.
    std::uint32_t incarnation = 0;

    // `address` as another version of this transport would have made it; add_peer() must answer
    // COPPICE_ERR_MISMATCH.
    virtual Bytes of_other_version(Bytes address) = 0;

    // Writes nonsense to where `transport`'s peers would write to it, or sends it there, from within this
    // process or from a process of its own. The next polls must count at least one Counters::garbage and
    // deliver nothing of it. False: this transport cannot be reached by strangers.
    virtual bool send_garbage(Transport& transport) = 0;

    // Whether a peer's death is noticed while the dead process still has its memory taken apart, or is a
    // zombie.
    virtual bool notices_zombies() const { return true; }

    // Whether a message that send() accepted without lending its payload arrives although the sender is killed next.
    virtual bool sent_is_delivered() const { return false; }

    // Whether ranks take seconds to start, as on emulated devices: what is tried at many moments is tried at fewer.
    virtual bool slow_to_start() const { return false; }

    // Whether an earlier incarnation that connects when its number is another's is told that it is fenced.
    virtual bool tells_the_forgotten() const { return false; }

    // How often a number is given to the next process in one test: fewer where a death takes long to notice.
    virtual std::uint64_t replacements() const { return 1000; }

    // Whether a peer counts as dead although a child that it forked lives on with copies of its descriptors.
    virtual bool forked_children_do_not_count() const { return true; }
};

inline constexpr std::uint32_t kWindow = 8;
inline constexpr std::uint32_t kMaxRanks = 32;

// What the processes of one test share.
struct Stage {
    struct Address {
        std::atomic<std::uint32_t> length;  // stored last
        std::byte bytes[2048];
    };
    Address addresses[kMaxRanks];
    std::atomic<std::uint64_t> words[64];  // for the test's own use
    std::atomic<std::uint32_t> arrived[kMaxRanks];
};

// Keeps everything that a rank received.
class Recorder : public transport::Receiver {
  public:
    struct Received {
        Seat from;
        Bytes header;
        Bytes payload;
    };
    struct Failure {
        Seat peer;
        transport::FailureCause cause;
    };
    struct Kept {
        Seat from;
        Bytes header;
        std::span<const std::byte> payload;
        transport::Buffer buffer;
    };

    bool message(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    void peer_failed(Seat peer, transport::FailureCause cause) override;
    void peer_left(Seat peer) override { departed.push_back(peer); }
    void fenced(Seat by) override { fenced_by.push_back(by); }

    std::size_t count(Seat from) const;
    bool failed(Seat peer) const;
    bool has_left(Seat peer) const { return std::ranges::find(departed, peer) != departed.end(); }

    std::vector<Received> messages;
    std::vector<Failure> failures;
    std::vector<Seat> departed;
    std::vector<Seat> fenced_by;
    std::vector<Kept> kept;
    bool keep = false;                                // keep every payload that can be kept
    std::function<void(const Received&)> on_message;  // instead of `messages`, when set
};

// One rank: lives in its own process.
class Member {
  public:
    Member(Factory& factory, Stage& stage, Seat self, std::uint32_t size);

    // Puts the fault interceptor around the transport. Before meet().
    void interpose(const transport::FaultPlan& plan);

    // Publishes this rank's address, waits for all others' and adds them as peers.
    void meet();
    // Parts of it.
    void publish_address();
    Bytes address_of(Seat peer);

    Transport& wire() { return *transport_; }
    Stage& stage() { return stage_; }
    Seat self() const { return self_; }
    std::uint32_t size() const { return size_; }

    void poll();
    // Polls until `condition` holds; throws CheckFailed at the deadline.
    void poll_until(const std::function<bool()>& condition, const char* what);
    // Sends, polling while the answer is `again`; returns `sent` or `failed`. Waits until the payload has
    // left.
    transport::SendStatus send(Seat to, const Bytes& header, const Bytes& payload);
    // Waits (polling) until each of the first `count` ranks has come here this often; the dead are not waited
    // for when they are in `recorder.failures`.
    void barrier();
    // Leaves in peace: barrier, leave() until done.
    void leave();
    // Destroys the transport; nothing but recorder and stage may be used after it.
    void discard() { transport_.reset(); }

    Recorder recorder;

  private:
    Stage& stage_;
    Seat self_;
    std::uint32_t size_;
    std::uint32_t barriers_ = 0;
    std::unique_ptr<Transport> transport_;
};

// The ranks of one test. For the suite's own fixture, and for tests of one transport only.
class Ranks {
  protected:
    Ranks();
    ~Ranks() = default;

    virtual Factory& factory() = 0;

    using Body = std::function<void(Member&)>;
    // Starts `size` ranks; each makes its transport, meets the others and runs `body`. `raw`: without meeting.
    void start(std::uint32_t size, const Body& body, bool raw = false);
    // Starts one process as `rank`, which meets nobody by itself; returns which one of this test's it is.
    std::size_t start_one(Seat rank, std::uint32_t size, const Body& body, std::uint32_t incarnation = 0);
    // Waits for all ranks that are left and expects that they end well; the first that does not ends the others.
    void expect_all_well();
    bool expect_well(std::size_t rank, std::uint64_t deadline_ns = now_ns() + kDeadlineNs);
    void expect_killed(std::size_t rank);
    void expect_all_well_but(std::size_t killed);
    // For the next start() of the same test.
    void begin_again();
    // Waits in the parent for a word of the stage.
    void await_word(std::size_t index, std::uint64_t least);

    Stage& stage() { return *static_cast<Stage*>(memory_->get()); }

    void kill_the_rest();

    std::unique_ptr<SharedMemory> memory_;
    Processes processes_;
    std::vector<bool> waited_;
};

class Conformance : public ::testing::TestWithParam<Factory*>, protected Ranks {
  protected:
    Factory& factory() override { return *GetParam(); }
};

// For transports with Capabilities::native_read.
class OneSidedReads : public Conformance {};

std::string factory_name(const ::testing::TestParamInfo<Factory*>& info);

// Deterministic bytes that tell their sender, number and place.
Bytes pattern(std::uint64_t seed, std::size_t length);
bool is_pattern(std::span<const std::byte> bytes, std::uint64_t seed);
// How many segments of ranks this process has mapped.
std::size_t shared_mappings();
// A header of 16 bytes with two numbers.
Bytes header_of(std::uint64_t first, std::uint64_t second = 0);
std::uint64_t header_word(std::span<const std::byte> header, std::size_t index);

}  // namespace coppice::testing
