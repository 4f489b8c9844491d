// Groups of some ranks: the lists, and the exchange among the ranks of each.
#include "exchange.hpp"

#include "bootstrap/callback.hpp"
#include "bootstrap/subset.hpp"

namespace coppice::bootstrap {
namespace {

using Ranks = std::vector<std::uint32_t>;

std::unique_ptr<LauncherBootstrap> connect_among(const LauncherEnvironment& environment, const Ranks& ranks) {
    auto made = LauncherBootstrap::create(environment, generous(), ranks);
    if (!made) fprintf(stderr, "%s\n", made.error().message.c_str());
    return made ? std::move(*made) : nullptr;
}

TEST(subset, translates_between_its_numbers_and_those_outside) {
    const auto some = Subset::of(Ranks{7, 2, 5}, Rank(2), 8);
    ASSERT_TRUE(some) << some.error().message;
    EXPECT_EQ(some->self(Rank(2)), Rank(1));
    EXPECT_EQ(some->size(8), 3U);
    EXPECT_EQ(some->outside(0), Rank(7));
    EXPECT_NE(some->mark(), 0U);
    const auto all = Subset::of({}, Rank(2), 8);
    ASSERT_TRUE(all && all->is_all());
    EXPECT_EQ(all->self(Rank(2)), Rank(2));
    EXPECT_EQ(all->size(8), 8U);
    EXPECT_EQ(all->outside(3), Rank(3));
    EXPECT_EQ(all->mark(), 0U);
    EXPECT_NE(Subset::of(Ranks{2, 7, 5}, Rank(2), 8)->mark(), some->mark());
}

TEST(subset, refuses_lists_that_are_none) {
    EXPECT_EQ(Subset::of(Ranks{0, 8}, Rank(0), 8).error().status, COPPICE_ERR_OUT_OF_RANGE);
    EXPECT_EQ(Subset::of(Ranks{0, 3, 0}, Rank(0), 8).error().status, COPPICE_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(Subset::of(Ranks{1, 3}, Rank(0), 8).error().status, COPPICE_ERR_INVALID_ARGUMENT);
}

TEST_F(exchange, among_some_ranks_goes_on_beside_that_of_others) {
    begin(7);
    for (std::uint32_t rank = 0; rank < 7; ++rank) {
        start(rank, [rank](const LauncherEnvironment& environment) {
            const Ranks list = rank % 2 == 0 ? Ranks{6, 4, 2, 0} : Ranks{1, 3, 5};
            for (std::uint32_t turn = 0; turn < 30; ++turn) {
                const auto some = connect_among(environment, list);
                CHECK(some && some->size() == list.size() && list[some->rank().value] == rank);
                CHECK(round_holds(*some, turn) && round_holds(*some, 100 + turn));
                if (turn % 10 != 9) continue;
                const auto all = connect(environment);  // each of the others has one, too
                CHECK(all && round_holds(*all, turn) && round_holds(*some, 200 + turn));
            }
            return true;
        });
    }
    serve_until_all_ended();
    EXPECT_EQ(server_->counters().garbage, 0U);
    serve_until([this] { return server_->generations_kept() == 0; });
}

TEST_F(exchange, among_some_ranks_goes_on_without_the_dead) {
    begin(5);
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
        start(rank, [rank](const LauncherEnvironment& environment) {
            if (rank == 4) return true;  // before it calls
            const Ranks list{4, 3, 1, 2};
            if (rank == 0) return true;  // not in the list: it ends, or lives, as it likes
            const auto some = connect_among(environment, list);
            CHECK(some && round_holds(*some, 0, {0}));
            if (rank == 1) ::raise(SIGKILL);
            CHECK(round_holds(*some, 1, {0, 2}));
            return true;
        });
    }
    serve_until_all_ended({1});
}

TEST_F(exchange, among_some_ranks_names_those_that_are_missing_as_the_launcher_does) {
    begin(4);
    start(2, [](const LauncherEnvironment&) { return ::pause() != 0; });
    start(3, [](const LauncherEnvironment& environment) {
        auto made = LauncherBootstrap::create(environment, generous(), Ranks{3, 2});
        CHECK(made.has_value());
        const auto all = (*made)->allgather({}, now_ns() + kSecond / 5);
        CHECK(!all && contains(all.error().message, "missing: rank 2 (alive, but never called)"));
        return true;
    });
    serve_until([this] { return pids_[3] < 0; });
}

TEST_F(exchange, refuses_greetings_whose_list_is_none) {
    begin(3);
    for (const Ranks& list : {Ranks{1, 2}, Ranks{0, 0}, Ranks{0, 3}, Ranks{0, UINT32_MAX}}) {
        start(0, [list](const LauncherEnvironment& environment) {
            std::vector<std::byte> body;
            append(body, HandshakeBody{0, 3});
            append_bytes(body, std::as_bytes(std::span(list)));
            const int socket = raw_connection(environment.socket_path);
            write_all(socket, make_frame(FrameKind::handshake, body));
            CHECK(contains(read_to_end(socket), "no greeting"));
            ::close(socket);
            body.pop_back();  // half a number
            const int other = raw_connection(environment.socket_path);
            write_all(other, make_frame(FrameKind::handshake, body));
            return contains(read_to_end(other), "no greeting");
        });
        serve_until([this] { return pids_[0] < 0; });
    }
    EXPECT_EQ(server_->counters().garbage, 8U);
    EXPECT_EQ(server_->generations_kept(), 0U);
}

// A list of every rank that a job may have fits into a greeting.
TEST_F(exchange, takes_the_longest_list) {
    begin(kMaxLauncherRanks);
    Ranks list;
    for (std::uint32_t rank = kMaxLauncherRanks; rank > 0; --rank)
        list.push_back(rank - 1);
    for (std::uint32_t rank = 2; rank < kMaxLauncherRanks; ++rank)
        server_->rank_ended(rank);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        start(rank, [list](const LauncherEnvironment& environment) {
            const auto some = connect_among(environment, list);
            CHECK(some != nullptr);
            const auto all = some->allgather(std::vector<std::byte>(5), generous());
            CHECK(all && (*all)[kMaxLauncherRanks - 1].size() == 5 && (*all)[kMaxLauncherRanks - 2].size() == 5);
            return true;
        });
    }
    serve_until([this] { return pids_[0] < 0 && pids_[1] < 0; });
}

// As rank 2 of 4 sees an exchange among ranks 2 and 0, of which the other one has that header.
Result<std::vector<std::vector<std::byte>>> gather_with(const std::function<void(PieceHeader&)>& change) {
    struct Other {
        const std::function<void(PieceHeader&)>& change;
        static int call(void* argument, const void* mine, std::size_t bytes, void* all) {
            auto* const places = static_cast<std::byte*>(all);
            std::memcpy(places, mine, bytes);
            std::memcpy(places + bytes, mine, bytes);
            PieceHeader header;
            std::memcpy(&header, mine, sizeof header);
            header.rank = 1;
            static_cast<Other*>(argument)->change(header);
            std::memcpy(places + bytes, &header, sizeof header);
            return 0;
        }
    } other{change};
    auto made = CallbackBootstrap::create(Other::call, &other, Rank(2), 4, Ranks{2, 0});
    if (!made) return tl::unexpected(made.error());
    EXPECT_EQ((*made)->rank(), Rank(0));
    EXPECT_EQ((*made)->size(), 2U);
    return (*made)->allgather(std::vector<std::byte>(3), generous());
}

TEST(subset, of_a_callback_gathers_among_the_list) {
    const auto all = gather_with([](PieceHeader&) {});
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(all->size(), 2U);
}

TEST(subset, of_another_list_is_named) {
    const auto all = gather_with([](PieceHeader& header) { header.subset += 2; });
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().status, COPPICE_ERR_MISMATCH);
    EXPECT_NE(all.error().message.find("rank 1 was given another list of ranks"), std::string::npos);
}

}  // namespace
}  // namespace coppice::bootstrap
