// A launcher that has no descriptor left for the ranks that connect.
#include "exchange.hpp"
#include "support/shortage.hpp"

namespace coppice::bootstrap {
namespace {

TEST_F(exchange, nobody_is_woken_again_and_again_and_a_rank_that_has_connected_is_served_once_there_is_room) {
    begin(1);
    auto* const stage = finished_;
    start(0, [stage](const LauncherEnvironment& environment) {
        CHECK(reaches(*stage, 1));
        const auto bootstrap = connect(environment);
        CHECK(bootstrap != nullptr);
        return round_holds(*bootstrap, 0);
    });
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

}  // namespace
}  // namespace coppice::bootstrap
