// What is written of an experiment: NAME.csv, NAME.plot.json (from which plot.py draws NAME.svg and NAME.png) and
// NAME.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reproduce/experiment.hpp"

namespace coppice::sim {

struct Written {
    std::string scale;  // "--quick", "", "--full"
    unsigned threads = 1;
};

std::string csv_of(const Study& experiment, const Results& results);
std::string plot_of(const Study& experiment, const Results& results);
std::string summary_of(const Study& experiment, const Results& results, const std::vector<Judgement>& judgements,
                       const Written& written);

// A line for each experiment: how many of its claims hold.
struct Line {
    std::string name;
    std::string title;
    std::string source;
    std::vector<Judgement> judgements;
};
std::string overview_of(const std::vector<Line>& lines);

// How long the paper's number of broadcasts, 10^5 for each point, would take, in a sentence.
std::string projection_of(const Results& results, unsigned threads);

std::string count_of(const std::vector<Judgement>& judgements);

// Draws them. A sentence if that was not possible: what is missing, and which package has it.
std::optional<std::string> draw_plots(const std::vector<std::filesystem::path>& plots);

}  // namespace coppice::sim
