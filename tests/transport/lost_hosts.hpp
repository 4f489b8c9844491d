// Bodies of ranks whose cables are cut, or that are stopped, over any transport. Each is on a host of a TestNetwork.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/conformance.hpp"
#include "transport/tcp_network.hpp"

namespace coppice::testing {

class LostHosts : public ::testing::Test, protected Ranks {
  protected:
    // Words of the stage.
    static constexpr std::size_t kReady = 0;
    static constexpr std::size_t kOver = 1;
    static constexpr std::size_t kCutAt = 2;
    static constexpr std::size_t kSeenAfter = 3;  // and the following: by rank, ns
    static constexpr std::size_t kWaited = 5;     // and the following: by rank, ns that it waited for a core
    static constexpr std::size_t kRounds = 20;    // and the following: by rank, what arrived there
    static constexpr std::size_t kSent = 40;      // and the following: by rank and receiver, of flood()

    void SetUp() override {
        if (const std::string missing = TestNetwork::missing(); !missing.empty()) GTEST_SKIP() << missing;
    }
    // The ranks that are made from now on take turns on its hosts.
    virtual void use(const TestNetwork& network, std::uint32_t hosts) = 0;
    void wire(std::uint32_t hosts) {
        network_ = std::make_unique<TestNetwork>(hosts);
        use(*network_, hosts);
    }

    // Cuts with `how` while two ranks do `body`, and expects that both end well, and notice within the time that
    // docs/detection.md promises, and what they waited for a core meanwhile (each of them, as one may learn from the
    // other's reset). As the kernel may have had to wait, too, that is tried again. Prints after what time each noticed.
    void cut_and_expect(void (TestNetwork::*how)(std::uint32_t) const, const std::string& what, const Body& body);
    // Cuts the cable of one of two hosts for a second, again and again, under endure_cuts().
    void cut_for_seconds();

    // What ranks do. `because`: last_error(), when they have noticed.
    using Because = std::function<void(std::string_view)>;
    // Asleep on the descriptor: it has to show the death.
    static void notice_asleep(Member& member, const Because& because);
    static void notice_busy(Member& member, bool talks, const Because& because);
    // Ranks 0 and 1 talk all the time, 2 and 3 now and then, so that nothing is on its way when the cable is cut; all
    // others are connected and silent.
    static void endure_cuts(Member& member);
    // Three ranks send to each other as fast as they can, up to `most` bytes at a time, until it is over; all of it arrives.
    static void flood(Member& member, std::size_t most);

    // All send each other a word, and are ready.
    static void greet(Member& member);

    std::unique_ptr<TestNetwork> network_;

  private:
    static void note_death(Member& member, std::uint64_t waited_before, const Because& because);
    double seconds(std::size_t word) { return static_cast<double>(stage().words[word].load()) / 1e9; }
};

// One of several sets of ranks in a test: waiting takes as long for all of them as for one.
template <class HostFactory>
struct CaseOver final : Ranks {
    explicit CaseOver(const TestNetwork& network) { factory_.network = &network; }
    Factory& factory() override { return factory_; }
    using Ranks::await_word;
    using Ranks::expect_all_well;
    using Ranks::processes_;
    using Ranks::stage;
    using Ranks::start;
    HostFactory factory_;
};

template <class HostFactory>
class LostHostsOver : public LostHosts {
  protected:
    Factory& factory() override { return factory_; }
    void use(const TestNetwork& network, std::uint32_t hosts) override {
        factory_.network = &network;
        factory_.hosts = hosts;
    }

    HostFactory factory_;
};

}  // namespace coppice::testing
