// A host's memory whose cache lines are counted: which core has which line, and from where it comes when another one reads it.
//
// A core that reads a line which it has not gets it from the nearest core that has it: of its own domain (they share a cache, or a
// NUMA node), of its socket, or of another one. A core that writes takes the line from all others. Caches are never full.
#pragma once

#include <bitset>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/collectives/agreement/contributions.hpp"
#include "transport/board.hpp"

namespace coppice::sim {

inline constexpr std::uint32_t kMostOnHost = 512;

struct CorePlace {
    std::uint32_t domain = 0;
    std::uint32_t socket = 0;
};

// Lines that were moved, by how far.
struct Moved {
    std::uint64_t within_domain = 0;
    std::uint64_t within_socket = 0;
    std::uint64_t across_sockets = 0;

    std::uint64_t between_domains() const { return within_socket + across_sockets; }
    std::uint64_t all() const { return within_domain + between_domains(); }
};

class Caches {
  public:
    // Where each rank's core is.
    explicit Caches(std::vector<CorePlace> places) : places_(std::move(places)), fetched_(places_.size()) {}

    // Bytes of the memory of `owner`, numbered by `at`.
    void read(std::uint32_t rank, std::uint32_t owner, std::size_t at, std::size_t bytes);
    void write(std::uint32_t rank, std::size_t at, std::size_t bytes);

    const Moved& moved() const { return moved_; }
    // By the rank that fetched most.
    std::uint64_t most_fetched() const;
    // From now on.
    void start_counting();

  private:
    using Holders = std::bitset<kMostOnHost>;
    static constexpr std::size_t kLine = 64;
    void fetch(std::uint32_t rank, Holders& holders);
    Holders& holders(std::uint32_t owner, std::size_t line) { return lines_[std::uint64_t{owner} << 40 | line]; }

    std::vector<CorePlace> places_;
    std::unordered_map<std::uint64_t, Holders> lines_;
    std::vector<std::uint64_t> fetched_;
    Moved moved_;
};

// What the ranks of one host share in an agreement: the regions of contributions, in ordinary memory.
class SharedRegions {
  public:
    SharedRegions(std::uint32_t ranks, std::uint32_t lines);

    std::byte* of(std::uint32_t rank) { return memory_.data() + rank * stride_; }
    const transport::Regions& declared() const { return declared_; }

  private:
    transport::Regions declared_;
    std::size_t stride_;
    std::vector<std::byte> memory_;
};

// One rank's board as far as contributions need it.
class RegionBoard final : public transport::Board {
  public:
    RegionBoard(SharedRegions& shared, std::uint32_t self) : shared_(shared), self_(self) {}

    transport::Regions::Place find_region(std::string_view name) const override {
        return shared_.declared().find(name);
    }
    std::byte* own_region(transport::Regions::Place place) override { return shared_.of(self_) + place.at; }
    const std::byte* region(Rank member, transport::Regions::Place place) const override {
        return shared_.of(member.value) + place.at;
    }

    std::span<const Rank> members() const override { return {}; }
    std::uint32_t lines() const override { return 0; }
    std::byte* line_memory(Sequence) override { return nullptr; }
    void will_publish(Sequence) override {}
    void publish(Sequence, std::uint32_t, std::uint32_t, std::uint32_t) override {}
    void publish_copy(Sequence, std::span<const std::byte>, std::uint32_t, std::uint32_t) override {}
    bool look(Rank, Sequence, transport::PublishedLine&) const override { return false; }
    bool copy_published(Rank, Sequence, std::span<std::byte>, std::size_t*) const override { return false; }
    void set_consumed(Sequence) override {}
    Sequence consumed(Rank) const override { return Sequence{0}; }
    void set_stable(Sequence) override {}
    Sequence stable(Rank) const override { return Sequence{0}; }
    void log_failure(Rank) override {}
    std::uint32_t log_length(Rank) const override { return 0; }
    Rank logged(Rank, std::uint32_t) const override { return Rank{0}; }
    bool alive(Rank) const override { return true; }
    bool fenced() const override { return false; }
    void depart() override {}
    bool departed(Rank) const override { return false; }

  private:
    SharedRegions& shared_;
    std::uint32_t self_;
};

// The library's own contributions, with each access counted.
class CountedContributions final : public protocol::ContributionBoard {
  public:
    CountedContributions(SharedRegions& shared, Caches& caches, std::uint32_t self, std::uint32_t ranks,
                         std::uint32_t lines)
        : board_(shared, self), contributions_(board_, ranks, lines), caches_(caches), self_(self) {}

    void publish(std::uint64_t sequence, const protocol::Contribution& contribution) override;
    bool look(std::uint32_t member, std::uint64_t sequence, protocol::Contribution& contribution) const override;
    void publish_summary(std::uint64_t sequence, std::uint64_t period, const protocol::Summary& summary) override;
    bool look_summary(std::uint32_t speaker, std::uint64_t sequence, std::uint64_t period,
                      protocol::Summary& summary) const override;
    void log_acknowledged(std::uint32_t failed) override { contributions_.log_acknowledged(failed); }
    std::uint32_t logged_acknowledged(std::uint32_t member, std::uint32_t index) const override {
        return contributions_.logged_acknowledged(member, index);
    }
    void set_recoveries(std::uint64_t count) override { contributions_.set_recoveries(count); }
    std::uint64_t recoveries(std::uint32_t member) const override { return contributions_.recoveries(member); }
    bool shut_out() const override { return false; }

  private:
    RegionBoard board_;
    engine::Contributions contributions_;
    Caches& caches_;
    std::uint32_t self_;
};

}  // namespace coppice::sim
