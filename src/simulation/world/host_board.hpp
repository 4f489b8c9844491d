// The boards of one rank in a world: transport::Board and transport::HostMemory over the segments of its host's ranks. Each store
// is an action, before which its rank may die or lose its core.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "simulation/world/network.hpp"
#include "transport/board.hpp"
#include "transport/host_memory.hpp"

namespace coppice::world {

class HostBoard final : public transport::Board {
  public:
    // `ranks`: the members as the network counts them; those whose memory could not be mapped any more are not readable.
    HostBoard(Network& network, std::uint32_t self, std::uint32_t panel, std::vector<Rank> members,
              std::vector<std::uint32_t> ranks, const std::vector<bool>& readable);

    std::span<const Rank> members() const override { return members_; }
    std::uint32_t lines() const override { return network_.segment(self_).window(); }
    std::byte* line_memory(Sequence sequence) override;
    void will_publish(Sequence /*sequence*/) override {}
    void publish(Sequence sequence, std::uint32_t length, std::uint32_t root, std::uint32_t detail) override;
    void publish_copy(Sequence sequence, std::span<const std::byte> payload, std::uint32_t root,
                      std::uint32_t detail) override;
    bool look(Rank member, Sequence sequence, transport::PublishedLine& line) const override;
    bool copy_published(Rank member, Sequence sequence, std::span<std::byte> to, std::size_t* length) const override;
    void set_consumed(Sequence sequence) override;
    Sequence consumed(Rank member) const override;
    void set_stable(Sequence sequence) override;
    Sequence stable(Rank member) const override;
    void wake(Rank member) override;
    void log_failure(Rank failed) override;
    std::uint32_t log_length(Rank member) const override;
    Rank logged(Rank member, std::uint32_t index) const override;
    transport::Regions::Place find_region(std::string_view name) const override {
        return network_.regions().find(name);
    }
    std::byte* own_region(transport::Regions::Place place) override { return own().regions() + place.at; }
    const std::byte* region(Rank member, transport::Regions::Place place) const override;
    void publish_word(shared::Published<std::uint64_t>& word, std::uint64_t value) override;
    void leave_word(shared::Published<std::uint64_t>& word, std::uint64_t value) override;
    Bulk take_bulk(std::size_t bytes, std::uint64_t most) override;
    void give_bulk_back(std::uint64_t place, std::size_t /*keep*/) override { own().give_bulk_back(place); }
    const std::byte* bulk(Rank member, std::uint64_t place, std::size_t bytes) override;
    bool alive(Rank member) const override;
    bool fenced() const override;
    void depart() override;
    bool departed(Rank member) const override;

  private:
    Panel& own() const { return *network_.segment(self_).panel(panel_); }
    // Null: nothing of it can be read.
    Panel* of(Rank member) const;
    std::uint32_t index_of(Rank member) const;
    Line& line_of(Panel& panel, Sequence sequence) const { return panel.lines[sequence.value % lines()]; }
    // Something has been written: ranks of the host that are awake see it.
    void show() const;
    // traffic.cpp. Where somebody wants to know: what this rank has just stored.
    bool is_told() const { return network_.clockwork().tell_traffic != nullptr; }
    void tell_stored(std::string_view what, std::uint64_t value) const;
    void tell_published(Sequence sequence, const Line& line) const;
    void tell_word(const shared::Published<std::uint64_t>& word, std::uint64_t value) const;

    Network& network_;
    std::uint32_t self_;
    std::uint32_t panel_;
    std::vector<Rank> members_;
    std::vector<std::uint32_t> ranks_;
    std::vector<bool> readable_;
};

class WorldMemory final : public transport::HostMemory {
  public:
    WorldMemory(Network& network, std::uint32_t self);

    Result<void> seal_board(std::vector<Seat> members) override;
    Result<void> admit(Seat rank, std::uint32_t incarnation) override;
    transport::Board& board(std::uint32_t panel) override { return *boards_[panel]; }
    std::uint32_t clean_panels() const override { return clean_; }
    void make_panel_ready() override;
    void make_all_panels_ready() override;
    transport::Board& open_board(std::uint32_t panel, std::span<const BoardMember> members) override;
    void close_board(std::uint32_t panel) override;
    std::uint32_t closed_panels() const override { return closed_; }
    void clear_panels(std::uint32_t panels) override;
    void look_at_cores() override {}
    std::uint32_t sharing_cores(std::span<const Seat> /*ranks*/) const override { return 1; }
    pid_t process_of(Seat /*rank*/) const override { return 0; }
    void keep_memory() override {}

  private:
    bool made(std::uint32_t panel) const;
    void map(Seat rank);
    void forget_all_but(const std::vector<std::uint32_t>& ranks);

    Network& network_;
    std::uint32_t self_;
    std::array<std::unique_ptr<HostBoard>, kPanels> boards_;
    std::vector<bool> mapped_;  // by rank
    std::uint32_t clean_ = 0;
    std::uint32_t closed_ = 0;
};

}  // namespace coppice::world
