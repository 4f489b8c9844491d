// Blocking broadcasts that need not wait take a shortcut, on one host and over messages. Mixed with all that does not, nobody
// sees a difference. Two ranks, or three, live in this process and are moved by one thread, so what is there already at each call is
// certain.
#include <algorithm>
#include <array>
#include <numeric>

#include "api/support.hpp"

namespace coppice::testing {
namespace {

constexpr std::uint64_t kWindow = 8;
// Around the widths in which few bytes are copied, and the largest.
constexpr std::array<std::size_t, 15> kSizes = {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 40, 41, 500, 8192};

class AtOnce : public ::testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        const Variable window("COPPICE_WINDOW", std::to_string(kWindow).c_str());
        const Variable hierarchy("COPPICE_HIERARCHY", GetParam());
        const Variable correction("COPPICE_CORRECTION", "opportunistic:1");
        const Variable thread("COPPICE_PROGRESS_THREAD", "0");
        pair.make();
        pair.expect_well();
    }
    void TearDown() override {
        pair.unmake();
        pair.expect_well();
    }
    coppice_group_t* group(std::uint32_t rank) const { return pair.side[rank].group; }

    static std::vector<unsigned char> payload_of(std::uint64_t number) {
        std::vector<unsigned char> payload(kSizes[number % kSizes.size()]);
        std::iota(payload.begin(), payload.end(), static_cast<unsigned char>(number * 37));
        return payload;
    }
    bool by_messages() const { return std::string_view(GetParam()) == "flat"; }
    // Over messages what is consumed is told by messages, too.
    void hear_of_room() const {
        for (int round = 0; by_messages() && round < 8; ++round)
            for (const Pair::Side& one : pair.side)
                ASSERT_EQ(coppice_progress(one.context), COPPICE_OK) << coppice_last_error();
    }
    void send(std::uint32_t root, std::uint64_t number) {
        std::vector<unsigned char> payload = payload_of(number);
        std::size_t sent = 1;
        hear_of_room_now_and_then();
        ASSERT_EQ(coppice_broadcast(group(root), payload.data(), payload.size(), root, &sent, 0), COPPICE_OK)
            << coppice_last_error();
        EXPECT_EQ(sent, payload.size());
    }
    // With room for just that, and a byte behind it.
    void receive(std::uint32_t root, std::uint64_t number) {
        const std::vector<unsigned char> expected = payload_of(number);
        std::vector<unsigned char> buffer(expected.size() + 1, 0xee);
        std::size_t received = 1;
        ASSERT_EQ(coppice_broadcast(group(1 - root), buffer.data(), expected.size(), root, &received, 0), COPPICE_OK)
            << coppice_last_error();
        EXPECT_EQ(received, expected.size());
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), buffer.begin())) << "broadcast " << number;
        EXPECT_EQ(buffer.back(), 0xee);
    }
    // Seldom, so that nothing but the broadcasts takes messages in meanwhile.
    void hear_of_room_now_and_then() {
        if (++sent_ % (kWindow / 2) == 0) hear_of_room();
    }
    Pair pair;
    std::uint64_t sent_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Layouts, AtOnce, ::testing::Values("host", "flat"));

