// The conformance suite of host memory: what every transport::HostMemory must do.
//
// To put one under it: derive a Host, and in one source file of your own
//
//     INSTANTIATE_TEST_SUITE_P(mine, HostMemory, ::testing::Values(HostKind{"mine", make}), host_kind_name);
//
// compiled with host_memory_conformance.cpp. All ranks are in the test's own process here; what a real death does is
// for the tests of each transport.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "transport/host_memory.hpp"
#include "transport/transport.hpp"

namespace coppice::testing {

inline constexpr std::uint32_t kHostWindow = 8;
inline constexpr std::array kHostRegions{
    transport::Region{.name = "words", .bytes = 48},
    transport::Region{.name = "odd", .bytes = 1001, .alignment = 1},
    transport::Region{.name = "counts", .bytes = 16, .alignment = 8},
};

// Some ranks of one host that know each other, with kHostWindow and kHostRegions.
class Host {
  public:
    virtual ~Host() = default;
    virtual transport::HostMemory& memory(std::uint32_t rank) = 0;
    // Its process ends without a word.
    virtual void end(std::uint32_t rank) = 0;
    virtual void fence(std::uint32_t by, std::uint32_t rank) = 0;
    // It takes in what has come for it.
    virtual void poll(std::uint32_t rank, transport::Receiver& receiver) = 0;
};

struct HostKind {
    const char* name;
    std::unique_ptr<Host> (*make)(std::uint32_t ranks);
};

class HostMemory : public ::testing::TestWithParam<HostKind> {
  protected:
    // All boards of the first group are sealed.
    void make(std::uint32_t ranks);
    transport::HostMemory& memory(std::uint32_t rank) { return host_->memory(rank); }
    transport::Board& board(std::uint32_t rank) { return memory(rank).board(0); }

    std::unique_ptr<Host> host_;
};

inline std::string host_kind_name(const ::testing::TestParamInfo<HostKind>& info) {
    return info.param.name;
}

}  // namespace coppice::testing
