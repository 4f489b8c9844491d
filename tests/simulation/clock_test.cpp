// The clock itself, with a machine that does as it is told; and that broken machines are found out.
#include <gtest/gtest.h>

#include "simulation/checker.hpp"
#include "simulation/conversation.hpp"
#include "simulation/simulation.hpp"

namespace coppice::simulation {
namespace {

enum class Kind : std::uint8_t { tell, ring, note };
constexpr bool carries_payload(Kind kind) {
    return kind != Kind::note;
}
constexpr bool is_correction(Kind kind) {
    return kind == Kind::ring;
}
std::string_view to_string(Kind kind) {
    switch (kind) {
        case Kind::tell:
            return "tell";
        case Kind::ring:
            return "ring";
        case Kind::note:
            return "note";
    }
    return "unknown";
}

struct Note {
    Kind kind = Kind::tell;
    Position from{};
    Position to{};
};

// What every position sends, in order, each not before a step.
struct Line {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    Kind kind = Kind::tell;
    Step not_before = 0;
    std::uint32_t claims = UINT32_MAX;  // the sender that it names, if not `from`
    bool uncolored_too = false;
};
using Script = std::vector<Line>;

class Actor {
  public:
    using Message = Note;

    Actor(const Script& script, Position self) : script_(&script), self_(self), colored_(self.value == 0) {}

    bool receive(const Note& message) {
        if (message.kind == Kind::tell || message.kind == Kind::ring) colored_ = true;
        return true;
    }
    void peer_failed(Position position) { told_ = position.value; }
    std::optional<Note> next_send(Nanoseconds now) {
        wake_ = kNever;
        while (next_ < script_->size() && (*script_)[next_].from != self_.value)
            ++next_;
        if (next_ == script_->size()) return std::nullopt;
        const Line& line = (*script_)[next_];
        if (!colored_ && !line.uncolored_too) return std::nullopt;
        if (now.value < line.not_before) {
            wake_ = Nanoseconds{line.not_before};
            return std::nullopt;
        }
        ++next_;
        return Note{line.kind, Position{line.claims == UINT32_MAX ? line.from : line.claims}, Position{line.to}};
    }
    Nanoseconds next_timer() const { return wake_; }
    bool colored() const { return colored_; }
    bool finished() const { return false; }
    std::uint32_t told() const { return told_; }

