// The life of requests between two ranks, which live in this process and are moved by one thread.
#include <algorithm>

#include "api/support.hpp"

namespace coppice::testing {
namespace {

class Requests : public ::testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        const Variable hierarchy("COPPICE_HIERARCHY", GetParam());
        pair.make();
        pair.expect_well();
    }
    void TearDown() override {
        pair.unmake();
        pair.expect_well();
    }
    coppice_group_t* group(int rank) const { return pair.side[rank].group; }
    // A broadcast of both from rank 0, while nothing else is under way.
    void broadcast_both(char value) {
        char mine = value;
        char theirs = 0;
        ASSERT_EQ(coppice_broadcast(group(0), &mine, 1, 0, nullptr, kDeadlineNs), COPPICE_OK) << coppice_last_error();
        ASSERT_EQ(coppice_broadcast(group(1), &theirs, 1, 0, nullptr, kDeadlineNs), COPPICE_OK) << coppice_last_error();
        EXPECT_EQ(theirs, value);
    }
    Pair pair;
};
INSTANTIATE_TEST_SUITE_P(Layouts, Requests, ::testing::Values("host", "flat"),
                         [](const auto& layout) { return std::string(layout.param); });

TEST_P(Requests, OneUnderWayHasNoResultYetAndNoView) {
    coppice_request_t* request = nullptr;
    const void* payload = nullptr;
    std::size_t bytes = 0;
    ASSERT_EQ(coppice_broadcast_view_nb(group(1), nullptr, 0, 0, &request), COPPICE_OK);
    EXPECT_EQ(coppice_request_test(request, nullptr), COPPICE_IN_PROGRESS);
    expect_error(coppice_request_view(request, &payload, &bytes), COPPICE_ERR_INVALID_ARGUMENT, {"ended"});
    expect_error(coppice_request_wait(request, nullptr, 1'000'000), COPPICE_ERR_TIMEOUT, {"rank 0"});
    expect_error(coppice_request_wait(request, nullptr, 0), COPPICE_ERR_TIMEOUT, {"rank 0"});
    expect_error(coppice_group_destroy(group(1), kDeadlineNs), COPPICE_ERR_BUSY, {"1 requests"});

    std::string text = "payload";
    ASSERT_EQ(coppice_broadcast(group(0), text.data(), text.size(), 0, nullptr, kDeadlineNs), COPPICE_OK);
    ASSERT_EQ(coppice_request_wait(request, nullptr, kDeadlineNs), COPPICE_OK) << coppice_last_error();
    ASSERT_EQ(coppice_request_view(request, &payload, &bytes), COPPICE_OK);
    EXPECT_EQ(std::string(static_cast<const char*>(payload), bytes), text);
    EXPECT_EQ(coppice_request_free(request), COPPICE_OK);
}

TEST_P(Requests, OneThatHasEndedSaysSoAsOftenAsItIsAsked) {
    std::string text = "again and again";
    char buffer[100] = {};
    coppice_request_t* request = nullptr;
    ASSERT_EQ(coppice_broadcast_nb(group(1), buffer, sizeof buffer, 0, &request), COPPICE_OK);
    ASSERT_EQ(coppice_broadcast(group(0), text.data(), text.size(), 0, nullptr, kDeadlineNs), COPPICE_OK);
    for (int i = 0; i < 3; ++i) {
        std::size_t received = 0;
        ASSERT_EQ(coppice_request_wait(request, &received, kDeadlineNs), COPPICE_OK) << coppice_last_error();
        EXPECT_EQ(received, text.size());
        received = 0;
        EXPECT_EQ(coppice_request_test(request, &received), COPPICE_OK);
        EXPECT_EQ(received, text.size());
        EXPECT_EQ(coppice_request_wait(request, nullptr, 0), COPPICE_OK) << "no time is needed any more";
    }
    EXPECT_EQ(std::string(buffer), text);
    broadcast_both(5);
    EXPECT_EQ(coppice_request_test(request, nullptr), COPPICE_OK) << "later broadcasts do not change it";
    EXPECT_EQ(coppice_request_free(request), COPPICE_OK);
}

TEST_P(Requests, OneThatFailedSaysSoAsOftenAsItIsAsked) {
    std::string text = "too much";
    char buffer[3] = {'a', 'b', 'c'};
    coppice_request_t* request = nullptr;
    const void* payload = nullptr;
    std::size_t bytes = 0;
    ASSERT_EQ(coppice_broadcast_nb(group(1), buffer, sizeof buffer, 0, &request), COPPICE_OK);
    ASSERT_EQ(coppice_broadcast(group(0), text.data(), text.size(), 0, nullptr, kDeadlineNs), COPPICE_OK);
    for (int i = 0; i < 3; ++i) {
        std::size_t received = 0;
        expect_error(coppice_progress(nullptr), COPPICE_ERR_INVALID_ARGUMENT);  // another error in between
        expect_error(coppice_request_wait(request, &received, kDeadlineNs), COPPICE_ERR_TRUNCATED,
                     {"rank 0", "8", "3"});
        EXPECT_EQ(received, text.size());
        expect_error(coppice_progress(nullptr), COPPICE_ERR_INVALID_ARGUMENT);
        expect_error(coppice_request_test(request, nullptr), COPPICE_ERR_TRUNCATED, {"rank 0", "8", "3"});
        expect_error(coppice_request_view(request, &payload, &bytes), COPPICE_ERR_INVALID_ARGUMENT);
    }
    EXPECT_EQ(std::string(buffer, 3), "abc");
    EXPECT_EQ(coppice_request_free(request), COPPICE_OK);
    broadcast_both(6);
}

