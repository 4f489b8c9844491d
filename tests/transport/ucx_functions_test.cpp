// The functions of UCX that are looked up are those that a program is linked with.
#include <gtest/gtest.h>

#include "transport/ucx/library.hpp"

namespace coppice::transport::ucx {
namespace {

TEST(UcxFunctions, AreThoseThatAProgramIsLinkedWith) {
    ASSERT_TRUE(load()) << load().error().message;
#define COPPICE_COMPARE(function) EXPECT_EQ(library.function, &::function) << #function;
    COPPICE_UCP_FUNCTIONS(COPPICE_COMPARE)
    COPPICE_UCS_FUNCTIONS(COPPICE_COMPARE)
#undef COPPICE_COMPARE
}

}  // namespace
}  // namespace coppice::transport::ucx
