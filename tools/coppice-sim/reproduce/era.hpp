// What the figures of SC'15 (Herault et al.) have in common.
#pragma once

#include <string>

#include "reproduce/catalogue.hpp"

namespace coppice::sim {

using simulation::AgreementAlgorithm;
using simulation::Step;

// How long after a death all others are told, steps: many times an agreement's latency, as a detector takes.
inline constexpr Step kEraNotice = 2000;

inline Point era_point(const std::string& series, double x, std::uint32_t ranks, AgreementProtocol protocol) {
    Point point{.series = series, .x = x, .cell = Cell{.protocol = std::move(protocol), .ranks = ranks}};
    point.cell.model = {};
    return point;
}

inline Height era_latency(const Figures& figures, const Cell& /*cell*/) {
    return Height{figures.of(Metric::quiescence).mean()};
}

// The latency of one point over that of another, or of many.
inline double era_at(const Results& results, const std::string& series, double x) {
    return results.mean(series, x, Metric::quiescence);
}

// A sentence that cannot be judged here, and why.
inline Claim not_judged(std::string text, std::string where, std::string why) {
    return {.text = std::move(text),
            .where = std::move(where),
            .measured = "",
            .measure = [](const Results&) { return std::optional<double>(); },
            .remark = std::move(why)};
}

}  // namespace coppice::sim