TEST_P(Requests, OneThatCopiesHasNoView) {
    coppice_request_t* request = nullptr;
    const void* payload = nullptr;
    std::size_t bytes = 0;
    char byte = 0;
    ASSERT_EQ(coppice_broadcast_nb(group(1), &byte, 1, 0, &request), COPPICE_OK);
    for (int i = 0; i < 2; ++i) {
        expect_error(coppice_request_view(request, &payload, &bytes), COPPICE_ERR_INVALID_ARGUMENT,
                     {"coppice_broadcast_view_nb"});
        if (i == 0) {
            char value = 3;
            ASSERT_EQ(coppice_broadcast(group(0), &value, 1, 0, nullptr, kDeadlineNs), COPPICE_OK);
            ASSERT_EQ(coppice_request_wait(request, nullptr, kDeadlineNs), COPPICE_OK);
        }
    }
    EXPECT_EQ(payload, nullptr);
    EXPECT_EQ(coppice_request_free(request), COPPICE_OK);
}

TEST_P(Requests, OneFreedUnderWayTouchesItsBufferNoMore) {
    for (const bool view : {false, true}) {
        char given_up[8] = {'u', 'n', 't', 'o', 'u', 'c', 'h', 'e'};
        char payload[8] = {};
        coppice_request_t* request = nullptr;
        const coppice_status_t started = view ? coppice_broadcast_view_nb(group(1), nullptr, 0, 0, &request)
                                              : coppice_broadcast_nb(group(1), given_up, sizeof given_up, 0, &request);
        ASSERT_EQ(started, COPPICE_OK);
        ASSERT_EQ(coppice_request_free(request), COPPICE_OK);
        ASSERT_EQ(coppice_broadcast(group(0), payload, sizeof payload, 0, nullptr, kDeadlineNs), COPPICE_OK);
        for (char value = 1; value < 100; ++value)
            broadcast_both(value);  // several windows
        EXPECT_EQ(std::string(given_up, 8), "untouche");
    }
}

TEST_P(Requests, SeveralEndInAnyOrderTheyAreWaitedFor) {
    constexpr int kCount = 10;
    char buffers[kCount] = {};
    coppice_request_t* requests[kCount] = {};
    for (int i = 0; i < kCount; ++i) {
        ASSERT_EQ(coppice_broadcast_nb(group(1), &buffers[i], 1, 0, &requests[i]), COPPICE_OK);
    }
    for (int i = 0; i < kCount; ++i) {
        auto value = static_cast<char>(i + 1);
        ASSERT_EQ(coppice_broadcast(group(0), &value, 1, 0, nullptr, kDeadlineNs), COPPICE_OK);
    }
    for (int i = kCount - 1; i >= 0; --i) {
        ASSERT_EQ(coppice_request_wait(requests[i], nullptr, kDeadlineNs), COPPICE_OK) << coppice_last_error();
        EXPECT_EQ(buffers[i], i + 1);
        EXPECT_EQ(coppice_request_free(requests[i]), COPPICE_OK);
    }
}

TEST_P(Requests, OneThatHasBeenFreedIsKnownAsSuch) {
    char byte = 0;
    coppice_request_t* first = nullptr;
    ASSERT_EQ(coppice_broadcast_nb(group(1), &byte, 1, 0, &first), COPPICE_OK);
    char value = 9;
    ASSERT_EQ(coppice_broadcast(group(0), &value, 1, 0, nullptr, kDeadlineNs), COPPICE_OK);
    ASSERT_EQ(coppice_request_wait(first, nullptr, kDeadlineNs), COPPICE_OK);
    ASSERT_EQ(coppice_request_free(first), COPPICE_OK);
    const auto check = [&] {
        const void* payload = nullptr;
        std::size_t size = 0;
        expect_error(coppice_request_free(first), COPPICE_ERR_INVALID_ARGUMENT, {"coppice_request_free", "freed"});
        expect_error(coppice_request_test(first, nullptr), COPPICE_ERR_INVALID_ARGUMENT, {"freed"});
        expect_error(coppice_request_wait(first, nullptr, kDeadlineNs), COPPICE_ERR_INVALID_ARGUMENT, {"freed"});
        expect_error(coppice_request_view(first, &payload, &size), COPPICE_ERR_INVALID_ARGUMENT, {"freed"});
        expect_error(coppice_request_agreed(first, nullptr, 0, &size), COPPICE_ERR_INVALID_ARGUMENT, {"freed"});
    };
    check();

    // All requests of the group, so one of them has the place of the first: two never have one place.
    std::vector<coppice_request_t*> all;
    std::vector<char> bytes(64, 0);
    while (true) {
        coppice_request_t* request = nullptr;
        const coppice_status_t status = coppice_broadcast_nb(group(1), &bytes[all.size()], 1, 0, &request);
        if (status == COPPICE_ERR_BUSY) break;
        ASSERT_EQ(status, COPPICE_OK) << coppice_last_error();
        all.push_back(request);
    }
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
    check();
    for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(coppice_broadcast(group(0), &value, 1, 0, nullptr, kDeadlineNs), COPPICE_OK) << coppice_last_error();
    for (coppice_request_t* request : all) {
        EXPECT_EQ(coppice_request_wait(request, nullptr, kDeadlineNs), COPPICE_OK);
        EXPECT_EQ(coppice_request_free(request), COPPICE_OK);
        expect_error(coppice_request_free(request), COPPICE_ERR_INVALID_ARGUMENT, {"freed"});
    }
    broadcast_both(4);
}

}  // namespace
}  // namespace coppice::testing
