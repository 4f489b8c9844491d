// The ring beyond the offset 64, up to which members heard from are remembered one by one: long runs of dead members,
// which are noticed late, and members on the far side of them that speak and die.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "topology/ring.hpp"
#include "world.hpp"

namespace coppice::protocol::testing {
namespace {

BroadcastPlan plan(const char* tree, std::uint32_t processes, const char* correction) {
    return {*topology::Tree::make(*topology::parse_tree(tree), processes), *parse_correction(correction),
            Nanoseconds{5}};
}

// Member 100 of a chain of 200, which has no child that it has not sent to.
struct Member {
    explicit Member(const char* correction)
        : ring(plan("chain", 200, correction)), machine(ring, Position{100}, 0, failed, false) {
        EXPECT_TRUE(machine.receive({MessageKind::tree, Position{99}, Position{100}, 0}));
    }
    void hear_from(std::uint32_t position) {
        const auto kind = position < 100 ? MessageKind::correction_right : MessageKind::correction_left;
        EXPECT_TRUE(machine.receive({kind, Position{position}, Position{100}, 0}));
    }
    void fail(std::uint32_t position) {
        failed.insert(position);
        machine.peer_failed(Position{position});
    }
    // Where it sends corrections to, by `now`.
    std::vector<std::uint32_t> sends(MessageKind kind, std::uint64_t now = 0) {
        std::vector<std::uint32_t> to;
        while (const auto message = machine.next_send(Nanoseconds{now})) {
            if (message->kind == kind) to.push_back(message->to.value);
        }
        return to;
    }

    BroadcastPlan ring;
    FailedSet failed;
    Broadcast machine;
};

TEST(FarOffsets, CheckedStopsAtTheNearestAndGoesOnWhenThatOneDies) {
    Member member("checked");
    member.hear_from(20);
    member.hear_from(30);
    member.hear_from(10);
    member.hear_from(180);
    member.hear_from(170);
    member.hear_from(190);
    std::uint32_t nearest_left = 100;
    std::uint32_t nearest_right = 100;
    while (const auto message = member.machine.next_send(Nanoseconds{0})) {
        if (message->kind == MessageKind::correction_left) nearest_left = message->to.value;
        if (message->kind == MessageKind::correction_right) nearest_right = message->to.value;
    }
    EXPECT_EQ(nearest_left, 30U);
    EXPECT_EQ(nearest_right, 170U);
    member.fail(170);
    EXPECT_EQ(member.sends(MessageKind::correction_right).front(), 171U);
}

TEST(FarOffsets, CheckedGoesOnToTheLeftWhenTheNearestThereDies) {
    Member member("checked");
    member.hear_from(30);
    member.hear_from(120);
    EXPECT_EQ(member.sends(MessageKind::correction_left).back(), 30U);
    member.fail(30);
    EXPECT_EQ(member.sends(MessageKind::correction_left).front(), 29U);
}

TEST(FarOffsets, TheLastThatIsRememberedIsForgottenWhenItDies) {
    Member member("checked");
    member.hear_from(36);
    member.hear_from(35);
    member.hear_from(164);
    EXPECT_EQ(member.sends(MessageKind::correction_left).back(), 36U);
    member.fail(36);
    EXPECT_EQ(member.sends(MessageKind::correction_left), std::vector<std::uint32_t>{35});
}

TEST(FarOffsets, DelayedStopsASenderThatIsFarToTheLeft) {
    Member member("delayed:10");
    member.hear_from(101);
    (void)member.sends(MessageKind::correction_left);
    member.hear_from(30);
    EXPECT_EQ(member.sends(MessageKind::correction_left), std::vector<std::uint32_t>{30});
    EXPECT_TRUE(member.sends(MessageKind::correction_left).empty()) << "once";
}

TEST(FarOffsets, DelayedGoesOnWhenAFarStopDies) {
    Member member("delayed:10");
    member.hear_from(180);
    EXPECT_TRUE(member.sends(MessageKind::correction_right, 20).empty());
    member.fail(180);
    EXPECT_EQ(member.sends(MessageKind::correction_right, 20).front(), 101U);
}

// Its death would not be taken back.
TEST(FarOffsets, OptimizedLeavesNothingToAMemberThatIsFarAway) {
    for (const std::uint32_t far : {35U, 165U}) {
        Member member("optimized:90");
        member.hear_from(far);
        EXPECT_EQ(member.sends(MessageKind::correction_left).size(), 89U) << far << "; 99 is its parent";
    }
    Member member("optimized:90");
    member.hear_from(164);
    EXPECT_LT(member.sends(MessageKind::correction_right).size(), 80U) << "the last that it may rely on";
    member.fail(164);
    EXPECT_GT(member.sends(MessageKind::correction_right).size(), 20U) << "and that is taken back";
}

template <class... Parts>
std::string words(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
}

struct Far {
    const char* tree;
    const char* correction;
};

void PrintTo(const Far& far, std::ostream* out) {
    *out << far.correction << " over " << far.tree;
}

// Few members live, far from each other; nobody is told of the many that are dead from the start. Most of them have the payload from the root.
// They are fast or slow, and speak or listen rather; some die in the course of it.
class Sparse {
  public:
    static constexpr std::uint32_t kProcesses = 400;

