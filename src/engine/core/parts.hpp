// What a group is made of at this rank, as those hand it over that make groups: the forming of a group, the joining of one, and a renewal.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/core/group_context.hpp"
#include "engine/core/members.hpp"
#include "engine/lineage.hpp"
#include "engine/router.hpp"
#include "engine/settings.hpp"
#include "engine/wire/wire.hpp"
#include "transport/board.hpp"

namespace coppice::engine {

using FailureCallback = std::function<void(Rank)>;

struct GroupParts {
    GroupContext* context = nullptr;
    Settings settings;
    Members members;
    Router router;
    transport::Board* board = nullptr;  // owned by one of the router's transports; null where nobody shares a host
    std::unique_ptr<transport::Board> board_wrapper = nullptr;  // around that one, when faults are injected
    GroupId id;
    std::uint32_t cores = 1;          // that this process may run on
    std::uint32_t sharing_cores = 1;  // ranks of this group on this host that may run only there
    FailureCallback on_failure;
    std::uint32_t panel = 0;    // of `board`
    bool is_successor = false;  // of a group that was shrunk: its caller has yet to claim it
    Lineage lineage{};          // of the members

    // Where ranks share memory: sets `board`, in that panel, and counts `sharing_cores` anew. Elsewhere nobody knows where they run.
    void open_board();
};

}  // namespace coppice::engine
