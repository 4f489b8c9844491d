// What a group core hands to its components, and what not, once headers are familiar to it: the short way is for as long as nothing has changed.
#include "engine/core/core.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "engine/context.hpp"
#include "some_transport_set.hpp"

namespace coppice::engine {
namespace {

constexpr GroupId kGroup{.token = 7, .epoch = Epoch(0)};

class SomeComponent final : public Collective {
  public:
    std::vector<Rank> heard;

    bool message(Rank from, const WireHeader&, std::span<const std::byte>, transport::Buffer) override {
        heard.push_back(from);
        return false;
    }
    void progress(bool) override {}
    bool peek(Request&) override { return false; }
    void finish(Request&) override {}
    std::string waiting_for(const Request&) const override { return {}; }
};

class NoPassenger final : public Passenger {
    std::uint64_t count() const override { return 0; }
    bool heard(std::uint64_t) override { return true; }
    void pass_on() override {}
};

// The core of rank 0, to which kPeer and another rank have said the same kind of thing before.
class FamiliarCore : public ::testing::Test {
  protected:
    explicit FamiliarCore(topology::Nodes nodes = topology::Nodes::flat(kRanks)) : nodes_(std::move(nodes)) {
        auto made = std::make_unique<Wire>();
        wire_ = made.get();
        const std::uint8_t index = set_->add(std::move(made));
        for (std::uint32_t peer = 0; peer < kRanks; ++peer)
            set_->route(Seat(peer), index);
        set_->attach(1, other_group_);
        core_.carry(passenger_);
        core_.add(component_, std::array{Channel::broadcast, Channel::reading});
        core_.open();
        for (const Seat from : {Seat(1), kPeer, kPeer})
            say_from(from);
        EXPECT_EQ(component_.heard, (std::vector{Rank(1), kRank, kRank}));
        component_.heard.clear();
        wire_->sent.clear();
    }
    ~FamiliarCore() override { core_.close(); }

    // A rank's message of a broadcast.
    void say_from(Seat from) {
        const WireHeader header{.token = kGroup.token,
                                .tag = {Channel::broadcast, protocol::MessageKind::tree},
                                .sequence = next_++,
                                .length = sizeof payload_};
        wire_->next_poll = [&](transport::Receiver& set) {
            set.message(from, encode(header), std::as_bytes(std::span(&payload_, 1)), 0);
        };
        set_->poll();
    }

    // A message without a payload.
    void say(Tag tag, Seat from = kPeer, Rank about = Rank(0)) {
        wire_->next_poll = [=](transport::Receiver& set) {
            set.message(from, encode({.token = kGroup.token, .tag = tag, .detail = about.value}), {}, 0);
        };
        set_->poll();
    }
    // This rank leaves, and hears in an agreement that kPeer is not there any more.
    void hear_at_the_end() {
        core_.drained();
        protocol::FailedSet gone;
        gone.insert(kRank.value);
        core_.membership().learn_from(gone);
        ASSERT_TRUE(core_.members().failed(kRank));
        core_.progress();
    }
    std::ptrdiff_t notices() const {
        return std::ranges::count_if(wire_->sent, [](const WireHeader& header) {
            return header.tag == Tag(Channel::members, MembersKind::failure_notice) && header.detail == kRank.value;
        });
    }

