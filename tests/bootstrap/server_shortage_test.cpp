// A launcher that has no descriptor left for the ranks that connect.
#include "exchange.hpp"
#include "support/shortage.hpp"

namespace coppice::bootstrap {
namespace {

bool connects(const std::atomic<int>& stage, const LauncherEnvironment& environment) {
    CHECK(reaches(stage, 1));
    const auto bootstrap = connect(environment);
    CHECK(bootstrap != nullptr);
    return round_holds(*bootstrap, 0);
}

TEST_F(exchange, nobody_is_woken_again_and_again_and_a_rank_that_has_connected_is_served_once_there_is_room) {
    begin(1);
    auto* const stage = finished_;
    start(0, [stage](const LauncherEnvironment& environment) { return connects(*stage, environment); });
    server_->serve();
    {
        const testing::Shortage shortage;
        *stage = 1;
        pollfd entry{.fd = server_->poll_descriptor(), .events = POLLIN, .revents = 0};
        ASSERT_EQ(::poll(&entry, 1, static_cast<int>(testing::kDeadlineNs / 1'000'000)), 1);
        EXPECT_LE(testing::count_wakes(server_->poll_descriptor(), [&] { server_->serve(); }), testing::kMostWakes);
        EXPECT_FALSE(server_->contacted());
    }
    serve_until_all_ended();
    EXPECT_TRUE(server_->gathered());
}

// It would have to be refused where one could take it in and do nothing more for it.
TEST_F(exchange, a_rank_is_not_refused_because_there_are_too_few_descriptors_for_all_that_it_takes) {
    for (const std::size_t left : {1U, 2U, 3U}) {
        begin(1);
        auto* const stage = finished_;
        start(0, [stage](const LauncherEnvironment& environment) { return connects(*stage, environment); });
        server_->serve();
        {
            const testing::Shortage shortage(left);
            *stage = 1;
            pollfd entry{.fd = server_->poll_descriptor(), .events = POLLIN, .revents = 0};
            ASSERT_EQ(::poll(&entry, 1, static_cast<int>(testing::kDeadlineNs / 1'000'000)), 1);
            for (int looks = 0; looks < 3; ++looks)
                server_->serve();
        }
        serve_until_all_ended();
        EXPECT_TRUE(server_->gathered()) << left;
        TearDown();
    }
}

}  // namespace
}  // namespace coppice::bootstrap