TEST_P(AtOnce, MixesWithEverythingElse) {
    coppice_request_t* view = nullptr;
    std::uint64_t viewed = 0;
    const auto check_view = [&] {
        const void* payload = nullptr;
        std::size_t bytes = 0;
        ASSERT_EQ(coppice_request_view(view, &payload, &bytes), COPPICE_OK) << coppice_last_error();
        const std::vector<unsigned char> expected = payload_of(viewed);
        ASSERT_EQ(bytes, expected.size());
        EXPECT_EQ(std::memcmp(payload, expected.data(), bytes), 0) << "broadcast " << viewed;
    };
    for (std::uint64_t number = 0; number < 40 * kSizes.size(); ++number) {
        const auto root = static_cast<std::uint32_t>(number / 5 % 2);
        // A view is held over calls of all kinds, until the window is nearly full. Counts that messages tell are told every
        // half window, or when a rank has waited.
        if (view != nullptr && number - viewed >= (by_messages() ? kWindow / 2 : kWindow) - 1) {
            check_view();
            ASSERT_EQ(coppice_request_free(view), COPPICE_OK);
            view = nullptr;
        }
        if (number % 7 >= 5) hear_of_room();
        coppice_request_t* request = nullptr;
        std::vector<unsigned char> buffer = payload_of(number);
        switch (number % 7) {
            case 3:  // the receiver is there first
                std::ranges::fill(buffer, 0);
                ASSERT_EQ(coppice_broadcast_nb(group(1 - root), buffer.data(), buffer.size(), root, &request),
                          COPPICE_OK);
                send(root, number);
                ASSERT_EQ(coppice_request_wait(request, nullptr, kDeadlineNs), COPPICE_OK) << coppice_last_error();
                EXPECT_EQ(buffer, payload_of(number));
                break;
            case 5:
                ASSERT_EQ(coppice_broadcast_nb(group(root), buffer.data(), buffer.size(), root, &request), COPPICE_OK);
                receive(root, number);
                ASSERT_EQ(coppice_request_wait(request, nullptr, kDeadlineNs), COPPICE_OK) << coppice_last_error();
                break;
            case 6:
                send(root, number);
                ASSERT_EQ(coppice_broadcast_view_nb(group(1 - root), nullptr, 0, root, &request), COPPICE_OK);
                ASSERT_EQ(coppice_request_wait(request, nullptr, kDeadlineNs), COPPICE_OK) << coppice_last_error();
                if (view == nullptr) {
                    viewed = number;
                    std::swap(view, request);
                }
                break;
            default:
                send(root, number);
                receive(root, number);
        }
        ASSERT_EQ(coppice_request_free(request), COPPICE_OK);
        if (view != nullptr) check_view();
    }
    EXPECT_EQ(coppice_request_free(view), COPPICE_OK);
    hear_of_room();
}

TEST_P(AtOnce, ANonBlockingOneTellsWhatItHasReceived) {
    for (std::uint64_t number = 0; number < 4 * kSizes.size(); ++number) {
        const auto root = static_cast<std::uint32_t>(number / 3 % 2);
        const std::vector<unsigned char> expected = payload_of(number);
        const auto ends = [&](std::uint32_t rank, std::vector<unsigned char>& buffer) {
            coppice_request_t* request = nullptr;
            std::size_t received = buffer.size() + 1;
            ASSERT_EQ(coppice_broadcast_nb(group(rank), buffer.data(), buffer.size(), root, &request), COPPICE_OK)
                << coppice_last_error();
            ASSERT_EQ(coppice_request_wait(request, &received, kDeadlineNs), COPPICE_OK) << coppice_last_error();
            EXPECT_EQ(received, expected.size()) << "rank " << rank << ", broadcast " << number;
            ASSERT_EQ(coppice_request_free(request), COPPICE_OK);
        };
        hear_of_room();
        std::vector<unsigned char> payload = expected;
        ends(root, payload);
        std::vector<unsigned char> buffer(expected.size() + 1, 0xee);
        ends(1 - root, buffer);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), buffer.begin())) << "broadcast " << number;
        EXPECT_EQ(buffer.back(), 0xee);
    }
    hear_of_room();
}

TEST_P(AtOnce, ARootIsAWindowAheadAtMost) {
    std::uint64_t number = 0;
    for (int round = 0; round < 5; ++round) {
        for (std::uint64_t i = 0; i < kWindow; ++i)
            send(0, number + i);
        expect_error(coppice_broadcast(group(0), nullptr, 0, 0, nullptr, 0), COPPICE_ERR_BUSY,
                     {"rank 1 has not consumed broadcast " + std::to_string(number)});
        receive(0, number++);
        // Over messages counts travel for several at a time.
        const std::uint64_t sooner = by_messages() ? 0 : 1;
        if (sooner > 0) send(0, number + kWindow - 1);
        for (std::uint64_t i = 1; i < kWindow + sooner; ++i)
            receive(0, number++);
        hear_of_room();
    }
}

// A receiver that holds a view is a window ahead of it at most, although all else is there.
// No call but broadcasts, none of which waits: they tell each other what has been consumed.
TEST_P(AtOnce, AStreamGoesOnWithoutAnyOtherCall) {
    std::array<char, 8> value{};
    for (std::uint64_t number = 0; number < 20 * kWindow; ++number) {
        for (const std::uint32_t rank : {0U, 1U})
            ASSERT_EQ(coppice_broadcast(group(rank), value.data(), value.size(), 0, nullptr, 0), COPPICE_OK)
                << "rank " << rank << ", broadcast " << number << ": " << coppice_last_error();
    }
}

