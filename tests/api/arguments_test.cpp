// Wrong arguments: each is a status and a sentence, and nothing has happened.
#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <set>

#include "api/support.hpp"

extern "C" const char* string_of_any_status(int number);

namespace coppice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Status, EachHasASentenceOfItsOwn) {
    std::set<std::string> sentences;
    for (int number = COPPICE_ERR_NO_QUORUM; number <= COPPICE_IN_PROGRESS; ++number) {
        const char* sentence = string_of_any_status(number);
        ASSERT_NE(sentence, nullptr) << number;
        EXPECT_THAT(sentence, ::testing::Not(HasSubstr("not a status"))) << number;
        EXPECT_TRUE(sentences.insert(sentence).second) << number << ": " << sentence;
    }
}

TEST(Status, NumbersThatAreNoneHaveASentenceToo) {
    for (const int number : {2, 3, 100, INT_MAX, COPPICE_ERR_NO_QUORUM - 1, -100, INT_MIN}) {
        ASSERT_NE(string_of_any_status(number), nullptr) << number;
        EXPECT_THAT(string_of_any_status(number), HasSubstr("not a status")) << number;
    }
}

TEST(Version, IsTheProjects) {
    EXPECT_STREQ(coppice_version(), PROJECT_VERSION);
    EXPECT_THAT(coppice_version(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(LastError, IsAThreadsOwn) {
    expect_error(coppice_progress(nullptr), COPPICE_ERR_INVALID_ARGUMENT, {"coppice_progress", "context"});
    std::jthread([] {
        EXPECT_STREQ(coppice_last_error(), "");
        expect_error(coppice_request_test(nullptr, nullptr), COPPICE_ERR_INVALID_ARGUMENT, {"coppice_request_test"});
    }).join();
    EXPECT_THAT(coppice_last_error(), HasSubstr("coppice_progress"));
}

TEST_F(Alone, SuccessLeavesTheLastErrorAlone) {
    expect_error(coppice_progress(nullptr), COPPICE_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(coppice_progress(context), COPPICE_OK);
    EXPECT_THAT(coppice_last_error(), HasSubstr("coppice_progress: context is NULL"));
}

TEST(Null, NothingToDestroyIsNoError) {
    EXPECT_EQ(coppice_context_destroy(nullptr), COPPICE_OK);
    EXPECT_EQ(coppice_group_destroy(nullptr, 0), COPPICE_OK);
    EXPECT_EQ(coppice_request_free(nullptr), COPPICE_OK);
}

TEST_F(Alone, EveryNullIsNamedWithItsCall) {
    const auto refused = [](coppice_status_t status, const char* call, const char* argument) {
        expect_error(status, COPPICE_ERR_INVALID_ARGUMENT, {std::string(call) + ": " + argument + " is NULL"});
    };
    const coppice_group_options_t options = options_alone();
    coppice_group_t* other = nullptr;
    coppice_request_t* request = nullptr;
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    std::size_t count = 0;
    char byte = 0;
    refused(coppice_context_create(nullptr, nullptr), "coppice_context_create", "context");
    refused(coppice_progress(nullptr), "coppice_progress", "context");
    refused(coppice_group_create(nullptr, &options, &other), "coppice_group_create", "context");
    refused(coppice_group_create(context, &options, nullptr), "coppice_group_create", "group");
    refused(coppice_group_query(nullptr, &info), "coppice_group_query", "group");
    refused(coppice_group_query(group, nullptr), "coppice_group_query", "info");
    refused(coppice_group_failed(nullptr, nullptr, 0, &count), "coppice_group_failed", "group");
    refused(coppice_group_failed(group, nullptr, 0, nullptr), "coppice_group_failed", "count");
    refused(coppice_group_failed(group, nullptr, 1, &count), "coppice_group_failed", "ranks");
    refused(coppice_broadcast(nullptr, &byte, 1, 0, nullptr, 0), "coppice_broadcast", "group");
    refused(coppice_broadcast_nb(nullptr, &byte, 1, 0, &request), "coppice_broadcast_nb", "group");
    refused(coppice_broadcast_nb(group, &byte, 1, 0, nullptr), "coppice_broadcast_nb", "request");
    refused(coppice_broadcast_view_nb(nullptr, &byte, 1, 0, &request), "coppice_broadcast_view_nb", "group");
    refused(coppice_broadcast_view_nb(group, &byte, 1, 0, nullptr), "coppice_broadcast_view_nb", "request");
    refused(coppice_request_test(nullptr, nullptr), "coppice_request_test", "request");
    refused(coppice_request_wait(nullptr, nullptr, 0), "coppice_request_wait", "request");
    refused(coppice_memory_register(nullptr, &byte, 1), "coppice_memory_register", "group");
    refused(coppice_memory_register(group, nullptr, 1), "coppice_memory_register", "address");
    refused(coppice_memory_deregister(nullptr, &byte), "coppice_memory_deregister", "group");
    void* memory = &byte;
    refused(coppice_memory_allocate(nullptr, 1, &memory), "coppice_memory_allocate", "group");
    refused(coppice_memory_allocate(group, 1, nullptr), "coppice_memory_allocate", "memory");
    refused(coppice_memory_free(nullptr, &byte), "coppice_memory_free", "group");

    const void* payload = nullptr;
    ASSERT_EQ(coppice_broadcast_view_nb(group, &byte, 1, 0, &request), COPPICE_OK);
    refused(coppice_request_view(nullptr, &payload, &count), "coppice_request_view", "request");
    refused(coppice_request_view(request, nullptr, &count), "coppice_request_view", "payload");
    refused(coppice_request_view(request, &payload, nullptr), "coppice_request_view", "bytes");
    EXPECT_EQ(coppice_request_free(request), COPPICE_OK);
}

TEST_F(Alone, CallsOnADestroyedGroupAreToldSo) {
    const coppice_group_options_t options = options_alone();
    coppice_group_t* gone = nullptr;
    ASSERT_EQ(coppice_group_create(context, &options, &gone), COPPICE_OK) << coppice_last_error();
    ASSERT_EQ(coppice_group_destroy(gone, kDeadlineNs), COPPICE_OK) << coppice_last_error();
    const auto refused = [](coppice_status_t status, const char* call) {
        expect_error(status, COPPICE_ERR_INVALID_ARGUMENT, {std::string(call) + ": this group has been destroyed"});
    };
    coppice_group_t* other = nullptr;
    coppice_request_t* request = nullptr;
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    coppice_group_counts_t counts{};
    counts.struct_size = sizeof counts;
    std::size_t count = 0;
    char byte = 0;
    refused(coppice_group_query(gone, &info), "coppice_group_query");
    refused(coppice_group_count(gone, &counts), "coppice_group_count");
    refused(coppice_group_failed(gone, nullptr, 0, &count), "coppice_group_failed");
    refused(coppice_group_agreed(gone, nullptr, 0, &count), "coppice_group_agreed");
    refused(coppice_group_ack_failed(gone, nullptr, 0), "coppice_group_ack_failed");
    refused(coppice_broadcast(gone, &byte, 1, 0, nullptr, 0), "coppice_broadcast");
    refused(coppice_broadcast_nb(gone, &byte, 1, 0, &request), "coppice_broadcast_nb");
    refused(coppice_broadcast_view_nb(gone, &byte, 1, 0, &request), "coppice_broadcast_view_nb");
    refused(coppice_agree(gone, &byte, 1, nullptr, 0), "coppice_agree");
    refused(coppice_agree_nb(gone, &byte, 1, nullptr, &request), "coppice_agree_nb");
    refused(coppice_group_revoke(gone), "coppice_group_revoke");
    refused(coppice_group_shrink(gone, &other, 0), "coppice_group_shrink");
    refused(coppice_group_shrink_nb(gone, &other, &request), "coppice_group_shrink_nb");
    refused(coppice_group_renew(gone, nullptr, &other, 0), "coppice_group_renew");
    refused(coppice_group_renew_nb(gone, nullptr, &other, &request), "coppice_group_renew_nb");
    refused(coppice_group_leave(gone), "coppice_group_leave");
    refused(coppice_group_invite(gone, 1, 1, &byte, &count), "coppice_group_invite");
    int pending = 0;
    refused(coppice_group_pending(gone, &pending), "coppice_group_pending");
    coppice_view_t view{};
    view.struct_size = sizeof view;
    refused(coppice_group_view(gone, &view, nullptr, 0), "coppice_group_view");
    refused(coppice_memory_register(gone, &byte, 1), "coppice_memory_register");
    refused(coppice_memory_deregister(gone, &byte), "coppice_memory_deregister");
    void* memory = nullptr;
    refused(coppice_memory_allocate(gone, 1, &memory), "coppice_memory_allocate");
    refused(coppice_memory_free(gone, &byte), "coppice_memory_free");
    refused(coppice_group_destroy(gone, 0), "coppice_group_destroy");
    // Far more of them than are remembered.
    for (int i = 0; i < 600; ++i) {
        ASSERT_EQ(coppice_group_create(context, &options, &gone), COPPICE_OK) << coppice_last_error();
        ASSERT_EQ(coppice_group_destroy(gone, kDeadlineNs), COPPICE_OK) << coppice_last_error();
    }
    refused(coppice_agree(gone, &byte, 1, nullptr, 0), "coppice_agree");
}

TEST_F(Alone, RenewalsCheckWhatIsAsked) {
    coppice_group_t* next = nullptr;
    coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
    const auto refused = [&](std::initializer_list<std::string> words) {
        expect_error(coppice_group_renew(group, &options, &next, 0), COPPICE_ERR_INVALID_ARGUMENT, words);
    };
    options.least = 3;
    options.most = 2;
    refused({"at least 3 members and at most 2"});
    options = COPPICE_RENEW_OPTIONS_INIT;
    const int two = 2;
    std::memcpy(&options.numbering, &two, sizeof two);
    refused({"2 is no numbering"});
    options = COPPICE_RENEW_OPTIONS_INIT;
    options.struct_size = 8;
    refused({"COPPICE_RENEW_OPTIONS_INIT"});
    expect_error(coppice_group_renew(group, nullptr, nullptr, 0), COPPICE_ERR_INVALID_ARGUMENT, {"next is NULL"});
    expect_error(coppice_group_pending(group, nullptr), COPPICE_ERR_INVALID_ARGUMENT, {"pending is NULL"});
    expect_error(coppice_group_view(group, nullptr, nullptr, 0), COPPICE_ERR_INVALID_ARGUMENT, {"view is NULL"});
    coppice_view_t view{};
    expect_error(coppice_group_view(group, &view, nullptr, 0), COPPICE_ERR_INVALID_ARGUMENT, {"struct_size"});
    view.struct_size = sizeof view;
    expect_error(coppice_group_view(group, &view, nullptr, 1), COPPICE_ERR_INVALID_ARGUMENT, {"members is NULL"});
    coppice_member_t member{};
    ASSERT_EQ(coppice_group_view(group, &view, &member, 1), COPPICE_OK);
    EXPECT_EQ(view.epoch, 0U);
    EXPECT_EQ(view.size, 1U);
    EXPECT_EQ(view.newcomers, 1U);
    EXPECT_EQ(view.eldest, 0U);
    EXPECT_EQ(member.seat, 0U);
    EXPECT_EQ(member.before, COPPICE_NOBODY);
}

TEST_F(Alone, WhatMayBeNullMayBe) {
    std::size_t count = 7;
    EXPECT_EQ(coppice_group_failed(group, nullptr, 0, &count), COPPICE_OK);
    EXPECT_EQ(count, 0U);
    EXPECT_EQ(coppice_broadcast(group, nullptr, 0, 0, nullptr, kDeadlineNs), COPPICE_OK);
    coppice_request_t* request = nullptr;
    ASSERT_EQ(coppice_broadcast_view_nb(group, nullptr, 0, 0, &request), COPPICE_OK);
    EXPECT_EQ(coppice_request_wait(request, nullptr, kDeadlineNs), COPPICE_OK);
    EXPECT_EQ(coppice_request_free(request), COPPICE_OK);
}

TEST_F(Alone, ABufferMustBeThereWhenItHasBytes) {
    coppice_request_t* request = nullptr;
    expect_error(coppice_broadcast(group, nullptr, 5, 0, nullptr, kDeadlineNs), COPPICE_ERR_INVALID_ARGUMENT,
                 {"NULL", "5"});
    expect_error(coppice_broadcast_nb(group, nullptr, 5, 0, &request), COPPICE_ERR_INVALID_ARGUMENT, {"NULL", "5"});
    expect_error(coppice_broadcast_view_nb(group, nullptr, 5, 0, &request), COPPICE_ERR_INVALID_ARGUMENT,
                 {"NULL", "5"});
    EXPECT_EQ(request, nullptr);
}

TEST_F(Alone, RootsOutsideOfTheGroupAreRefusedAndCountForNothing) {
    char byte = 4;
    coppice_request_t* request = nullptr;
    for (const std::uint32_t root : {1U, 2U, 0x80000000U, UINT32_MAX}) {
        expect_error(coppice_broadcast(group, &byte, 1, root, nullptr, kDeadlineNs), COPPICE_ERR_OUT_OF_RANGE,
                     {"root " + std::to_string(root)});
        expect_error(coppice_broadcast_nb(group, &byte, 1, root, &request), COPPICE_ERR_OUT_OF_RANGE);
        expect_error(coppice_broadcast_view_nb(group, &byte, 1, root, &request), COPPICE_ERR_OUT_OF_RANGE);
        EXPECT_EQ(request, nullptr);
    }
    EXPECT_EQ(coppice_broadcast(group, &byte, 1, 0, nullptr, kDeadlineNs), COPPICE_OK);
}

TEST_F(Alone, PayloadsUpToTheLargestAreTakenAndNoByteMore) {
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(coppice_group_query(group, &info), COPPICE_OK);
    ASSERT_GE(info.max_payload, 8192U);
    std::vector<char> payload(1 << 20);
    coppice_request_t* request = nullptr;
    EXPECT_EQ(coppice_broadcast(group, payload.data(), payload.size(), 0, nullptr, kDeadlineNs), COPPICE_OK);
    const std::string limit = std::to_string(info.max_payload);
    for (const std::size_t bytes : {info.max_payload + 1, std::size_t{SIZE_MAX}}) {
        expect_error(coppice_broadcast(group, payload.data(), bytes, 0, nullptr, kDeadlineNs), COPPICE_ERR_TOO_LARGE,
                     {std::to_string(bytes), limit});
        expect_error(coppice_broadcast_nb(group, payload.data(), bytes, 0, &request), COPPICE_ERR_TOO_LARGE, {limit});
        expect_error(coppice_broadcast_view_nb(group, payload.data(), bytes, 0, &request), COPPICE_ERR_TOO_LARGE,
                     {limit});
        EXPECT_EQ(request, nullptr);
    }
}

TEST(Sizes, StructsThatAreTooSmallAreRefusedAndLargerOnesAreNot) {
    coppice_context_t* context = nullptr;
    coppice_context_options_t options = COPPICE_CONTEXT_OPTIONS_INIT;
    for (const std::size_t size : {std::size_t{0}, sizeof options - 1}) {
        options.struct_size = size;
        expect_error(coppice_context_create(&options, &context), COPPICE_ERR_INVALID_ARGUMENT,
                     {"options.struct_size", "COPPICE_CONTEXT_OPTIONS_INIT"});
        EXPECT_EQ(context, nullptr);
    }
    options.struct_size = sizeof options + 64;  // a program built against a later version
    ASSERT_EQ(coppice_context_create(&options, &context), COPPICE_OK);

    coppice_group_t* group = nullptr;
    coppice_group_options_t group_options = options_alone();
    // Shorter than in the first version; later fields may be missing.
    const std::size_t least = offsetof(coppice_group_options_t, agreement_tree) + sizeof group_options.agreement_tree;
    for (const std::size_t size : {std::size_t{0}, least - 1}) {
        group_options.struct_size = size;
        expect_error(coppice_group_create(context, &group_options, &group), COPPICE_ERR_INVALID_ARGUMENT,
                     {"struct_size", "COPPICE_GROUP_OPTIONS_INIT"});
        EXPECT_EQ(group, nullptr);
    }
    group_options.struct_size = sizeof group_options + 64;
    ASSERT_EQ(coppice_group_create(context, &group_options, &group), COPPICE_OK);

    coppice_group_info_t info{};
    const std::size_t first = offsetof(coppice_group_info_t, refused) + sizeof info.refused;
    for (const std::size_t size : {std::size_t{0}, first - 1}) {
        info.struct_size = size;
        info.size = 99;
        expect_error(coppice_group_query(group, &info), COPPICE_ERR_INVALID_ARGUMENT, {"struct_size"});
        EXPECT_EQ(info.size, 99U) << "nothing is written";
    }
    info.struct_size = sizeof info;
    ASSERT_EQ(coppice_group_query(group, &info), COPPICE_OK);
    EXPECT_EQ(info.rank, 0U);
    EXPECT_EQ(info.size, 1U);
    EXPECT_EQ(info.hosts, 1U);
    EXPECT_EQ(info.connections, 0U);
    EXPECT_EQ(coppice_group_destroy(group, kDeadlineNs), COPPICE_OK);
    EXPECT_EQ(coppice_context_destroy(context), COPPICE_OK);
}

TEST_F(Alone, RanksAndSizesOutOfRangeAreRefused) {
    struct Case {
        std::uint32_t rank, size;
        std::string word;
    };
    coppice_group_t* other = nullptr;
    for (const Case& wrong :
         {Case{0, 0, "size is 0"}, Case{1, 1, "rank 1"}, Case{5, 3, "rank 5"}, Case{UINT32_MAX, 3, "rank 4294967295"},
          Case{0, UINT32_MAX, "size 4294967295"}, Case{0, 1048577, "1048576"}}) {
        coppice_group_options_t options = options_alone();
        options.rank = wrong.rank;
        options.size = wrong.size;
        expect_error(coppice_group_create(context, &options, &other), COPPICE_ERR_OUT_OF_RANGE, {wrong.word});
        EXPECT_EQ(other, nullptr);
    }
}

TEST_F(Alone, ListsOfRanksThatAreNoneAreRefused) {
    const std::array<std::uint32_t, 3> list{1, 2, 2};
    coppice_group_t* other = nullptr;
    const auto expect = [&](const std::uint32_t* ranks, std::size_t count, coppice_status_t status, const char* word) {
        coppice_group_options_t options = options_alone();
        options.rank = 1;
        options.size = 2;
        options.ranks = ranks;
        options.rank_count = count;
        expect_error(coppice_group_create(context, &options, &other), status, {word});
        EXPECT_EQ(other, nullptr);
    };
    expect(nullptr, 1, COPPICE_ERR_INVALID_ARGUMENT, "options.rank_count");
    expect(list.data(), 0, COPPICE_ERR_INVALID_ARGUMENT, "options.ranks");
    expect(list.data(), 2, COPPICE_ERR_OUT_OF_RANGE, "has 2, which is outside of 0…1");
    expect(list.data() + 1, 1, COPPICE_ERR_OUT_OF_RANGE, "has 2");
    const std::array<std::uint32_t, 2> twice{1, 1};
    expect(twice.data(), 2, COPPICE_ERR_INVALID_ARGUMENT, "has 1 twice");
    const std::array<std::uint32_t, 1> others{0};
    expect(others.data(), 1, COPPICE_ERR_INVALID_ARGUMENT, "is not in their list");
}

TEST_F(Alone, AContextWithGroupsIsBusy) {
    expect_error(coppice_context_destroy(context), COPPICE_ERR_BUSY, {"groups"});
    char byte = 0;
    EXPECT_EQ(coppice_broadcast(group, &byte, 1, 0, nullptr, kDeadlineNs), COPPICE_OK);
}

TEST_F(Alone, AGroupWithOpenRequestsIsBusy) {
    char byte = 0;
    coppice_request_t* requests[2] = {};
    for (coppice_request_t*& request : requests) {
        ASSERT_EQ(coppice_broadcast_nb(group, &byte, 1, 0, &request), COPPICE_OK);
    }
    expect_error(coppice_group_destroy(group, kDeadlineNs), COPPICE_ERR_BUSY, {"2 requests"});
    EXPECT_EQ(coppice_request_free(requests[0]), COPPICE_OK);
    expect_error(coppice_group_destroy(group, 0), COPPICE_ERR_BUSY, {"1 requests"});
    EXPECT_EQ(coppice_request_wait(requests[1], nullptr, kDeadlineNs), COPPICE_OK) << "the group is as it was";
    EXPECT_EQ(coppice_request_free(requests[1]), COPPICE_OK);
}

TEST_F(Alone, RequestsAndViewsAreBoundedAndSaySo) {
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(coppice_group_query(group, &info), COPPICE_OK);
    char byte = 1;
    coppice_request_t* refused = nullptr;
    std::vector<coppice_request_t*> views(info.window);
    for (coppice_request_t*& view : views)
        ASSERT_EQ(coppice_broadcast_view_nb(group, &byte, 1, 0, &view), COPPICE_OK);
    expect_error(coppice_broadcast_view_nb(group, &byte, 1, 0, &refused), COPPICE_ERR_BUSY,
                 {std::to_string(info.window)});
    expect_error(coppice_broadcast(group, &byte, 1, 0, nullptr, 1), COPPICE_ERR_BUSY, {"window"});
    EXPECT_EQ(coppice_request_free(views[0]), COPPICE_OK);
    EXPECT_EQ(coppice_broadcast(group, &byte, 1, 0, nullptr, kDeadlineNs), COPPICE_OK);
    for (std::size_t i = 1; i < views.size(); ++i)
        EXPECT_EQ(coppice_request_free(views[i]), COPPICE_OK);

    std::vector<coppice_request_t*> copies(2 * info.window);
    for (coppice_request_t*& copy : copies)
        ASSERT_EQ(coppice_broadcast_nb(group, &byte, 1, 0, &copy), COPPICE_OK);
    expect_error(coppice_broadcast_nb(group, &byte, 1, 0, &refused), COPPICE_ERR_BUSY, {"free"});
    EXPECT_EQ(refused, nullptr);
    for (coppice_request_t* copy : copies)
        EXPECT_EQ(coppice_request_free(copy), COPPICE_OK);
}

TEST_F(Alone, RegisteredRangesMustNotOverlap) {
    std::vector<char> memory(300);
    char* const at = memory.data() + 100;
    ASSERT_EQ(coppice_memory_register(group, at, 100), COPPICE_OK);
    struct Range {
        std::ptrdiff_t begin;
        std::size_t bytes;
    };
    for (const Range& range : {Range{0, 100}, Range{0, 1}, Range{99, 1}, Range{50, 10}, Range{-100, 101},
                               Range{-100, 300}, Range{99, 100}}) {
        expect_error(coppice_memory_register(group, at + range.begin, range.bytes), COPPICE_ERR_BUSY, {"overlap"});
    }
    for (const Range& range : {Range{-100, 100}, Range{100, 100}}) {
        EXPECT_EQ(coppice_memory_register(group, at + range.begin, range.bytes), COPPICE_OK) << range.begin;
    }
    expect_error(coppice_memory_deregister(group, at + 1), COPPICE_ERR_INVALID_ARGUMENT);
    expect_error(coppice_memory_deregister(group, nullptr), COPPICE_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(coppice_memory_deregister(group, at), COPPICE_OK);
    expect_error(coppice_memory_deregister(group, at), COPPICE_ERR_INVALID_ARGUMENT, {"no range"});
    EXPECT_EQ(coppice_memory_register(group, at, 100), COPPICE_OK) << "free again";
}

TEST_F(Alone, MemoryOfTheLibraryIsFreedOnceAndBroadcastWithinItsBounds) {
    constexpr std::size_t kBytes = 100'000;
    void* memory = nullptr;
    expect_error(coppice_memory_allocate(group, 0, &memory), COPPICE_ERR_INVALID_ARGUMENT, {"0 bytes"});
    expect_error(coppice_memory_allocate(group, SIZE_MAX, &memory), COPPICE_ERR_TOO_LARGE);
    EXPECT_EQ(memory, nullptr);
    ASSERT_EQ(coppice_memory_allocate(group, kBytes, &memory), COPPICE_OK) << coppice_last_error();
    char* const at = static_cast<char*>(memory);
    std::memset(at, 1, kBytes);
    expect_error(coppice_broadcast(group, at + 1, kBytes, 0, nullptr, kDeadlineNs), COPPICE_ERR_INVALID_ARGUMENT,
                 {"100000 bytes", "beyond the 99999"});
    EXPECT_EQ(coppice_broadcast(group, at + 1, kBytes - 1, 0, nullptr, kDeadlineNs), COPPICE_OK);
    expect_error(coppice_memory_free(group, at + 1), COPPICE_ERR_INVALID_ARGUMENT, {"no memory that begins at"});
    // What is still in use is kept, and no more to be sent.
    coppice_request_t* request = nullptr;
    ASSERT_EQ(coppice_broadcast_view_nb(group, at, kBytes, 0, &request), COPPICE_OK) << coppice_last_error();
    EXPECT_EQ(coppice_memory_free(group, at), COPPICE_OK);
    expect_error(coppice_memory_free(group, at), COPPICE_ERR_INVALID_ARGUMENT, {"no memory that begins at"});
    expect_error(coppice_broadcast(group, at, kBytes, 0, nullptr, kDeadlineNs), COPPICE_ERR_INVALID_ARGUMENT,
                 {"has been freed"});
    const void* view = nullptr;
    std::size_t bytes = 0;
    ASSERT_EQ(coppice_request_view(request, &view, &bytes), COPPICE_OK);
    EXPECT_EQ(view, at);
    EXPECT_EQ(std::count(at, at + kBytes, 1), static_cast<std::ptrdiff_t>(kBytes));
    EXPECT_EQ(coppice_request_free(request), COPPICE_OK);
    EXPECT_EQ(coppice_memory_free(group, nullptr), COPPICE_OK);
}

TEST_F(Alone, RangesOfNothingOrBeyondMemoryAreRefused) {
    char byte = 0;
    expect_error(coppice_memory_register(group, &byte, 0), COPPICE_ERR_INVALID_ARGUMENT, {"0 bytes"});
    expect_error(coppice_memory_register(group, &byte, SIZE_MAX), COPPICE_ERR_INVALID_ARGUMENT, {"end of memory"});
    EXPECT_EQ(coppice_memory_register(group, &byte, 1), COPPICE_OK);
}

}  // namespace
}  // namespace coppice::testing
