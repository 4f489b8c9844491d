// What the proof of Lemma 3 counts (PPoPP'19, Appendix A, Figure 13, Equations 4 and 5): the messages that one member
// sends which has a gap beside it, until it is stopped. On a star, whose dissemination leaves out the dead and nobody
// else.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "simulation/broadcast_simulation.hpp"
#include "simulation/checker.hpp"

namespace coppice::simulation {
namespace {

constexpr std::uint32_t kProcesses = 200;

struct Corrected {
    Step lasted = 0;  // until all is quiet, from the start of the correction
    // By position: how many corrections, and when the last of them began.
    std::vector<std::uint32_t> sent;
    std::vector<Step> last_begun;
};

// The dead are the ranges [first, first + length).
Corrected correct(const LogP& model, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& gaps) {
    const auto simulator = make_simulator({.processes = kProcesses,
                                           .tree = *topology::parse_tree("star"),
                                           .correction = *protocol::parse_correction("checked:synchronized"),
                                           .model = model})
                               .value();
    Faults faults;
    std::uint32_t largest = 0;
    for (const auto& [first, length] : gaps) {
        for (std::uint32_t position = first; position < first + length; ++position)
            faults.dead.push_back(Position{position});
        largest = std::max(largest, length);
    }
    const auto outcome = simulator->run(faults, 1);
    EXPECT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->gaps.largest, largest);
    Corrected corrected{outcome->quiescence_latency - *simulator->correction_start(),
                        std::vector<std::uint32_t>(kProcesses), std::vector<Step>(kProcesses)};
    for (const Event& event : simulator->conversation(faults, 1, SIZE_MAX)) {
        if (event.what != Event::What::send || !event.kind_name.starts_with("correction")) continue;
        ++corrected.sent[event.from.value];
        corrected.last_begun[event.from.value] = event.time - *simulator->correction_start();
    }
    return corrected;
}

// Every gap up to 16 and L up to 9 o, o up to 4. (Where o does not divide L a member sends one message more:
// lemmas_test.cpp.)
template <class Use>
void for_models_and_gaps(Use&& use) {
    for (Step overhead = 1; overhead <= 4; ++overhead) {
        for (Step factor = 1; factor <= 9; ++factor) {
            for (std::uint32_t gap = 1; gap <= 16; ++gap) {
                SCOPED_TRACE(::testing::Message() << "o=" << overhead << " L=" << factor * overhead << " gap " << gap);
                use(LogP{.latency = factor * overhead, .overhead = overhead}, gap);
            }
        }
    }
}

std::uint32_t rounded_up(std::uint32_t a, std::uint32_t b) {
    return (a + b - 1) / b;
}

// `count` messages one after the other, and then the last one's way: delivered in L + o, or dropped by the dead in L.
void expect_to_last(const Corrected& corrected, std::uint32_t position, std::uint32_t count, const LogP& model) {
    EXPECT_EQ(corrected.sent[position], count);
    EXPECT_EQ(corrected.last_begun[position], (count - 1) * model.overhead);
    EXPECT_GE(corrected.lasted, count * model.overhead + model.latency);
    EXPECT_LE(corrected.lasted, (count + 1) * model.overhead + model.latency);
}

// n_ll: how many messages l, on the left of the only gap, sends to its own left before it is stopped there.
std::uint32_t stopped_after(const LogP& model) {
    return rounded_up(3 * model.overhead + model.latency, 2 * model.overhead);
}

// Figure 13b: l and c are beside the only gap. If it is long enough, l is stopped on its left before it has crossed the
// gap, and from then on sends to the right alone.
TEST(Equation4, CSendsThatManyMessagesBesideAGapThatOutlastsTheOtherDirection) {
    for_models_and_gaps([](const LogP& model, std::uint32_t gap) {
        if (stopped_after(model) > gap) return;
        const std::uint32_t n_1 =
            gap + 3 + model.latency / model.overhead + rounded_up(model.overhead + model.latency, 2 * model.overhead);
        expect_to_last(correct(model, {{100, gap}}), 100 + gap, n_1, model);
    });
}

TEST(Equation5, CSendsThatManyMessagesBesideAShorterGap) {
    for_models_and_gaps([](const LogP& model, std::uint32_t gap) {
        if (stopped_after(model) <= gap) return;
        const std::uint32_t n_2 = gap + 3 + model.latency / model.overhead + gap;
        expect_to_last(correct(model, {{100, gap}}), 100 + gap, n_2, model);
    });
}

// Figure 13a, the upper bound: c has a gap on either side, and so have those beyond. It sends for n o <= 2 o g_max + 3
// o + L.
TEST(Figure13, CBetweenTwoGapsIsStoppedLastAndWithinTheUpperBound) {
    for_models_and_gaps([](const LogP& model, std::uint32_t gap) {
        constexpr std::uint32_t c = 100;
        const Corrected corrected =
            correct(model, {{c - 2 * gap - 1, gap}, {c - gap, gap}, {c + 1, gap}, {c + gap + 2, gap}});
        const std::uint32_t n = 2 * gap + 3 + model.latency / model.overhead;
        expect_to_last(corrected, c, n, model);
        EXPECT_EQ(*std::max_element(corrected.last_begun.begin(), corrected.last_begun.end()), corrected.last_begun[c]);
        // Its last message may find its receiver's port taken by one from the other side: o more.
        EXPECT_EQ(checked_latency_bounds(model, gap).most, (n + 2) * model.overhead + model.latency);
    });
}

}  // namespace
}  // namespace coppice::simulation
