// Where the group is made that a renewal has decided on: a group knows what a group is made of, its component does not.
#pragma once

#include <memory>
#include <span>

#include "engine/core/core.hpp"

namespace coppice::engine {

class Successors {
  public:
    // Makes it, with these ranks of it failed from the start, and progress in it; it is kept until its caller takes it.
    // `established`: as Shrink has it.
    virtual void make(Core::Parts parts, Plan plan, std::shared_ptr<bool> established, std::span<const Rank> dead) = 0;
    // It was made, and not taken yet.
    virtual bool has_one() const = 0;

  protected:
    ~Successors() = default;
};

}  // namespace coppice::engine
