#include "simulation/world/launcher.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "simulation/world/world.hpp"

namespace coppice::world {

using bootstrap::FrameHeader;
using bootstrap::FrameKind;

namespace {

bootstrap::LauncherFrame read(const std::vector<std::byte>& bytes) {
    FrameHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    return {.kind = header.kind, .body = {bytes.begin() + sizeof header, bytes.end()}};
}

// As bootstrap::LauncherAdmission, on a line of the world's.
class LineToLauncher final : public bootstrap::Admission {
  public:
    LineToLauncher(Launcher& launcher, std::uint32_t rank) : launcher_(launcher), rank_(rank) {}
    ~LineToLauncher() override { say(bootstrap::make_frame(FrameKind::bye, std::string_view{})); }

    int descriptor() const override { return World::launchers_bell(); }
    Result<std::optional<Event>> next() override {
        const auto bytes = launcher_.hear(rank_);
        if (!bytes) return std::optional<Event>();
        const bootstrap::LauncherFrame frame = read(*bytes);
        if (frame.kind == FrameKind::refused) {
            return fail(COPPICE_ERR_BOOTSTRAP, "the launcher does not let rank {} in: {}", rank_,
                        std::string_view(reinterpret_cast<const char*>(frame.body.data()), frame.body.size()));
        }
        auto event = event_of(frame);
        if (!event) return fail(COPPICE_ERR_INTERNAL, "rank {} does not understand the launcher", rank_);
        return event;
    }
    void tell_card(std::span<const std::byte> group, std::span<const std::byte> card) override {
        say(card_frame(group, card));
    }
    void tell_wired(std::uint32_t serial) override { say(wired_frame(serial)); }
    void tell_unwired(std::uint32_t serial, std::string_view why) override { say(unwired_frame(serial, why)); }
    void tell_formed(std::span<const bootstrap::PersonBody> newcomers, std::span<const bootstrap::PersonBody> left_out,
                     std::span<const std::byte> group) override {
        say(formed_frame(newcomers, left_out, group));
    }

  private:
    void say(const std::vector<std::byte>& frame) { launcher_.say(rank_, frame); }

    Launcher& launcher_;
    std::uint32_t rank_;
};

}  // namespace

Launcher::Launcher(Clockwork& clockwork, std::function<void(std::uint32_t)> start,
                   std::function<void(std::uint32_t)> stir)
    : clockwork_(clockwork),
      start_(std::move(start)),
      stir_(std::move(stir)),
      lobby_(clockwork.fate().ranks, clockwork.fate().seats()),
      lines_(clockwork.fate().processes()) {
    const Fate& fate = clockwork_.fate();
    for (std::uint32_t seat = 0; seat < fate.seats(); ++seat)
        rank_at_.push_back(seat < fate.ranks ? seat : kMostRanks);
    for (std::uint32_t rank = fate.ranks; rank < fate.processes(); ++rank) {
        const Newcomer& one = fate.newcomers[rank - fate.ranks];
        if (one.follows == kMostRanks) plan(kStartNs + one.after_ns, What::starts, rank);
    }
}

void Launcher::plan(std::uint64_t time_ns, What what, std::uint32_t rank) {
    clockwork_.at(time_ns, *this, static_cast<std::uint64_t>(what) << 32 | rank);
}

std::unique_ptr<bootstrap::Admission> Launcher::enter(std::uint32_t rank) {
    say(rank, bootstrap::make_frame(FrameKind::enter, std::string_view{}));
    return std::make_unique<LineToLauncher>(*this, rank);
}

void Launcher::say(std::uint32_t rank, const std::vector<std::byte>& frame) {
    clockwork_.act(rank);
    const Within outside(nullptr);
    Line& line = lines_[rank];
    line.up.emplace_back(frame.begin(), frame.end());
    line.last_up_ns = std::max(line.last_up_ns, clockwork_.now_ns() + clockwork_.draw(clockwork_.fate().connect_ns));
    plan(line.last_up_ns, What::said, rank);
}

std::optional<std::vector<std::byte>> Launcher::hear(std::uint32_t rank) {
    Line& line = lines_[rank];
    if (line.arrived == 0) return std::nullopt;
    clockwork_.act(rank);
    std::vector<std::byte> frame(line.down.front().begin(), line.down.front().end());
    const Within outside(nullptr);
    line.down.pop_front();
    --line.arrived;
    return frame;
}

void Launcher::rank_died(std::uint32_t rank) {
    if (has_its_seat(rank))
        plan(clockwork_.now_ns() + clockwork_.draw(clockwork_.fate().far_detection_ns), What::ended, rank);
}

void Launcher::happen(std::uint64_t what) {
    const auto rank = static_cast<std::uint32_t>(what);
    const Fate& fate = clockwork_.fate();
    switch (static_cast<What>(what >> 32)) {
        case What::said:
            take_from(rank);
            break;
        case What::heard:
            ++lines_[rank].arrived;
            stir_(rank);
            break;
        case What::ended:
            if (!has_its_seat(rank)) break;
            rank_at_[fate.seat_of(rank)] = kMostRanks;
            lobby_.ended(fate.seat_of(rank));
            for (std::uint32_t next = fate.ranks; next < fate.processes(); ++next) {
                const Newcomer& one = fate.newcomers[next - fate.ranks];
                if (one.follows == rank) plan(clockwork_.now_ns() + one.after_ns, What::starts, next);
            }
            break;
        case What::starts:
            start(rank);
            break;
    }
    pass_on();
}

// One for which nobody is left to take it in is told so when it calls.
void Launcher::start(std::uint32_t rank) {
    const std::uint32_t seat = clockwork_.fate().seat_of(rank);
    if (clockwork_.dead(rank) || rank_at_[seat] != kMostRanks) return;
    rank_at_[seat] = rank;
    lobby_.started_late(seat, clockwork_.fate().incarnation_of(rank));
    if (clockwork_.tell)
        clockwork_.tell(fmt::format("{:>12} ns  rank {} is started, on seat {}", clockwork_.now_ns(), rank, seat));
    start_(rank);
}

void Launcher::take_from(std::uint32_t rank) {
    Line& line = lines_[rank];
    const bootstrap::LauncherFrame frame = read(line.up.front());
    line.up.pop_front();
    const std::uint32_t seat = clockwork_.fate().seat_of(rank);
    if (line.is_closed || !has_its_seat(rank)) return;
    if (frame.kind == FrameKind::enter) {
        const std::string why = lobby_.enter(seat, rank >= clockwork_.fate().ranks);
        if (why.empty()) return;
        lobby_.refuse(seat, why);
        line.down.push_back(bootstrap::make_frame(FrameKind::refused, why));
        plan(clockwork_.now_ns() + clockwork_.draw(clockwork_.fate().connect_ns), What::heard, rank);
    } else if (frame.kind == FrameKind::bye) {
        line.is_closed = true;
        lobby_.left(seat);
    } else if (!lobby_.hear(seat, frame.kind, frame.body)) {
        ++nonsense_;
        lobby_.refuse(seat, "it said what can't be");
    }
}

void Launcher::pass_on() {
    while (const auto send = lobby_.next()) {
        const std::uint32_t rank = rank_at_[send->to];
        if (rank == kMostRanks || clockwork_.dead(rank)) continue;
        Line& line = lines_[rank];
        line.down.push_back(*send->frame);
        line.last_down_ns =
            std::max(line.last_down_ns, clockwork_.now_ns() + clockwork_.draw(clockwork_.fate().connect_ns));
        plan(line.last_down_ns, What::heard, rank);
    }
}

}  // namespace coppice::world
