// The shm transport under the conformance suite, and a way to vandalize its segments.
#pragma once

#include <array>

#include "transport/conformance.hpp"
#include "transport/regions.hpp"

namespace coppice::testing {

inline constexpr std::array kRegions{transport::Region{.name = "test", .bytes = 64}};

class ShmFactory final : public Factory {
  public:
    const char* name() const override { return "shm"; }
    Result<std::unique_ptr<Transport>> make(Seat self, std::uint32_t size) override;
    Bytes of_other_version(Bytes address) override;
    bool send_garbage(Transport& transport) override;
    bool sent_is_delivered() const override { return true; }
};

}  // namespace coppice::testing
