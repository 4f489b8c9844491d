// UCX over TCP: cables that are cut while connections are set up.
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "transport/ucx_network.hpp"

namespace coppice::testing {

// The suite comes along with what these tests borrow from it, but runs elsewhere.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

namespace {

// Words of the stage.
constexpr std::size_t kReady = 0;
constexpr std::size_t kGo = 1;
constexpr std::size_t kBegun = 2;
constexpr std::size_t kSeenAfter = 3;

class UcxNetwork : public ::testing::Test, protected Ranks {
  protected:
    void SetUp() override {
        if (const std::string missing = TestNetwork::missing(); !missing.empty()) GTEST_SKIP() << missing;
        network_ = std::make_unique<TestNetwork>(2);
        network_->pin_addresses(0);
        factory_.network = network_.get();
    }
    Factory& factory() override { return factory_; }

    std::unique_ptr<TestNetwork> network_;
    UcxHostFactory factory_;
};

// Rank 0 connects when it is told to.
void connect(Member& member) {
    ++member.stage().words[kReady];
    while (member.stage().words[kGo] == 0)
        usleep(1000);
    const std::uint64_t began = now_ns();
    member.send(Seat(1), header_of(0), {});
    member.stage().words[kBegun] = 1;
    member.poll_until([&] { return !member.recorder.failures.empty() || !member.recorder.messages.empty(); },
                      "an answer or the loss");
    member.stage().words[kSeenAfter] = now_ns() - began;
}

void answer(Member& member) {
    ++member.stage().words[kReady];
    member.poll_until([&] { return !member.recorder.messages.empty(); }, "the first word");
    member.send(Seat(0), header_of(0), {});
}

// Rank 1 says nothing, and its host is lost.
void connect_to_a_lost_host(Member& member) {
    if (member.self().value == 1) {
        ++member.stage().words[kReady];
        while (member.stage().words[kSeenAfter] == 0)
            usleep(1000);
        return;
    }
    connect(member);
    COPPICE_CHECK(member.recorder.failures.size() == 1);
}

// Both live, and speak to each other in the end.
void meet(Member& member) {
    if (member.self().value == 1) {
        answer(member);
    } else {
        connect(member);
    }
    COPPICE_CHECK(member.recorder.failures.empty() && member.recorder.messages.size() == 1);
    member.barrier();
    member.leave();
}

TEST_F(UcxNetwork, AHostThatIsLostBeforeItIsConnectedIsNoticed) {
    start(2, connect_to_a_lost_host);
    await_word(kReady, 2);
    network_->cut(1);
    stage().words[kGo] = 1;
    expect_all_well();
    std::printf("noticed after %.2f s\n", static_cast<double>(stage().words[kSeenAfter].load()) / 1e9);
}

// The kernel of the lost host has taken the connection; the process there has not answered.
TEST_F(UcxNetwork, AHostThatIsLostWhileItIsConnectedIsNoticed) {
    start(2, connect_to_a_lost_host);
    await_word(kReady, 2);
    stage().words[kGo] = 1;
    await_word(kBegun, 1);
    usleep(200'000);
    network_->cut(1);
    expect_all_well();
    std::printf("noticed after %.2f s\n", static_cast<double>(stage().words[kSeenAfter].load()) / 1e9);
}

TEST_F(UcxNetwork, ACutOfASecondWhileAConnectionIsSetUpHarmsNobody) {
    start(2, meet);
    await_word(kReady, 2);
    network_->cut(1);
    stage().words[kGo] = 1;
    await_word(kBegun, 1);
    usleep(1'000'000);
    network_->mend(1);
    expect_all_well();
}

// It is there, and its kernel says so.
TEST_F(UcxNetwork, ARankThatIsStoppedWhileAConnectionIsSetUpIsNotDead) {
    start(2, meet);
    await_word(kReady, 2);
    processes_.signal(1, SIGSTOP);
    stage().words[kGo] = 1;
    await_word(kBegun, 1);
    usleep(20'000'000);
    processes_.signal(1, SIGCONT);
    expect_all_well();
}

}  // namespace
}  // namespace coppice::testing
