// The functions of libibverbs and librdmacm that are looked up are those that a program is linked with: of the same version, too.
#include <gtest/gtest.h>

#include "transport/verbs/library.hpp"

namespace coppice::transport::verbs {
namespace {

TEST(VerbsFunctions, AreThoseThatAProgramIsLinkedWith) {
    ASSERT_TRUE(load()) << load().error().message;
#define COPPICE_COMPARE(function) EXPECT_EQ(library.function, &::function) << #function;
    COPPICE_IBV_FUNCTIONS(COPPICE_COMPARE)
    COPPICE_RDMA_FUNCTIONS(COPPICE_COMPARE)
#undef COPPICE_COMPARE
}

}  // namespace
}  // namespace coppice::transport::verbs
