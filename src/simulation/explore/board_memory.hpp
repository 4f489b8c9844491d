// A board in ordinary memory, with the freedoms of a real one: what a dying rank has stored may show late, or never.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/published/published_agreement.hpp"

namespace coppice::simulation {

// Everybody's memory.
struct BoardMemory {
    BoardMemory(std::uint32_t ranks, std::uint32_t window)
        : lines(ranks, std::vector<Line>(std::size_t{2} * window)),
          summaries(ranks, std::vector<SummaryLine>(std::size_t{2} * window)),
          logs(ranks),
          recoveries(ranks),
          shut_out(ranks) {}

    struct Line {
        std::uint64_t stamp = 0;
        std::uint8_t operation = 0;
        bool change_waits = false;
        std::uint32_t acknowledged = 0;
        std::vector<std::byte> value;
    };
    struct SummaryLine {
        std::uint64_t stamp = 0;
        std::uint64_t period = 0;
        protocol::Summary summary;  // its value is the next one
        std::vector<std::byte> value;
    };
    std::vector<std::vector<Line>> lines;
    std::vector<std::vector<SummaryLine>> summaries;
    std::vector<std::vector<std::uint32_t>> logs;
    std::vector<std::uint64_t> recoveries;
    std::vector<bool> shut_out;
};

// One rank's view of it.
class BoardView final : public protocol::ContributionBoard {
  public:
    BoardView(BoardMemory& memory, std::uint32_t self) : memory_(memory), self_(self) {}

    void publish(std::uint64_t sequence, const protocol::Contribution& contribution) override {
        BoardMemory::Line line{
            sequence + 1, contribution.operation, contribution.change_waits, contribution.acknowledged, {}};
        line.value.assign(contribution.value.begin(), contribution.value.end());
        if (dying_) {
            late_ = {sequence, std::move(line)};
        } else {
            line_of(self_, sequence) = std::move(line);
        }
    }
    bool look(std::uint32_t member, std::uint64_t sequence, protocol::Contribution& contribution) const override {
        const BoardMemory::Line& line = line_of(member, sequence);
        overtaken_ = overtaken_ || line.stamp > sequence + 1;
        if (line.stamp != sequence + 1) return false;
        contribution = {line.operation, line.change_waits, line.acknowledged, line.value};
        return true;
    }
    void publish_summary(std::uint64_t sequence, std::uint64_t period, const protocol::Summary& summary) override {
        BoardMemory::SummaryLine line{sequence + 1, period, summary, {summary.value.begin(), summary.value.end()}};
        if (dying_) {
            late_summary_ = {sequence, std::move(line)};
        } else {
            summary_line_of(self_, sequence) = std::move(line);
        }
    }
    bool look_summary(std::uint32_t speaker, std::uint64_t sequence, std::uint64_t period,
                      protocol::Summary& summary) const override {
        const BoardMemory::SummaryLine& line = summary_line_of(speaker, sequence);
        overtaken_ = overtaken_ || line.stamp > sequence + 1 || (line.stamp == sequence + 1 && line.period > period);
        if (line.stamp != sequence + 1 || line.period != period) return false;
        summary = line.summary;
        summary.value = line.value;
        return true;
    }
    void log_acknowledged(std::uint32_t failed) override { memory_.logs[self_].push_back(failed); }
    std::uint32_t logged_acknowledged(std::uint32_t member, std::uint32_t index) const override {
        return index < memory_.logs[member].size() ? memory_.logs[member][index] : UINT32_MAX;
    }
    void set_recoveries(std::uint64_t count) override { memory_.recoveries[self_] = count; }
    std::uint64_t recoveries(std::uint32_t member) const override { return memory_.recoveries[member]; }
    bool shut_out() const override { return memory_.shut_out[self_]; }

    // From now on its stores do not show, until store_late().
    void die() { dying_ = true; }
    bool store_late() {
        if (!late_ && !late_summary_) return false;
        if (late_) line_of(self_, late_->first) = late_->second;
        if (late_summary_) summary_line_of(self_, late_summary_->first) = late_summary_->second;
        late_.reset();
        late_summary_.reset();
        return true;
    }
    // It looked for a line that had been overwritten already.
    bool overtaken() const { return overtaken_; }

  private:
    BoardMemory::Line& line_of(std::uint32_t member, std::uint64_t sequence) const {
        std::vector<BoardMemory::Line>& lines = memory_.lines[member];
        return lines[sequence % lines.size()];
    }

    BoardMemory::SummaryLine& summary_line_of(std::uint32_t member, std::uint64_t sequence) const {
        std::vector<BoardMemory::SummaryLine>& lines = memory_.summaries[member];
        return lines[sequence % lines.size()];
    }

    BoardMemory& memory_;
    std::uint32_t self_;
    bool dying_ = false;
    mutable bool overtaken_ = false;
    std::optional<std::pair<std::uint64_t, BoardMemory::Line>> late_;
    std::optional<std::pair<std::uint64_t, BoardMemory::SummaryLine>> late_summary_;
};

}  // namespace coppice::simulation