  private:
    const Script* script_;
    Position self_;
    bool colored_;
    std::size_t next_ = 0;
    Nanoseconds wake_{kNever};
    std::uint32_t told_ = UINT32_MAX;
};
static_assert(protocol::Machine<Actor>);

struct Ran {
    Outcome outcome;
    std::string violation;
    std::vector<std::string> events;
    std::vector<std::uint32_t> told;
};

Ran play(const Script& script, std::uint32_t processes, const LogP& model = {}, const Faults& faults = {},
         const Promise& promise = {}, Step give_up_at = kLastStep) {
    Checker checker;
    checker.expect(model, processes, promise);
    Conversation<Checker> conversation(checker, 1000);
    Simulation<Actor, Conversation<Checker>> simulation(model, processes);
    simulation.give_up_at(give_up_at);
    Ran ran;
    ran.outcome = simulation.run(
        faults, [&](Position position, const protocol::FailedSet&) { return Actor(script, position); }, conversation);
    ran.violation = checker.violation();
    for (const Event& event : conversation.events()) {
        if (event.what != Event::What::color) ran.events.push_back(to_string(event));
    }
    for (std::uint32_t position = 0; position < processes; ++position)
        ran.told.push_back(simulation.machine(Position{position}).told());
    return ran;
}

using Events = std::vector<std::string>;

// PPoPP'19, Figure 2: o at the sender, L on the wire, o at the receiver; a process may send while it receives; what is
// sent to a failed one takes its sender as long, and is dropped.
TEST(Figure2, ReceivingAndSendingOverlapAndMessagesToTheFailedAreDropped) {
    // 2 has failed. 1 sends from 11 to 17, and receives what 0 sent at 7 from 12 to 15.
    const Script script{{0, 2}, {0, 1}, {0, 1, Kind::note, 7}, {1, 2, Kind::note}, {1, 0, Kind::note}};
    const Ran ran = play(script, 3, {.latency = 2, .overhead = 3}, {.dead = {Position{2}}});
    EXPECT_EQ(ran.events, (Events{"       0  send     0 -> 2  tell", "       3  send     0 -> 1  tell",
                                  "       7  send     0 -> 1  note", "       5  vanish   0 -> 2  tell",
                                  "      11  receive  0 -> 1  tell", "      11  send     1 -> 2  note",
                                  "      14  send     1 -> 0  note", "      15  receive  0 -> 1  note",
                                  "      16  vanish   1 -> 2  note", "      22  receive  1 -> 0  note"}));
}

TEST(Clock, AMessageTakesEffectAfterTwoOverheadsAndTheLatency) {
    const Ran ran = play({{0, 1}, {0, 2}, {1, 2, Kind::note}}, 3, {.latency = 5, .overhead = 3});
    EXPECT_EQ(ran.events, (Events{"       0  send     0 -> 1  tell", "       3  send     0 -> 2  tell",
                                  "      11  receive  0 -> 1  tell", "      11  send     1 -> 2  note",
                                  "      14  receive  0 -> 2  tell", "      22  receive  1 -> 2  note"}));
    EXPECT_EQ(ran.outcome.coloring_latency, 14U);
    EXPECT_EQ(ran.outcome.quiescence_latency, 22U);
    EXPECT_EQ(ran.outcome.messages, 3U);
    EXPECT_EQ(ran.outcome.most_sent, 2U);
    EXPECT_EQ(ran.outcome.most_received, 2U);
}

TEST(Clock, MessagesThatMeetAtAPortAreServedOneAfterTheOtherThoseOfTheRingLast) {
    // 1 and 2 are colored at 4 and 5; at 10 both send to 3, and 0 does.
    const Ran ran = play({{0, 1}, {0, 2}, {0, 3, Kind::ring, 10}, {1, 3, Kind::tell, 10}, {2, 3, Kind::tell, 10}}, 4);
    EXPECT_EQ(Events(ran.events.end() - 3, ran.events.end()),
              (Events{"      14  receive  1 -> 3  tell", "      15  receive  2 -> 3  tell",
                      "      16  receive  0 -> 3  ring"}));
}

TEST(Clock, OneSidedRingMessagesTakeNoPort) {
    const Script script{{0, 1}, {0, 2}, {0, 3, Kind::ring, 10}, {1, 3, Kind::ring, 10}, {2, 3, Kind::tell, 10}};
    const Ran ran = play(script, 4, {.one_sided_ring = true});
    EXPECT_EQ(Events(ran.events.end() - 3, ran.events.end()),
              (Events{"      13  receive  0 -> 3  ring", "      13  receive  1 -> 3  ring",
                      "      14  receive  2 -> 3  tell"}));
}

TEST(Clock, WithOnePortReceptionsComeFirst) {
    // 1 has two to send when the note of 0 arrives at 7: it is served between them.
    const Script script{
        {0, 1}, {0, 1, Kind::note, 4}, {1, 2, Kind::note}, {1, 2, Kind::note}, {1, 2, Kind::note}, {1, 2, Kind::note}};
    const auto sends_of_1 = [](const Ran& ran) {
        std::vector<std::string> steps;
        for (const std::string& event : ran.events) {
            if (event.find("send     1") != std::string::npos) steps.push_back(event.substr(6, 2));
        }
        return steps;
    };
    EXPECT_EQ(sends_of_1(play(script, 3)), (std::vector<std::string>{" 4", " 5", " 6", " 7"}));
    EXPECT_EQ(sends_of_1(play(script, 3, {.overlap = false})), (std::vector<std::string>{" 4", " 5", " 6", " 8"}));
}

TEST(Clock, AGapLargerThanTheOverheadKeepsPortsBusyLonger) {
    const Ran ran = play({{0, 1}, {0, 2}}, 3, {.latency = 2, .overhead = 1, .gap = 4});
    EXPECT_EQ(ran.events[2], "       4  send     0 -> 2  tell");
    EXPECT_EQ(ran.outcome.quiescence_latency, 8U);
}

TEST(Clock, FarStepsAreReachedInOrder) {
    const Ran ran =
        play({{0, 1, Kind::tell, 700}, {0, 1, Kind::note, 100'000}}, 2, {.latency = 3000, .overhead = 1000});
    EXPECT_EQ(ran.events, (Events{"     700  send     0 -> 1  tell", "    5700  receive  0 -> 1  tell",
                                  "  100000  send     0 -> 1  note", "  105000  receive  0 -> 1  note"}));
}

TEST(Deaths, SendsToTheDeadCostTheSameAndVanish) {
    const Ran ran = play({{0, 1}, {0, 2}}, 3, {}, {.dead = {Position{1}}});
    EXPECT_EQ(ran.events[1], "       1  send     0 -> 2  tell");
    EXPECT_EQ(ran.events[2], "       3  vanish   0 -> 1  tell");
    EXPECT_EQ(ran.outcome.failed, 1U);
    EXPECT_EQ(ran.outcome.reached, 2U);
    // An arrival at the dead costs no reception.
    EXPECT_EQ(play({{0, 1}}, 2, {}, {.dead = {Position{1}}}).outcome.quiescence_latency, 3U);
}

TEST(Deaths, AMemberThatDiesAtAStepTakesNoPartInItAndWhatItHasSentArrives) {
    const Script script{{0, 1}, {0, 2}, {0, 3}};
    const Ran ran = play(script, 4, {}, {.dying = {{Position{0}, 2}, {Position{1}, 4}}});
    EXPECT_EQ(ran.outcome.messages, 2U);
    EXPECT_EQ(ran.outcome.failed, 2U);
    EXPECT_EQ(ran.outcome.unreached, std::vector<Position>{Position{3}});
    EXPECT_EQ(ran.outcome.reached, 1U);
    EXPECT_EQ(ran.events.back(), "       5  receive  0 -> 2  tell");
}

TEST(Deaths, AreToldToEverybodyAliveAfterTheNoticeTime) {
    EXPECT_EQ(play({{0, 1}}, 3, {}, {.dying = {{Position{2}, 3}}, .notice_after = 7}).told,
              (std::vector<std::uint32_t>{2, 2, UINT32_MAX}));
    EXPECT_EQ(play({{0, 1}}, 3, {}, {.dying = {{Position{2}, 3}}}).told[0], UINT32_MAX);
    // From then on nothing is taken from it any more: sent at 4, due at 8, told at 8.
    const Ran ran = play({{0, 1}, {1, 2}}, 3, {}, {.dying = {{Position{1}, 6}}, .notice_after = 2});
    EXPECT_EQ(ran.events.back(), "       8  ignore   1 -> 2  tell");
    EXPECT_EQ(ran.outcome.unreached, std::vector<Position>{Position{2}});
}

TEST(Gaps, AreRunsNotReachedByTheDisseminationWithTheDeadOnTheRing) {
    // 2 is reached by the ring only; 3 is dead; 7 and 8 go round to nobody.
    const Ran ran = play({{0, 1}, {0, 4}, {0, 5}, {0, 6}, {0, 2, Kind::ring}}, 9, {}, {.dead = {Position{3}}});
    EXPECT_EQ(ran.outcome.gaps.largest, 2U);
    EXPECT_EQ(ran.outcome.gaps.histogram, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{2, 2}}));
    EXPECT_EQ(ran.outcome.unreached, (std::vector<Position>{Position{7}, Position{8}}));
}

TEST(Checkers, StopAMachineThatBreaksItsPromises) {
    const Promise sense{.refuses_nothing = true};
    EXPECT_EQ(play({{0, 1}, {1, 0}}, 2, {}, {}, sense).violation, "");
    EXPECT_EQ(play({{0, 1}, {1, 0, Kind::tell, 0, 2}}, 3).violation,
              "sense: position 1 sent a message in the name of 2");
    EXPECT_EQ(play({{0, 9}}, 3).violation, "sense: position 0 sent a message to 9");
    EXPECT_EQ(play({{0, 0}}, 3).violation, "sense: position 0 sent a message to 0");
    EXPECT_EQ(play({{0, 1, Kind::note}, {1, 2, Kind::tell, 0, UINT32_MAX, true}}, 3).violation,
              "integrity: position 1 sent a payload that it does not have");
    EXPECT_EQ(play({{0, 1}}, 3, {}, {}, {.covers = kAnyGap}).violation,
              "liveness: 1 live positions were not reached, 2 the first of them; the largest gap was 1");
    EXPECT_EQ(play({{0, 1}}, 3, {}, {}, {.covers = 0}).violation, "");
    const auto leaves_out = [](std::vector<Position> whom) {
        return Promise{.leaves_out = [whom](const Promise::Disseminated& /*disseminated*/) { return whom; }};
    };
    EXPECT_EQ(play({{0, 1}}, 4, {}, {}, leaves_out({Position{2}, Position{3}})).violation, "");
    EXPECT_EQ(play({{0, 1}}, 4, {}, {}, leaves_out({Position{3}})).violation,
              "liveness: position 2 was not reached, and by its promise it is");
    EXPECT_EQ(play({{0, 1}, {0, 2}}, 4, {}, {}, leaves_out({Position{2}, Position{3}})).violation,
              "liveness: position 2 was reached, and by the promise it is left out");
    EXPECT_EQ(play({{0, 1}}, 3, {}, {}, {.all_or_none = true}).violation,
              "liveness: 2 live positions have the payload and 1 have not, 2 the first of them");
    EXPECT_EQ(play({{0, 1}}, 2, {}, {}, {.finishes = true}).violation,
              "liveness: position 0 has the payload and never finished");
    EXPECT_EQ(play({{0, 1}}, 2, {}, {}, {.lemma3_start = 0}).violation, "");  // too small a ring for Lemma 3
}

TEST(Checkers, ARunCanBeGivenUp) {
    const Ran ran = play({{0, 1}, {0, 1, Kind::note, 500}}, 2, {}, {}, {}, 100);
    EXPECT_EQ(ran.outcome.messages, 1U);
}

}  // namespace
}  // namespace coppice::simulation
