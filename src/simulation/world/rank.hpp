// One whole rank in a world: a context of the shipped engine on a platform whose clock, wires, host memory and progress thread
// are the world's, and a caller that runs a program of C calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "coppice/coppice.h"
#include "engine/platform.hpp"
#include "engine/progress/progress_thread.hpp"
#include "engine/settings.hpp"
#include "simulation/world/clockwork.hpp"
#include "simulation/world/network.hpp"

namespace coppice::world {

class World;

class WorldRank final : public engine::Platform {
  public:
    WorldRank(World& world, std::uint32_t rank);

    // --- what the engine asks for
    const Clock& clock() const override;
    Result<void> attend(engine::Attended& context) override;
    void forsake(engine::Attended& context) override;
    Wires make_transports(const Place& place) override;
    bool sleeps_next() override;
    void pause(int descriptor, std::uint64_t longest_ns) override;
    void reset_pauses() override { pauses_ = 0; }
    Result<std::unique_ptr<bootstrap::Admission>> admission() override;
    std::optional<bootstrap::LauncherEnvironment> started_late() const override;

    // --- the caller
    // Runs `body` as this rank's application. It starts after a while.
    void start(std::function<void(WorldRank&)> body, std::uint64_t after_ns);
    std::uint32_t number() const { return rank_; }
    World& world() { return world_; }
    bool over() const { return over_; }
    // It was started, and has not come to its end.
    bool is_busy() const { return caller_ != nullptr && !over_; }
    // A call of the library: its begin and end are those of the application's visit.
    template <class Call>
    auto call(Call&& body) {
        enter();
        auto result = body();
        leave();
        return result;
    }
    // The same for a call that enters the context in its middle, too: the progress thread can't be held up then.
    template <class Call>
    auto call_that_enters_late(Call&& body) {
        enter();
        enters_late_ = true;
        auto result = body();
        enters_late_ = false;
        leave();
        return result;
    }
    // The application does something else for so long.
    void stay_away(std::uint64_t ns);
    coppice_status_t make_context(engine::SettingTexts texts, coppice_context_t** context);
    // An allgather among the live ranks, as a launcher offers it.
    static int exchange(void* self, const void* mine, std::size_t bytes, void* all);

    // Something has happened that this rank may see: it looks at its wires and boards soon if it is awake, or armed.
    void stir(bool armed);
    // The C interface keeps the handle of a group that was destroyed.
    void note_grave() { ++graves_; }
    // Blocks of memory that are still in use after its end in peace.
    std::uint64_t leaked() const { return leaked_; }

  private:
    void enter();
    void leave();
    void run_thread();
    bool on_duty(std::uint32_t seen);
    void let_round_end();
    void run_caller();

    World& world_;
    std::uint32_t rank_;
    Actor* caller_ = nullptr;
    Actor* thread_ = nullptr;
    std::function<void(WorldRank&)> body_;
    engine::Attended* attended_ = nullptr;
    bool in_round_ = false;       // the progress thread
    bool enters_late_ = false;    // the caller is in such a call
    bool thread_sleeps_ = false;  // on descriptors
    bool caller_sleeps_ = false;
    bool rung_ = false;  // since the last sleep: the next one ends at once
    std::uint32_t pauses_ = 0;
    std::uint32_t groups_made_ = 0;
    std::uint32_t exchanges_ = 0;
    bool over_ = false;
    std::uint64_t leaked_ = 0;
    std::uint64_t graves_ = 0;
    std::vector<pollfd> descriptors_;
};

}  // namespace coppice::world