    Sparse(const Far& far, std::uint32_t seed)
        : random_(seed),
          ring_(plan(far.tree, kProcesses, far.correction)),
          world_(ring_, static_cast<std::uint32_t>(random_() % kProcesses), seed),
          members_(kProcesses) {
        draw_the_living();
        for (std::uint32_t position = 0; position < kProcesses; ++position) {
            if (std::ranges::find(living_, position) == living_.end()) world_.crash(position);
        }
    }

    // The first thing that was wrong; empty if nothing was.
    std::string run() {
        const std::uint32_t deaths = 1 + static_cast<std::uint32_t>(random_() % 2);
        for (std::uint32_t death = 0; death < deaths; ++death) {
            for (std::uint64_t most = random_() % 1500; most > 0 && relied_on().empty(); --most)
                act(1);
            act(random_() % 3 == 0 ? random_() % 1500 : random_() % 50);
            crash_someone();
        }
        act(random_() % 500);
        finish();
        if (wrong_.empty()) check_the_end();
        return wrong_.empty() ? world_.violation() : wrong_;
    }

  private:
    struct Member {
        std::uint32_t speed = 1;
        std::uint32_t speaks = 1;  // of 16 times
        std::vector<std::uint32_t> heard[2];
        std::vector<bool> sent_to = std::vector<bool>(kProcesses);
        bool corrects = false;
    };
    static constexpr std::size_t kLeft = 0;
    static constexpr std::size_t kRight = 1;

    static std::uint32_t offset(std::uint32_t from, std::size_t side, std::uint32_t to) {
        return side == kLeft ? topology::distance_left(Position{from}, Position{to}, kProcesses)
                             : topology::distance_right(Position{from}, Position{to}, kProcesses);
    }
    bool is_checked() const { return ring_.correction.kind == CorrectionKind::checked; }
    bool is_delayed() const { return ring_.correction.kind == CorrectionKind::delayed; }

    // Each 60 to 90 from one that is there already, and often the root's child.
    void draw_the_living() {
        living_ = {0};
        const std::size_t wanted = 4 + random_() % 4;
        std::uint32_t last = static_cast<std::uint32_t>(random_() % kProcesses);
        while (living_.size() < wanted) {
            if (last != 0 && std::ranges::find(living_, last) == living_.end()) living_.push_back(last);
            // One that only corrections reach is nearer, to be in the range of both.
            const bool is_served = random_() % 3 != 0;
            std::uint32_t next = last;
            for (int tries = 0; tries < 32; ++tries) {
                const std::uint32_t far = random_() % 3 == 0 ? 64 : 61 + static_cast<std::uint32_t>(random_() % 20);
                const std::uint32_t by = is_served ? far : 1 + static_cast<std::uint32_t>(random_() % 60);
                next = (last + (random_() % 2 == 0 ? by : kProcesses - by)) % kProcesses;
                if (is_child_of_root(next) == is_served) break;
            }
            last = next;
        }
        for (const std::uint32_t position : living_) {
            members_[position].speed = 1U << 2 * (random_() % 4);
            members_[position].speaks = std::array{1U, 8U, 15U}[random_() % 3];
        }
    }
    bool is_child_of_root(std::uint32_t position) const {
        return position != 0 && world_.tree().parent(Position{position}) == Position{0};
    }