    static constexpr Rank kRank{kPeer.value};
    topology::Nodes nodes_;
    std::uint64_t payload_ = 0;
    std::uint64_t next_ = 0;
    std::unique_ptr<Context> context_ =
        Context::create(SettingTexts([](const char*) -> const char* { return nullptr; }), false).value();
    std::shared_ptr<TransportSet> set_ = std::make_shared<TransportSet>(kRanks);
    Wire* wire_ = nullptr;
    SomeGroup other_group_;
    NoPassenger passenger_;
    SomeComponent component_;
    Core core_{{.context = context_.get(),
                .settings = context_->settings(),
                .members = Members(Rank(0), nodes_),
                .router = Router(set_, kRanks),
                .id = kGroup,
                .on_failure = nullptr}};
};

TEST_F(FamiliarCore, TheDeadSayNothingMore) {
    core_.membership().learn_failures(std::array{kRank});
    say_from(kPeer);
    EXPECT_TRUE(component_.heard.empty());
    say_from(Seat(1));
    EXPECT_EQ(component_.heard, std::vector{Rank(1)});
    say_from(kPeer);  // behind one that was right
    EXPECT_EQ(component_.heard, std::vector{Rank(1)});
}

TEST_F(FamiliarCore, InARevokedGroupNothingIsSaidToWhatDoesNotOutliveThat) {
    core_.life().note_revoked();
    say_from(kPeer);
    EXPECT_TRUE(component_.heard.empty());
}

TEST_F(FamiliarCore, WhoTakesTheSeatOfARankThatHasLeftIsNotThatRank) {
    wire_->next_poll = [](transport::Receiver& set) { set.peer_left(kPeer); };
    set_->poll();
    ASSERT_TRUE(set_->vacate(kPeer, TransportSet::Ended::certainly));
    say_from(kPeer);
    EXPECT_TRUE(component_.heard.empty());
    say_from(Seat(1));
    EXPECT_EQ(component_.heard, std::vector{Rank(1)});
}

TEST_F(FamiliarCore, OfARankThatMayHaveLeftTheLastWordsAreHeard) {
    hear_at_the_end();
    say_from(kPeer);
    EXPECT_TRUE(component_.heard.empty());
    say({Channel::reading, ReadingKind::done});
    EXPECT_EQ(component_.heard, std::vector{kRank});
    say({Channel::members, MembersKind::left});
    EXPECT_EQ(core_.life().departed().size(), 1U);
}

TEST_F(FamiliarCore, OfARankThatMayHaveLeftOthersAreToldWhenItIsDead) {
    hear_at_the_end();
    EXPECT_EQ(notices(), 0);
    core_.membership().learn_failures(std::array{kRank});
    core_.progress();
    EXPECT_GT(notices(), 0);
    wire_->sent.clear();
    core_.membership().learn_failures(std::array{kRank});
    core_.progress();
    EXPECT_EQ(notices(), 0) << "once";
}

// Ranks 0 and 1 are on one host, kPeer and rank 3 on another.
class CoreOfAHost : public FamiliarCore {
  protected:
    CoreOfAHost() : FamiliarCore(topology::Nodes::by_host(std::array<std::uint64_t, kRanks>{1, 1, 2, 2})) {}
    std::vector<Seat> told() {
        std::vector<Seat> seats;
        core_.progress();
        for (std::size_t at = 0; at < wire_->sent.size(); ++at)
            if (wire_->sent[at].tag == kLives) seats.push_back(wire_->sent_to[at]);
        wire_->sent.clear();
        wire_->sent_to.clear();
        return seats;
    }
    static constexpr Tag kLives{Channel::members, MembersKind::still_lives};
};

TEST_F(CoreOfAHost, WhoHearsOfAFailedRankThatLivesTellsItsHost) {
    wire_->sent_to.clear();
    say(kLives, kPeer, Rank(3));
    EXPECT_TRUE(core_.membership().still_alive().contains(3));
    EXPECT_EQ(told(), std::vector{Seat(1)});
    say(kLives, kPeer, Rank(3));
    EXPECT_TRUE(told().empty()) << "once";
    say(kLives, Seat(1), kRank);
    EXPECT_TRUE(core_.membership().still_alive().contains(kRank.value));
    EXPECT_TRUE(told().empty()) << "by the rank that heard of it first";
    say(kLives, kPeer, Rank(1));
    EXPECT_FALSE(core_.membership().still_alive().contains(1)) << "this rank sees that itself";
}

// It still speaks, so it has not heard that this one has left.
TEST_F(FamiliarCore, ARankThatSpeaksToOneThatHasLeftIsToldSo) {
    ASSERT_TRUE(core_.leaving().depart(false));
    wire_->sent_to.clear();
    say_from(kPeer);
    ASSERT_TRUE(core_.leaving().depart(false));
    EXPECT_EQ(wire_->sent_to, std::vector{kPeer});
}

// A group is being made, in which it may be well: so it is not cut off yet, and may wait for this rank in this group.
TEST_F(FamiliarCore, OneThatIsTakenForDeadIsToldSo) {
    set_->expect_group();
    const auto say = [this](Seat from, std::uint64_t sequence, Rank about) {
        wire_->next_poll = [=](transport::Receiver& set) {
            set.message(from,
                        encode({.token = kGroup.token,
                                .tag = {Channel::members, MembersKind::failure_notice},
                                .sequence = sequence,
                                .detail = about.value}),
                        {}, 0);
        };
        set_->poll();
        core_.progress();
    };
    const auto answers = [this] {
        set_->poll();
        return std::ranges::count_if(wire_->sent, [](const WireHeader& header) {
            return header.tag == Tag(Channel::members, MembersKind::failure_notice) && header.sequence == kAnswered;
        });
    };
    say(Seat(1), 0, kRank);
    wire_->sent.clear();
    EXPECT_EQ(answers(), 0);
    wire_->next_poll = [](transport::Receiver& set) {
        const WireHeader header{.token = kGroup.token, .tag = {Channel::members, MembersKind::heartbeat}};
        for (int twice = 0; twice < 2; ++twice)
            set.message(kPeer, encode(header), {}, 0);
    };
    EXPECT_EQ(answers(), 1) << "two came before it could be told";
    EXPECT_EQ(wire_->sent.back().detail, kRank.value) << "it is told of itself";
    wire_->sent.clear();
    // Both have given each other up.
    say(kPeer, kAnswered, Rank(1));
    EXPECT_EQ(answers(), 0);
    set_->expect_no_more();
}

}  // namespace
}  // namespace coppice::engine
