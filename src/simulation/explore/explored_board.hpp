// The board of a group that is explored: what each rank has published, as a page; pages are numbered. One object serves
// all machines: it is told whose turn it is, and what that one finds.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "protocol/published/published_agreement.hpp"
#include "simulation/explore/agreement_explorer.hpp"
#include "simulation/explore/explored_value.hpp"

namespace coppice::simulation {

// What one rank has published. The values follow from rank, agreement and what it had acknowledged.
struct BoardPage {
    std::uint8_t published = 0;  // contributions to all agreements below
    std::uint8_t recoveries = 0;
    std::uint8_t logged = 0;
    std::array<std::uint8_t, kMostAgreements> acknowledged{};  // how long the log was when each was published
    std::array<std::uint8_t, kMostExplored> log{};
    // Where ranks publish in two levels: in which period its summary of each agreement was published, + 1, and the number of
    // what it says, low and high byte.
    std::array<std::uint8_t, kMostAgreements> period{};
    std::array<std::array<std::uint8_t, 2>, kMostAgreements> summary{};
    bool operator==(const BoardPage&) const = default;
};

// Every rank's page by number, and the ranks that have been told on the board that they are taken for dead, as bits.
struct BoardState {
    std::array<std::uint32_t, kMostExplored> pages{};
    std::uint8_t shut_out = 0;
};

// Thrown out of a machine's look at the first contribution that is missing, if it was asked for.
struct StopsAtMissing {};

class ExploredBoard final : public protocol::ContributionBoard {
  public:
    explicit ExploredBoard(const AgreementScenario& scenario);

    enum class Missing {
        is_reported,     // the first one that is missing is remembered
        stops_the_look,  // at the first one, by an exception
    };
    struct Turn {
        std::uint32_t self = 0;
        BoardState state;
        Missing missing = Missing::is_reported;
        // The contribution of this rank is not seen the first time, whether it is there or not.
        std::uint32_t hidden = kNobody;
    };
    static constexpr std::uint32_t kNobody = UINT32_MAX;

    // What machines do from now on, they do as this rank.
    void begin(const Turn& turn);
    // From now on it is not shut out.
    void let_in() { turn_.state.shut_out = 0; }
    // Its page as it is now.
    std::uint32_t page();
    // The rank that was missing first; or kNobody.
    std::uint32_t missing() const { return missing_; }
    // It looked for what has been overwritten.
    bool overtaken() const { return overtaken_; }

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

  private:
    struct Said {
        std::uint8_t operation = 0;
        bool change_waits = false;
        bool unacknowledged = false;
        std::uint32_t differs = 0;
        std::vector<std::byte> value;
        bool operator==(const Said&) const = default;
    };

    const BoardPage& page_of(std::uint32_t member) const;
    bool is_hidden(std::uint32_t member) const;
    bool is_missing(std::uint32_t member) const;

    std::uint32_t lines_;
    std::uint32_t flush_;  // the agreement that is one, or kNobody
    bool silent_;
    std::vector<BoardPage> pages_;
    std::vector<Said> said_;                                                 // summaries, by number
    std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> numbers_;  // by hash
    protocol::Operator operation_;
    mutable std::array<ExploredValue, kMostExplored> values_{};  // by rank: what it was last seen to contribute
    Turn turn_;
    BoardPage own_;
    mutable std::uint32_t missing_ = kNobody;
    mutable bool overtaken_ = false;
    mutable bool hides_ = false;
};

}  // namespace coppice::simulation