    void act(std::uint64_t times) {
        for (; times > 0 && wrong_.empty(); --times) {
            std::uint32_t speeds = 0;
            for (const std::uint32_t position : living_)
                speeds += members_[position].speed;
            auto drawn = static_cast<std::uint32_t>(random_() % speeds);
            std::size_t i = 0;
            for (; drawn >= members_[living_[i]].speed; ++i)
                drawn -= members_[living_[i]].speed;
            const std::uint32_t position = living_[i];
            if (random_() % 16 == 0) world_.pass_time(position);
            if (random_() % 16 == 0 && !dead_.empty()) world_.learn(position, dead_[random_() % dead_.size()]);
            if (random_() % 16 < members_[position].speaks)
                speak(position);
            else
                listen(position);
        }
    }

    // Those that others than the root have heard from far away.
    std::vector<std::uint32_t> relied_on() const {
        std::vector<std::uint32_t> senders;
        for (const std::uint32_t position : living_) {
            for (const std::size_t side : {kLeft, kRight}) {
                for (const std::uint32_t from : members_[position].heard[side]) {
                    const bool is_far = offset(position, side, from) >= 60;
                    if (position != 0 && from != 0 && is_far && !world_.is_dead(from)) senders.push_back(from);
                }
            }
        }
        return senders;
    }

    void crash_someone() {
        const auto senders = relied_on();
        const bool is_any = senders.empty() || random_() % 4 == 0;
        crash(is_any ? living_[1 + random_() % (living_.size() - 1)] : senders[random_() % senders.size()]);
    }

    void crash(std::uint32_t position) {
        world_.crash(position);
        dead_.push_back(position);
        std::erase(living_, position);
    }

    // All is said and heard, and all have learned of those that died in the course of it.
    void finish() {
        bool goes_on = true;
        while (goes_on && wrong_.empty()) {
            goes_on = false;
            for (const std::uint32_t position : living_) {
                for (const std::uint32_t dead : dead_) {
                    goes_on |= !world_.knows(position, dead);
                    world_.learn(position, dead);
                }
                while (wrong_.empty() && (speak(position) || listen(position) || world_.pass_time(position)))
                    goes_on = true;
            }
        }
    }

    bool speak(std::uint32_t position) {
        const auto message = world_.pull(position);
        if (!message) return false;
        under_way_.push_back(*message);
        const std::uint32_t to = message->to.value;
        Member& member = members_[position];
        if (message->kind == MessageKind::correction_left || message->kind == MessageKind::correction_right) {
            const std::size_t side = message->kind == MessageKind::correction_left ? kLeft : kRight;
            member.corrects = true;
            member.sent_to[to] = true;
            const std::uint32_t nearest = nearest_heard(position, side);
            const bool stops = is_checked() && nearest != 0 && !world_.knows(position, at(position, side, nearest));
            if (stops && offset(position, side, to) > nearest)
                wrong_ = words(position, " sends to ", to, ", beyond the nearest it has heard from, ",
                               at(position, side, nearest));
        }
        if (world_.is_dead(to)) arrive(under_way_.size() - 1);
        return true;
    }

    // What comes to it, in any order.
    bool listen(std::uint32_t position) {
        std::vector<std::size_t> arriving;
        for (std::size_t i = 0; i < under_way_.size(); ++i)
            if (under_way_[i].to.value == position) arriving.push_back(i);
        if (arriving.empty()) return false;
        const auto message = arrive(arriving[random_() % arriving.size()]);
        if (!message) return true;
        Member& member = members_[position];
        if (message->kind == MessageKind::correction_left) member.heard[kRight].push_back(message->from.value);
        if (message->kind != MessageKind::correction_right) return true;
        member.heard[kLeft].push_back(message->from.value);
        if (!is_delayed() || !member.corrects) return true;
        while (speak(position))
            ;
        if (wrong_.empty() && !member.sent_to[message->from.value])
            wrong_ = words(position, " does not stop ", message->from.value);
        return true;
    }

    std::optional<Message> arrive(std::size_t index) {
        const auto message = world_.deliver(index);
        under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(index));
        return message;
    }

    static std::uint32_t at(std::uint32_t position, std::size_t side, std::uint32_t offset) {
        return (side == kLeft ? position + kProcesses - offset : position + offset) % kProcesses;
    }
    // Of all, or of those that live; 0 if there is none.
    std::uint32_t nearest_heard(std::uint32_t position, std::size_t side, bool lives = false) const {
        std::uint32_t nearest = 0;
        for (const std::uint32_t from : members_[position].heard[side]) {
            const std::uint32_t far = offset(position, side, from);
            if ((!lives || !world_.is_dead(from)) && (nearest == 0 || far < nearest)) nearest = far;
        }
        return nearest;
    }