TEST_P(AtOnce, AViewHoldsTheWindow) {
    coppice_request_t* view = nullptr;
    send(0, 0);
    ASSERT_EQ(coppice_broadcast_view_nb(group(1), nullptr, 0, 0, &view), COPPICE_OK);
    for (std::uint64_t number = 1; number < kWindow; ++number) {
        send(0, number);
        receive(0, number);
    }
    expect_error(coppice_broadcast(group(0), nullptr, 0, 0, nullptr, 0), COPPICE_ERR_BUSY, {"rank 1"});
    expect_error(coppice_broadcast(group(1), nullptr, 0, 1, nullptr, 0), COPPICE_ERR_BUSY);
    ASSERT_EQ(coppice_request_free(view), COPPICE_OK);
    hear_of_room();
    send(0, kWindow);
    receive(0, kWindow);
}

// What is refused has not begun; what ends badly has taken its place in the order, at both.
TEST_P(AtOnce, MistakesAreToldAsEver) {
    std::array<char, 8193> buffer{};
    for (int round = 0; round < 3; ++round) {
        expect_error(coppice_broadcast(group(0), buffer.data(), 1, 2, nullptr, 0), COPPICE_ERR_OUT_OF_RANGE,
                     {"root 2"});
        expect_error(coppice_broadcast(group(0), buffer.data(), (std::size_t{1} << 40) + 1, 0, nullptr, 0),
                     COPPICE_ERR_TOO_LARGE, {"1099511627777"});
        expect_error(coppice_broadcast(group(0), nullptr, 1, 0, nullptr, 0), COPPICE_ERR_INVALID_ARGUMENT, {"NULL"});
        send(0, 6);
        expect_error(coppice_broadcast(group(1), nullptr, 8, 0, nullptr, 0), COPPICE_ERR_INVALID_ARGUMENT, {"NULL"});
        std::size_t received = 0;
        buffer.fill('x');
        expect_error(coppice_broadcast(group(1), buffer.data(), 7, 0, &received, 0), COPPICE_ERR_TRUNCATED, {"8", "7"});
        EXPECT_EQ(received, 8U);
        EXPECT_EQ(buffer[0], 'x');
        send(1, 9);
        receive(1, 9);
    }
}

TEST_P(AtOnce, ARevokedGroupTakesNothingMore) {
    char value = 1;
    send(0, 0);
    receive(0, 0);
    send(0, 1);
    ASSERT_EQ(coppice_group_revoke(group(1)), COPPICE_OK);
    expect_error(coppice_broadcast(group(1), &value, 1, 0, nullptr, 0), COPPICE_ERR_REVOKED, {"rank 1"});
    expect_error(coppice_broadcast(group(1), &value, 1, 1, nullptr, 0), COPPICE_ERR_REVOKED, {"rank 1"});
    // A rank that never has to wait hears of it within a window.
    coppice_status_t status = COPPICE_OK;
    for (std::uint64_t call = 0; call < kWindow && status == COPPICE_OK; ++call)
        status = coppice_broadcast(group(0), &value, 1, 0, nullptr, 0);
    expect_error(status, COPPICE_ERR_REVOKED, {"rank 1"});
}

// The payload is here when the caller comes and names another root than the others. With two ranks that would be the caller itself.
TEST(AtOnceOfThree, ThePayloadOfAnotherRootIsNotTaken) {
    const Variable hierarchy("COPPICE_HIERARCHY", "flat");
    const Variable thread("COPPICE_PROGRESS_THREAD", "0");
    Together<3> ranks;
    ranks.make();
    ranks.expect_well();
    const auto broadcast = [&](std::uint32_t rank, char& value, std::uint32_t root) {
        return coppice_broadcast(ranks.side[rank].group, &value, 1, root, nullptr, 0);
    };
    for (char number = 'a'; number < 'g'; ++number) {
        char sent = number;
        char received = '-';
        ASSERT_EQ(broadcast(0, sent, 0), COPPICE_OK) << coppice_last_error();
        ASSERT_EQ(broadcast(1, received, 0), COPPICE_OK) << coppice_last_error();
        EXPECT_EQ(received, number);
        received = '-';
        expect_error(broadcast(2, received, 1), COPPICE_ERR_MISMATCH, {"root 1", "root 0"});
        EXPECT_EQ(received, '-');
        // And the group goes on.
        ASSERT_EQ(broadcast(1, sent, 1), COPPICE_OK) << coppice_last_error();
        for (const std::uint32_t rank : {0U, 2U}) {
            ASSERT_EQ(broadcast(rank, received, 1), COPPICE_OK) << coppice_last_error();
            EXPECT_EQ(received, number);
        }
    }
    ranks.unmake();
    ranks.expect_well();
}

}  // namespace
}  // namespace coppice::testing
