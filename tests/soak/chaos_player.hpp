// What one thread of a rank does: it makes groups, uses, revokes, shrinks and leaves them, step by step, as drawn from
// the seed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chaos_team.hpp"

namespace chaos {

class Player {
  public:
    // `thread` 0 is the main one: it may use the launcher's exchange, and it is the one that dies when told to.
    Player(const Options& options, std::uint64_t life, std::uint64_t thread, std::uint32_t self, std::uint32_t size);

    // All of a life with this context.
    void play(coppice_context_t* context);

  private:
    void begin_step(std::uint64_t step);
    void one_step(std::uint64_t step);
    void create(std::uint64_t step, bool by_launcher, const Team::Members& members);
    void replace(std::size_t which, std::uint64_t step, Draw& common);
    void revoke_and_shrink(std::size_t which, std::uint64_t step, Draw& common);
    void destroy(std::size_t which);
    std::uint64_t id_of(std::uint64_t step) const { return mix(mix(common_seed_, step), 0x6964) >> 20; }

    const Options& options_;
    std::uint64_t life_;
    std::uint64_t thread_;
    std::uint32_t self_;
    std::uint32_t size_;
    std::uint64_t common_seed_;
    Draw own_;
    coppice_context_t* context_ = nullptr;
    std::vector<std::unique_ptr<Team>> teams_;
};

}  // namespace chaos