    void check_the_end() {
        for (const std::uint32_t position : living_) {
            if (world_.machine(position).result() == BroadcastResult::pending && world_.machine(position).colored())
                wrong_ = words(position, " does not end");
            for (const std::uint32_t other : living_)
                if (other != position) check_duty(position, other);
        }
    }

    void check_duty(std::uint32_t position, std::uint32_t other) {
        const bool has_it = world_.machine(other).colored();
        if (is_checked() || is_delayed()) {
            if (!has_it) wrong_ = words(other, " is not reached");
        } else {
            const std::uint32_t right = offset(position, kRight, other);
            const std::uint32_t left = ring_.correction.one_directional ? right : offset(position, kLeft, other);
            if (world_.machine(position).colored() && std::min(left, right) <= ring_.correction.distance && !has_it)
                wrong_ = words(other, " is not reached from ", position);
        }
        if (!is_checked() || !members_[position].corrects) return;
        for (const std::size_t side : {kLeft, kRight}) {
            const std::uint32_t nearest = nearest_heard(position, side, true);
            const bool is_its = nearest == 0 || offset(position, side, other) <= nearest;
            if (is_its && !members_[position].sent_to[other]) wrong_ = words(position, " has not sent to ", other);
        }
    }

    std::mt19937 random_;
    BroadcastPlan ring_;
    World world_;
    std::vector<Member> members_;
    std::vector<std::uint32_t> living_;
    std::vector<std::uint32_t> dead_;  // in the course of it
    std::vector<Message> under_way_;   // as in the world
    std::string wrong_;
};

class FarOffsetsIn : public ::testing::TestWithParam<Far> {};
INSTANTIATE_TEST_SUITE_P(Rings, FarOffsetsIn,
                         ::testing::Values(Far{"star", "checked:synchronized"}, Far{"star", "delayed:3"},
                                           Far{"kary:100", "checked"}, Far{"kary:100", "delayed:3"},
                                           Far{"kary:100", "optimized:80"},
                                           Far{"kary:100", "optimized:90:one-directional"},
                                           Far{"kary:100", "opportunistic:80"}, Far{"kary:4", "checked"},
                                           Far{"kary:4", "delayed:3"}, Far{"kary:4", "optimized:80"}));

// Each reaches whom it has to reach, and nobody beyond those that it has heard from, as long as these live.
TEST_P(FarOffsetsIn, SendersFarAwayAreReliedOnUntilTheyDie) {
    for (std::uint32_t seed = 1; seed <= 600; ++seed)
        ASSERT_EQ(Sparse(GetParam(), seed).run(), "") << seed;
}

class LongGap : public ::testing::TestWithParam<Far> {};
INSTANTIATE_TEST_SUITE_P(Rings, LongGap,
                         ::testing::Values(Far{"star", "checked"}, Far{"star", "checked:synchronized"},
                                           Far{"star", "delayed:3"}, Far{"star", "optimized:80"},
                                           Far{"star", "optimized:90:one-directional"}, Far{"star", "opportunistic:80"},
                                           Far{"kary:4", "checked"}, Far{"kary:4", "delayed:3"},
                                           Far{"kary:4", "optimized:80"}));

// A run of 66 to 89 members is dead and nobody knows; live ones beside it, and within, die while the others correct.
TEST_P(LongGap, EveryLiveMemberIsReachedWhicheverDieBesideIt) {
    constexpr std::uint32_t kProcesses = 140;
    for (std::uint32_t seed = 1; seed <= 4; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE(seed);
        World world(plan(GetParam().tree, kProcesses, GetParam().correction),
                    static_cast<std::uint32_t>(random() % kProcesses), seed);
        const auto length = 66 + static_cast<std::uint32_t>(random() % 24);
        const auto first = 2 + static_cast<std::uint32_t>(random() % (kProcesses - length - 4));
        const std::uint32_t spared = first + static_cast<std::uint32_t>(random() % length);
        for (std::uint32_t position = first; position < first + length; ++position) {
            if (position != spared) world.crash(position);
        }
        const std::uint64_t steps = random() % 3000;
        for (std::uint64_t step = 0; step < steps && world.step(random, false); ++step)
            ;
        world.crash(first - 1);
        world.settle(random, random() % 2 == 0);
        world.crash(first + length);
        world.settle(random, true);
        ASSERT_EQ(world.violation(), "");
        ASSERT_TRUE(world.all_live_colored());
        ASSERT_TRUE(world.all_live_ended());
    }
}

}  // namespace
}  // namespace coppice::protocol::testing
