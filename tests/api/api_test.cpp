// What the C API says to wrong arguments, in one process: groups of one rank over an exchange that copies.
#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "coppice/coppice.h"
#include "support/processes.hpp"

namespace coppice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

int copy_exchange(void* /*argument*/, const void* mine, std::size_t bytes, void* all) {
    std::memcpy(all, mine, bytes);
    return 0;
}

coppice_group_options_t alone() {
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = copy_exchange;
    options.size = 1;
    return options;
}

class Api : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(coppice_context_create(nullptr, &context_), COPPICE_OK) << coppice_last_error();
        const coppice_group_options_t options = alone();
        ASSERT_EQ(coppice_group_create(context_, &options, &group_), COPPICE_OK) << coppice_last_error();
    }
    void TearDown() override {
        EXPECT_EQ(coppice_group_destroy(group_, kDeadlineNs), COPPICE_OK) << coppice_last_error();
        EXPECT_EQ(coppice_context_destroy(context_), COPPICE_OK) << coppice_last_error();
    }
    coppice_context_t* context_ = nullptr;
    coppice_group_t* group_ = nullptr;
};

TEST_F(Api, NullPointersAreRefusedAndNamed) {
    coppice_request_t* request = nullptr;
    const void* view = nullptr;
    std::size_t bytes = 0;
    coppice_group_t* group = nullptr;
    const coppice_group_options_t options = alone();
    const auto refused = [](coppice_status_t status, const char* name) {
        EXPECT_EQ(status, COPPICE_ERR_INVALID_ARGUMENT) << name;
        EXPECT_THAT(coppice_last_error(), HasSubstr(name));
    };
    refused(coppice_context_create(nullptr, nullptr), "context");
    refused(coppice_progress(nullptr), "context");
    refused(coppice_group_create(nullptr, &options, &group), "context");
    refused(coppice_group_create(context_, &options, nullptr), "group");
    refused(coppice_group_query(nullptr, nullptr), "group");
    refused(coppice_group_query(group_, nullptr), "info");
    refused(coppice_group_failed(group_, nullptr, 0, nullptr), "count");
    refused(coppice_group_failed(group_, nullptr, 1, &bytes), "ranks");
    refused(coppice_broadcast(nullptr, nullptr, 0, 0, nullptr, 0), "group");
    refused(coppice_broadcast(group_, nullptr, 1, 0, nullptr, 0), "buffer");
    refused(coppice_broadcast_nb(group_, nullptr, 0, 0, nullptr), "request");
    refused(coppice_broadcast_nb(nullptr, nullptr, 0, 0, &request), "group");
    refused(coppice_broadcast_view_nb(group_, nullptr, 8, 0, &request), "buffer");
    refused(coppice_request_test(nullptr, nullptr), "request");
    refused(coppice_request_wait(nullptr, nullptr, 0), "request");
    refused(coppice_request_view(nullptr, &view, &bytes), "request");
    refused(coppice_memory_register(group_, nullptr, 8), "address");
    EXPECT_EQ(coppice_request_free(nullptr), COPPICE_OK);
    EXPECT_EQ(coppice_group_destroy(nullptr, 0), COPPICE_OK);
    EXPECT_EQ(coppice_context_destroy(nullptr), COPPICE_OK);
}

TEST_F(Api, RootsAndSizesOutOfRangeAreRefusedAndTheGroupGoesOn) {
    std::array<unsigned char, 9000> buffer{};
    EXPECT_EQ(coppice_broadcast(group_, buffer.data(), 8, 1, nullptr, kDeadlineNs), COPPICE_ERR_OUT_OF_RANGE);
    EXPECT_THAT(coppice_last_error(), HasSubstr("root 1"));
    EXPECT_EQ(coppice_broadcast(group_, buffer.data(), 8, UINT32_MAX, nullptr, kDeadlineNs), COPPICE_ERR_OUT_OF_RANGE);
    EXPECT_EQ(coppice_broadcast(group_, buffer.data(), 8193, 0, nullptr, kDeadlineNs), COPPICE_ERR_TOO_LARGE);
    EXPECT_THAT(coppice_last_error(), HasSubstr("8192"));
    EXPECT_EQ(coppice_broadcast(group_, buffer.data(), SIZE_MAX, 0, nullptr, kDeadlineNs), COPPICE_ERR_TOO_LARGE);
    for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(coppice_broadcast(group_, buffer.data(), 8192, 0, nullptr, kDeadlineNs), COPPICE_OK);
    }
    EXPECT_EQ(coppice_broadcast(group_, nullptr, 0, 0, nullptr, kDeadlineNs), COPPICE_OK);
}

