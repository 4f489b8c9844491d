// What a launcher says of deaths while a group is there, in words that the engine's thread takes.
#pragma once

#include <vector>

#include "base/words.hpp"

namespace coppice::bootstrap {

class Reports {
  public:
    // Ends what keeps them coming. Not in a forked child.
    virtual ~Reports() = default;
    // Readable while there is something to take.
    virtual int descriptor() const = 0;
    // The ranks of the group whose processes have ended, as the launcher says, since this was last asked: each once in the life of this
    // object, and never this rank. It may be wrong.
    virtual std::vector<Rank> take() = 0;
};

}  // namespace coppice::bootstrap
