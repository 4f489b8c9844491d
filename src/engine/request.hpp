// A broadcast as its caller sees it. Lives in the group's pool (non-blocking) or on the caller's stack (blocking).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "coppice/coppice.h"
#include "topology/words.hpp"

namespace coppice::engine {

class Group;

enum class RequestState : std::uint8_t { free, waiting, done };

struct Request {
    Group* group = nullptr;
    Sequence sequence;
    Rank root;
    std::byte* buffer = nullptr;  // copy-into-buffer delivery; the root's payload before it is staged
    std::size_t capacity = 0;
    bool view = false;
    RequestState state = RequestState::free;
    coppice_status_t status = COPPICE_IN_PROGRESS;
    const std::byte* payload = nullptr;  // view delivery: where it landed
    std::size_t received = 0;
    std::string message;  // what went wrong
};

}  // namespace coppice::engine