TEST_F(Api, RequestsTellTheirOutcomeAgainAndAgain) {
    std::uint64_t payload = 5;
    coppice_request_t* request = nullptr;
    ASSERT_EQ(coppice_broadcast_nb(group_, &payload, sizeof payload, 0, &request), COPPICE_OK);
    std::size_t received = 0;
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(coppice_request_wait(request, &received, kDeadlineNs), COPPICE_OK);
        EXPECT_EQ(coppice_request_test(request, &received), COPPICE_OK);
        EXPECT_EQ(received, sizeof payload);
    }
    const void* view = nullptr;
    EXPECT_EQ(coppice_request_view(request, &view, &received), COPPICE_ERR_INVALID_ARGUMENT) << "it was a copy";
    EXPECT_EQ(coppice_group_destroy(group_, kDeadlineNs), COPPICE_ERR_BUSY);
    EXPECT_THAT(coppice_last_error(), HasSubstr("1 requests"));
    EXPECT_EQ(coppice_request_free(request), COPPICE_OK);
}

TEST_F(Api, TheContextStaysWhileItHasGroups) {
    EXPECT_EQ(coppice_context_destroy(context_), COPPICE_ERR_BUSY);
    EXPECT_THAT(coppice_last_error(), HasSubstr("groups"));
}

