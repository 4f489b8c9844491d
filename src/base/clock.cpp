#include "base/clock.hpp"

namespace coppice {
namespace {

class RealClock final : public Clock {
  public:
    std::uint64_t now_ns() const override { return coppice::now_ns(); }
};

}  // namespace

const Clock& real_clock() {
    static constexpr RealClock clock;
    return clock;
}

}  // namespace coppice
