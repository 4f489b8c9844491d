// Table 1 of PPoPP'19, re-measured by an independent model (10,000 broadcasts for each tree and rate), against far
// fewer broadcasts here. Sampling error is not argued away: means are compared at 4.5 standard errors, and a percentile
// is contradicted only by a count that has a chance of less than 1 in 10,000 if the percentile is right within one
// step.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "simulation/broadcast_simulation.hpp"
#include "simulation/faults.hpp"

namespace coppice::simulation {
namespace {

constexpr std::uint32_t kProcesses = 65536;
constexpr std::uint64_t kRuns = 40;  // for each tree and rate
constexpr double kUnlikely = 1e-4;

struct Row {
    std::string tree;
    double percent = 0;
    std::uint32_t failed = 0;
    std::array<double, 2> gap{};         // 99 %, 99.9 %
    std::array<double, 2> correction{};  // 99 %, 99.9 %
    double correction_mean = 0;
    double deviation = 0;
    double messages_mean = 0;
};

std::vector<Row> reference() {
    std::ifstream file(SIMULATION_TEST_SOURCES "/data/table1.csv");
    std::vector<Row> rows;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with('#') || line.starts_with("tree")) continue;
        std::stringstream stream(line);
        std::vector<std::string> cells;
        for (std::string cell; std::getline(stream, cell, ',');)
            cells.push_back(cell);
        const auto number = [&cells](std::size_t i) { return std::stod(cells.at(i)); };
        rows.push_back({cells[0],
                        number(1),
                        static_cast<std::uint32_t>(number(2)),
                        {number(4), number(5)},
                        {number(7), number(8)},
                        number(10),
                        number(14),
                        number(16)});
    }
    return rows;
}

// The chance of at least `count` of `trials` when each has the chance `share`.
double chance_of_at_least(std::uint64_t count, std::uint64_t trials, double share) {
    double below = 0;
    double term = std::pow(1 - share, static_cast<double>(trials));
    for (std::uint64_t i = 0; i < count; ++i) {
        below += term;
        term *= static_cast<double>(trials - i) / static_cast<double>(i + 1) * share / (1 - share);
    }
    return 1 - below;
}

struct Sample {
    std::vector<double> gaps;
    std::vector<double> corrections;
    std::vector<double> messages;
};

Sample measure(const char* tree, std::uint32_t failed) {
    const auto simulator = make_simulator({.processes = kProcesses,
                                           .tree = *topology::parse_tree(tree),
                                           .correction = *protocol::parse_correction("checked:synchronized")})
                               .value();
    const FaultPlan plan{.dead_count = failed};
    Sample sample;
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
        const Outcome outcome = simulator->run(plan.draw(kProcesses, seed), seed).value();
        EXPECT_TRUE(outcome.unreached.empty());
        sample.gaps.push_back(outcome.gaps.largest);
        sample.corrections.push_back(outcome.quiescence_latency - *simulator->correction_start());
        sample.messages.push_back(static_cast<double>(outcome.messages) / kProcesses);
    }
    return sample;
}

double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values)
        sum += value;
    return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
    double squares = 0;
    for (const double value : values)
        squares += (value - mean(values)) * (value - mean(values));
    return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// Values above the percentile (of `share`) must be no more than `share`, and those above the value two below no fewer.
void expect_percentile(const std::vector<double>& values, double percentile, double share) {
    std::uint64_t above = 0;
    std::uint64_t not_far_below = 0;
    for (const double value : values) {
        if (value > percentile + 1) ++above;
        if (value > percentile - 2) ++not_far_below;
    }
    EXPECT_GE(chance_of_at_least(above, values.size(), share), kUnlikely) << above << " above " << percentile << " + 1";
    const double as_few = 1 - chance_of_at_least(not_far_below + 1, values.size(), share);
    EXPECT_GE(as_few, kUnlikely) << not_far_below << " above " << percentile << " - 2";
}

const std::map<std::string, const char*> kTrees{
    {"binomial", "binomial"}, {"lame", "lame:2"}, {"kary", "kary:4"}, {"optimal", "optimal"}};

TEST(Table1, GapsAndCorrectionTimesAreDistributedAsReMeasured) {
    const std::vector<Row> rows = reference();
    ASSERT_EQ(rows.size(), 25U);
    std::map<double, Sample> all;
    for (const Row& row : rows) {
        SCOPED_TRACE(row.tree + " " + std::to_string(row.percent) + " %");
        if (row.tree == "ALL") {
            const Sample& sample = all[row.percent];
            expect_percentile(sample.gaps, row.gap[0], 0.01);
            expect_percentile(sample.gaps, row.gap[1], 0.001);
            expect_percentile(sample.corrections, row.correction[0], 0.01);
            expect_percentile(sample.corrections, row.correction[1], 0.001);
            continue;
        }
        const Sample sample = measure(kTrees.at(row.tree), row.failed);
        const double root = std::sqrt(static_cast<double>(kRuns));
        EXPECT_NEAR(mean(sample.corrections), row.correction_mean, 4.5 * row.deviation / root);
        // Once in a while a large subtree is lost, and this sample's deviation does not know it.
        EXPECT_NEAR(mean(sample.messages), row.messages_mean, 4.5 * deviation(sample.messages) / root + 0.005);
        Sample& sum = all[row.percent];
        sum.gaps.insert(sum.gaps.end(), sample.gaps.begin(), sample.gaps.end());
        sum.corrections.insert(sum.corrections.end(), sample.corrections.begin(), sample.corrections.end());
    }
}

}  // namespace
}  // namespace coppice::simulation