TEST_F(Api, StructsOfAnotherSizeAreRefused) {
    coppice_group_info_t info{};
    EXPECT_EQ(coppice_group_query(group_, &info), COPPICE_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(coppice_last_error(), HasSubstr("struct_size"));
    coppice_context_t* context = nullptr;
    const coppice_context_options_t options{};
    EXPECT_EQ(coppice_context_create(&options, &context), COPPICE_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(coppice_last_error(), HasSubstr("COPPICE_CONTEXT_OPTIONS_INIT"));
    coppice_group_t* group = nullptr;
    coppice_group_options_t group_options = alone();
    group_options.struct_size = 8;
    EXPECT_EQ(coppice_group_create(context_, &group_options, &group), COPPICE_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(group, nullptr);
}

TEST_F(Api, UnknownNamesListTheKnownOnes) {
    coppice_group_t* group = nullptr;
    coppice_group_options_t options = alone();
    options.tree = "foo";
    EXPECT_EQ(coppice_group_create(context_, &options, &group), COPPICE_ERR_CONFIG);
    EXPECT_THAT(coppice_last_error(), HasSubstr("binomial"));
    options = alone();
    options.correction = "foo";
    EXPECT_EQ(coppice_group_create(context_, &options, &group), COPPICE_ERR_CONFIG);
    EXPECT_THAT(coppice_last_error(), HasSubstr("checked"));
    options = alone();
    options.hierarchy = "foo";
    EXPECT_EQ(coppice_group_create(context_, &options, &group), COPPICE_ERR_CONFIG);
    EXPECT_THAT(coppice_last_error(), HasSubstr("flat"));
    options = alone();
    options.window = 33;
    EXPECT_EQ(coppice_group_create(context_, &options, &group), COPPICE_ERR_CONFIG);
    EXPECT_THAT(coppice_last_error(), HasSubstr("power of two"));
}

TEST_F(Api, RanksOutsideOfTheirGroupAreRefused) {
    coppice_group_t* group = nullptr;
    coppice_group_options_t options = alone();
    options.rank = 1;
    EXPECT_EQ(coppice_group_create(context_, &options, &group), COPPICE_ERR_OUT_OF_RANGE);
    options = alone();
    options.size = 0;
    EXPECT_EQ(coppice_group_create(context_, &options, &group), COPPICE_ERR_OUT_OF_RANGE);
}

TEST_F(Api, WithoutLauncherAndExchangeTheRemedyIsNamed) {
    for (const char* name : {"COPPICE_RANK", "COPPICE_SIZE", "COPPICE_LAUNCHER"})
        unsetenv(name);
    coppice_group_t* group = nullptr;
    EXPECT_EQ(coppice_group_create(context_, nullptr, &group), COPPICE_ERR_BOOTSTRAP);
    EXPECT_THAT(coppice_last_error(), HasSubstr("coppice-run"));
}

TEST_F(Api, AnExchangeThatFailsIsTold) {
    coppice_group_t* group = nullptr;
    coppice_group_options_t options = alone();
    options.exchange = [](void*, const void*, std::size_t, void*) { return 9; };
    EXPECT_EQ(coppice_group_create(context_, &options, &group), COPPICE_ERR_BOOTSTRAP);
    EXPECT_THAT(coppice_last_error(), HasSubstr("9"));
}

TEST(ApiStatics, EveryStatusHasASentenceAndSoHasNonsense) {
    for (int status = COPPICE_ERR_INTERNAL; status <= COPPICE_IN_PROGRESS; ++status) {
        EXPECT_THAT(std::string(coppice_status_string(static_cast<coppice_status_t>(status))), Not(IsEmpty()))
            << status;
        EXPECT_THAT(coppice_status_string(static_cast<coppice_status_t>(status)), Not(HasSubstr("not a status")));
    }
    EXPECT_THAT(coppice_status_string(static_cast<coppice_status_t>(-18)), HasSubstr("not a status"));
}

TEST(ApiStatics, TheLastErrorBelongsToItsThread) {
    EXPECT_EQ(coppice_progress(nullptr), COPPICE_ERR_INVALID_ARGUMENT);
    const std::string mine = coppice_last_error();
    std::thread([] {
        EXPECT_STREQ(coppice_last_error(), "");
        EXPECT_EQ(coppice_request_test(nullptr, nullptr), COPPICE_ERR_INVALID_ARGUMENT);
    }).join();
    EXPECT_EQ(coppice_last_error(), mine);
}

TEST(ApiStatics, AVariableThatDoesNotParseIsNamed) {
    setenv("COPPICE_WINDOW", "many", 1);
    coppice_context_t* context = nullptr;
    EXPECT_EQ(coppice_context_create(nullptr, &context), COPPICE_ERR_CONFIG);
    EXPECT_EQ(context, nullptr);
    EXPECT_THAT(coppice_last_error(), HasSubstr("COPPICE_WINDOW"));
    EXPECT_THAT(coppice_last_error(), HasSubstr("many"));
    unsetenv("COPPICE_WINDOW");
}

TEST(ApiStatics, ContextsAndGroupsLeaveNothingBehind) {
    const auto live_and_die = [] {
        coppice_context_t* context = nullptr;
        coppice_group_t* group = nullptr;
        const coppice_group_options_t options = alone();
        ASSERT_EQ(coppice_context_create(nullptr, &context), COPPICE_OK);
        ASSERT_EQ(coppice_group_create(context, &options, &group), COPPICE_OK);
        ASSERT_EQ(coppice_broadcast(group, nullptr, 0, 0, nullptr, kDeadlineNs), COPPICE_OK);
        ASSERT_EQ(coppice_group_destroy(group, kDeadlineNs), COPPICE_OK);
        ASSERT_EQ(coppice_context_destroy(context), COPPICE_OK);
    };
    live_and_die();
    const std::size_t descriptors = open_descriptors();
    const std::size_t before = threads();
    for (int i = 0; i < 200; ++i)
        live_and_die();
    EXPECT_EQ(open_descriptors(), descriptors);
    EXPECT_EQ(threads(), before);
}

}  // namespace
}  // namespace coppice::testing
