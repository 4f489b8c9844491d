#include "papers.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "line_broadcast.hpp"
#include "simulation/checker.hpp"
#include "simulation/simulation.hpp"
#include "support/text.hpp"

namespace coppice::simulation::testing {
namespace {

using coppice::testing::number;
using coppice::testing::split;
using protocol::CorrectionKind;
using protocol::CorrectionSpec;

// `both_sides` is how many corrections a member sends on both sides together.
CorrectionSpec correction_of(const std::string& name, std::uint32_t both_sides) {
    if (name.starts_with("phased_checked_")) return {.kind = CorrectionKind::checked, .synchronized = true};
    if (name.starts_with("checked_")) return {.kind = CorrectionKind::checked};
    if (name.starts_with("optimized_")) return {.kind = CorrectionKind::optimized_paper, .distance = both_sides / 2};
    if (name.starts_with("opportunistic_")) {
        return {.kind = CorrectionKind::opportunistic_paper, .distance = both_sides / 2};
    }
    if (name.starts_with("ack_")) return {.kind = CorrectionKind::acknowledged};
    return {.kind = CorrectionKind::none};
}

topology::TreeSpec tree_of(const std::string& name, std::uint32_t order, const LogP& model) {
    topology::TreeSpec spec;
    if (name.find("kary") != std::string::npos) spec.shape = topology::TreeShape::kary;
    if (name.find("lame") != std::string::npos) spec.shape = topology::TreeShape::lame;
    if (name.find("optimal") != std::string::npos) spec.shape = topology::TreeShape::optimal;
    if (name.find("inorder") != std::string::npos) spec.numbering = topology::Numbering::in_order;
    spec.order = order;
    spec.latency = model.latency;
    spec.overhead = model.overhead;
    return spec;
}

template <class Machine, class Make>
Outcome run(const PapersRow& row, const Make& make) {
    Checker checker;
    checker.expect(row.model, row.processes, Promise{.refuses_nothing = true});
    Simulation<Machine, Checker> simulation(row.model, row.processes);
    Outcome outcome = simulation.run(row.faults, make, checker);
    if (!checker.violation().empty()) throw std::runtime_error(checker.violation());
    return outcome;
}

}  // namespace

std::vector<PapersRow> read_papers(const std::string& file) {
    std::ifstream stream(file);
    std::vector<PapersRow> rows;
    for (std::string line; std::getline(stream, line);) {
        if (line.starts_with('#') || line.starts_with('L')) continue;
        const std::vector<std::string> cells = split(line, ',');
        PapersRow row;
        row.text = line;
        row.model = {.latency = number(cells[0]), .overhead = number(cells[1]), .overlap = cells[2] == "2"};
        row.processes = number(cells[3]);
        row.tree = tree_of(cells[4], number(cells[5]), row.model);
        row.correction = correction_of(cells[4], number(cells[6]));
        row.line = !row.correction.synchronized && (row.correction.kind == CorrectionKind::checked ||
                                                    row.correction.kind == CorrectionKind::opportunistic_paper);
        for (const std::string& dead : split(cells[7], ';'))
            row.faults.dead.push_back(Position{number(dead)});
        row.messages = std::stoull(cells[8]);
        row.coloring = number(cells[9]);
        row.total = number(cells[10]);
        row.reached = number(cells[11]);
        rows.push_back(std::move(row));
    }
    return rows;
}

Outcome simulate(const PapersRow& row, const CorrectionSpec& correction, bool line) {
    protocol::BroadcastPlan plan{*topology::Tree::make(row.tree, row.processes), correction};
    if (correction.synchronized) {
        plan.correction_start = protocol::dissemination_end(plan.tree, row.model.latency, row.model.overhead);
    }
    if (line) {
        return run<LineBroadcast>(row, [&plan](Position position, const protocol::FailedSet& failed) {
            return LineBroadcast(plan, position, failed);
        });
    }
    return run<protocol::Broadcast>(row, [&plan](Position position, const protocol::FailedSet& failed) {
        return protocol::Broadcast(plan, position, 0, failed, position.value == 0);
    });
}

}  // namespace coppice::simulation::testing
