// The launcher of a world, as far as processes have to do with it that come later: the shipped lobby (bootstrap/lobby.hpp), with a line to
// each rank, on which what is said takes its time, in order. It sees the end of a process a while after that, and starts others.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bootstrap/admission.hpp"
#include "bootstrap/lobby.hpp"
#include "simulation/world/clockwork.hpp"

namespace coppice::world {

class Launcher final : private Happening {
  public:
    // `start`: that rank's process begins. `stir`: there is something for it to hear.
    Launcher(Clockwork& clockwork, std::function<void(std::uint32_t rank)> start,
             std::function<void(std::uint32_t rank)> stir);

    std::unique_ptr<bootstrap::Admission> enter(std::uint32_t rank);
    void rank_died(std::uint32_t rank);
    // What ranks said that the lobby does not understand.
    std::uint32_t nonsense() const { return nonsense_; }

    // --- a rank's end of its line
    void say(std::uint32_t rank, const std::vector<std::byte>& frame);
    std::optional<std::vector<std::byte>> hear(std::uint32_t rank);

  private:
    enum class What : std::uint8_t { said, heard, ended, starts };
    struct Line {
        std::deque<std::vector<std::byte>> up;
        std::deque<std::vector<std::byte>> down;  // of these `arrived` are there
        std::size_t arrived = 0;
        std::uint64_t last_up_ns = 0;
        std::uint64_t last_down_ns = 0;
        bool is_closed = false;
    };

    void happen(std::uint64_t what) override;
    void plan(std::uint64_t time_ns, What what, std::uint32_t rank);
    void take_from(std::uint32_t rank);
    void start(std::uint32_t rank);
    void pass_on();
    bool has_its_seat(std::uint32_t rank) const { return rank_at_[clockwork_.fate().seat_of(rank)] == rank; }

    Clockwork& clockwork_;
    std::function<void(std::uint32_t)> start_;
    std::function<void(std::uint32_t)> stir_;
    bootstrap::Lobby lobby_;
    std::vector<Line> lines_;             // by rank
    std::vector<std::uint32_t> rank_at_;  // by seat: the process that has it
    std::uint32_t nonsense_ = 0;
};

}  // namespace coppice::world
