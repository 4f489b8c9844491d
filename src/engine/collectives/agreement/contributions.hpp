// Contributions to agreements, in the memory that the ranks of one host show to each other (transport::Board).
//
//   recoveries | log of acknowledged failures, a word for each rank | a ring of lines, one for each agreement | a ring of summaries
//
// Every word has one writer. A line's stamp is stored last; a rank that sees it sees the line. Summaries are written where ranks publish
// in two levels, by speakers; their stamps say of which period they are, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/published/published_agreement.hpp"
#include "transport/board.hpp"

namespace coppice::engine {

class Contributions final : public protocol::ContributionBoard {
  public:
    // What it needs of that memory, for a group of `ranks` and all that are shrunk from it.
    static transport::Region host_region(std::uint32_t ranks, std::uint32_t lines);
    // `lines`: a power of two; such that what was declared is enough for a group of `ranks` (fits()).
    Contributions(transport::Board& board, std::uint32_t ranks, std::uint32_t lines);
    static bool fits(const transport::Board& board, std::uint32_t ranks, std::uint32_t lines);

    void publish(std::uint64_t sequence, const protocol::Contribution& contribution) override;
    bool look(std::uint32_t member, std::uint64_t sequence, protocol::Contribution& contribution) const override;
    void publish_summary(std::uint64_t sequence, std::uint64_t period, const protocol::Summary& summary) override;
    bool look_summary(std::uint32_t speaker, std::uint64_t sequence, std::uint64_t period,
                      protocol::Summary& summary) const override;
    void log_acknowledged(std::uint32_t failed) override;
    std::uint32_t logged_acknowledged(std::uint32_t member, std::uint32_t index) const override;
    void set_recoveries(std::uint64_t count) override;
    std::uint64_t recoveries(std::uint32_t member) const override;
    bool shut_out() const override;

    // Soon this rank will contribute to `sequence`: the line's cache line may be fetched meanwhile. A hint.
    void will_publish(std::uint64_t sequence);

    // What a look at a line or a summary of so many bytes reads of a member's region, to count it.
    struct Bytes {
        std::size_t at = 0;
        std::size_t bytes = 0;
    };
    Bytes bytes_of_line(std::uint64_t sequence, std::size_t value) const;
    Bytes bytes_of_summary(std::uint64_t sequence, std::size_t value) const;

  private:
    struct Line;
    struct SummaryLine;
    std::size_t line_at(std::uint64_t sequence) const;
    std::size_t summary_at(std::uint64_t sequence) const;

    transport::Board& board_;
    transport::Regions::Place region_;
    std::uint32_t ranks_;
    std::uint32_t lines_;
    std::size_t lines_at_;
    std::uint32_t logged_ = 0;
};

}  // namespace coppice::engine
