// An exchange over a launcher's store: what the store may and may not give, and what a launcher may say on PMI's wire.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <thread>

#include "base/clock.hpp"
#include "bootstrap/piece.hpp"
#include "bootstrap/pmi_connection.hpp"
#include "bootstrap/store.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::uint64_t kPatience = 60'000'000'000;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

// As rank 0 of 2 sees it: `others` makes rank 1's piece of rank 0's.
class FakeStore final : public Store {
  public:
    using Others = std::function<std::optional<std::vector<std::byte>>(std::vector<std::byte> mine)>;
    explicit FakeStore(Others others) : others_(std::move(others)) {}

    Rank rank() const override { return Rank(0); }
    std::uint32_t size() const override { return 2; }
    const char* name() const override { return "fake"; }
    std::string carrier() const override { return "the fake"; }
    Result<void> put(const std::string& key, std::span<const std::byte> value) override {
        EXPECT_TRUE(values_.emplace(key, std::vector<std::byte>(value.begin(), value.end())).second) << "put twice";
        return {};
    }
    Result<void> fence(std::uint64_t) override { return {}; }
    Result<std::optional<std::vector<std::byte>>> get(Rank rank, const std::string& key, std::uint64_t) override {
        if (rank == Rank(0)) return std::optional(values_.at(key));
        return others_(values_.at(key));
    }

  private:
    Others others_;
    std::map<std::string, std::vector<std::byte>> values_;
};

std::unique_ptr<StoreBootstrap> bootstrap_over(std::unique_ptr<Store> store,
                                               std::span<const std::uint32_t> ranks = {}) {
    auto made = StoreBootstrap::create(std::move(store), ranks);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
}

// What allgather() makes of rank 1's piece, whose header `change` has changed.
Result<std::vector<std::vector<std::byte>>> gather(const std::function<void(PieceHeader&)>& change) {
    const auto bootstrap = bootstrap_over(std::make_unique<FakeStore>([&](std::vector<std::byte> piece) {
        PieceHeader header;
        std::memcpy(&header, piece.data(), sizeof header);
        header.rank = 1;
        change(header);
        std::memcpy(piece.data(), &header, sizeof header);
        return std::optional(std::move(piece));
    }));
    return bootstrap->allgather(bytes_of("here"), now_ns() + kPatience);
}

TEST(store, brings_the_bytes_of_all_ranks) {
    const auto all = gather([](PieceHeader&) {});
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(*all, (std::vector{bytes_of("here"), bytes_of("here")}));
}

TEST(store, is_asked_for_what_is_wanted_alone) {
    std::uint32_t asked = 0;
    const auto bootstrap = bootstrap_over(std::make_unique<FakeStore>([&asked](std::vector<std::byte> piece) {
        ++asked;
        PieceHeader header;
        std::memcpy(&header, piece.data(), sizeof header);
        header.rank = 1;
        std::memcpy(piece.data(), &header, sizeof header);
        return std::optional(std::move(piece));
    }));
    ASSERT_TRUE(bootstrap->has_store());
    const auto nothing = bootstrap->exchange_with({}, bytes_of("here"), now_ns() + kPatience);
    ASSERT_TRUE(nothing) << nothing.error().message;
    EXPECT_TRUE(nothing->empty());
    EXPECT_EQ(asked, 0U);
    const std::array wanted{Rank(1)};
    const auto one = bootstrap->exchange_with(wanted, bytes_of("there"), now_ns() + kPatience);
    ASSERT_TRUE(one) << one.error().message;
    ASSERT_EQ(one->size(), 1U);
    EXPECT_EQ(one->front(), bytes_of("there"));
    EXPECT_EQ(asked, 1U);
}

TEST(store, leaves_the_place_of_a_rank_empty_of_which_it_has_nothing) {
    const auto bootstrap = bootstrap_over(std::make_unique<FakeStore>([](auto) { return std::nullopt; }));
    const auto all = bootstrap->allgather(bytes_of("here"), now_ns() + kPatience);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(*all, (std::vector{bytes_of("here"), std::vector<std::byte>()}));
}

TEST(store, refuses_ranks_of_another_version_or_word_size) {
    for (const auto& change : std::vector<std::function<void(PieceHeader&)>>{
             [](PieceHeader& header) { header.version += 1; }, [](PieceHeader& header) { header.word_size = 4; }}) {
        const auto all = gather(change);
        ASSERT_FALSE(all);
        EXPECT_EQ(all.error().status, COPPICE_ERR_MISMATCH);
        EXPECT_NE(all.error().message.find("rank 1 speaks version"), std::string::npos) << all.error().message;
    }
}

TEST(store, refuses_what_is_no_piece) {
    for (const auto& change : std::vector<std::function<void(PieceHeader&)>>{
             [](PieceHeader& header) { header.magic = 7; }, [](PieceHeader& header) { header.rank = 0; },
             [](PieceHeader& header) { header.round = 9; }, [](PieceHeader& header) { header.bytes += 1; },
             [](PieceHeader& header) { header.bytes = UINT32_MAX; }}) {
        const auto all = gather(change);
        ASSERT_FALSE(all);
        EXPECT_EQ(all.error().status, COPPICE_ERR_BOOTSTRAP) << all.error().message;
    }
    const auto bootstrap =
        bootstrap_over(std::make_unique<FakeStore>([](auto) { return std::optional(bytes_of("short")); }));
    EXPECT_FALSE(bootstrap->allgather(bytes_of("here"), now_ns() + kPatience));
}

// As rank 1 of 3 sees it, where a rank is asked for what it puts, and no fence waits for any.
class WaitingStore final : public Store {
  public:
    using Values = std::map<std::string, std::vector<std::byte>>;
    explicit WaitingStore(Values& others) : others_(others) {}
    Rank rank() const override { return Rank(1); }
    std::uint32_t size() const override { return 3; }
    const char* name() const override { return "waiting"; }
    std::string carrier() const override { return "the waiting one"; }
    Result<void> put(const std::string& key, std::span<const std::byte> value) override {
        own_.emplace(key, std::vector<std::byte>(value.begin(), value.end()));
        return {};
    }
    Result<void> fence(std::uint64_t) override {
        ADD_FAILURE() << "a fence among all";
        return {};
    }
    Result<std::optional<std::vector<std::byte>>> get(Rank rank, const std::string& key, std::uint64_t) override {
        return wait_for(rank, key);
    }
    bool waits_for_single_ranks() const override { return true; }
    bool fences_in_later_sessions() const override { return false; }
    Result<std::optional<std::vector<std::byte>>> wait_for(Rank rank, const std::string& key) override {
        if (rank == Rank(1)) return std::optional(own_.at(key));
        EXPECT_EQ(rank, Rank(2)) << "a rank that is not in the list is asked";
        others_.emplace(key, own_.at(key));  // what this rank says, with the other's number
        std::vector<std::byte> piece = own_.at(key);
        PieceHeader header;
        std::memcpy(&header, piece.data(), sizeof header);
        header.rank = 1;
        std::memcpy(piece.data(), &header, sizeof header);
        return std::optional(std::move(piece));
    }

  private:
    Values own_;
    Values& others_;
};

TEST(store, brings_some_ranks_together_without_a_fence_each_list_by_keys_of_its_own) {
    constexpr std::array<std::uint32_t, 2> kHere{1, 2};
    WaitingStore::Values keys;
    ASSERT_NE(bootstrap_over(std::make_unique<FakeStore>([](auto) { return std::nullopt; })), nullptr);  // of all
    for (std::size_t session = 1; session <= 2; ++session) {
        const auto some = bootstrap_over(std::make_unique<WaitingStore>(keys), kHere);
        EXPECT_FALSE(some->has_store()) << "its ranks may end their sessions while others have yet to ask";
        EXPECT_EQ(some->rank(), Rank(0));
        EXPECT_EQ(some->size(), 2U);
        const auto all = some->allgather(bytes_of("here"), now_ns() + kPatience);
        ASSERT_TRUE(all) << all.error().message;
        EXPECT_EQ(*all, (std::vector{bytes_of("here"), bytes_of("here")}));
        EXPECT_EQ(keys.size(), session);
    }
}

TEST(store, that_brings_all_together_or_none_says_so) {
    constexpr std::array<std::uint32_t, 1> kHere{0};
    const auto some = StoreBootstrap::create(std::make_unique<FakeStore>([](auto) { return std::nullopt; }), kHere);
    ASSERT_FALSE(some);
    EXPECT_EQ(some.error().status, COPPICE_ERR_BOOTSTRAP);
    EXPECT_NE(some.error().message.find("brings all 2 ranks together, or none"), std::string::npos);
}

// A launcher that gives each request the next of these answers, and then ends the connection.
class FakeLauncher {
  public:
    explicit FakeLauncher(std::vector<std::string> answers) {
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()), 0);
        thread_ = std::thread([this, answers = std::move(answers)] {
            for (const std::string& answer : answers) {
                char byte = 0;
                while (byte != '\n' && ::read(ends_[1], &byte, 1) == 1) {
                }
                EXPECT_EQ(::send(ends_[1], answer.data(), answer.size(), MSG_NOSIGNAL),
                          static_cast<ssize_t>(answer.size()));
            }
            ::shutdown(ends_[1], SHUT_RDWR);
        });
    }
    ~FakeLauncher() {
        ::shutdown(ends_[0], SHUT_RDWR);
        thread_.join();
        for (const int end : ends_)
            ::close(end);
    }
    int descriptor() const { return ends_[0]; }

  private:
    std::array<int, 2> ends_{-1, -1};
    std::thread thread_;
};

constexpr const char* kHello = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
constexpr const char* kMaxes = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
constexpr const char* kSpace = "cmd=my_kvsname kvsname=kvs_1\n";

TEST(pmi, shakes_hands) {
    const FakeLauncher launcher({kHello, kMaxes, kSpace});
    PmiConnection connection(launcher.descriptor(), 0);
    const auto greeted = connection.shake_hands(now_ns() + kPatience);
    ASSERT_TRUE(greeted) << greeted.error().message;
    EXPECT_EQ(connection.space(), "kvs_1");
    EXPECT_EQ(connection.largest_value(), 800U);
}

TEST(pmi, refuses_what_is_no_answer) {
    for (const auto& answers : std::vector<std::vector<std::string>>{{},
                                                                     {"garbage\n"},
                                                                     {"cmd=response_to_init rc=-1\n"},
                                                                     {kHello, "cmd=maxes\n"},
                                                                     {kHello, "cmd=maxes vallen_max=-5\n"},
                                                                     {kHello, kMaxes},
                                                                     {kHello, kMaxes, "cmd=barrier_out\n"},
                                                                     {std::string(200'000, 'x')}}) {
        const FakeLauncher launcher(answers);
        PmiConnection connection(launcher.descriptor(), 0);
        const auto greeted = connection.shake_hands(now_ns() + kPatience);
        ASSERT_FALSE(greeted);
        EXPECT_EQ(greeted.error().status, COPPICE_ERR_BOOTSTRAP) << greeted.error().message;
        EXPECT_FALSE(connection.ask("cmd=barrier_in", "barrier_out", now_ns() + kPatience)) << "goes on after an error";
    }
}

TEST(pmi, waits_until_its_deadline) {
    std::array<int, 2> ends{-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    PmiConnection connection(ends[0], 3);
    const auto line = connection.ask("cmd=barrier_in", "barrier_out", now_ns() + 20'000'000);
    ASSERT_FALSE(line);
    EXPECT_NE(line.error().message.find("before the deadline"), std::string::npos) << line.error().message;
    for (const int end : ends)
        ::close(end);
}

TEST(pmi, words_of_a_line) {
    EXPECT_EQ(pmi_word("cmd=get_result rc=0 value=a=b", "value"), "a=b");
    EXPECT_EQ(pmi_word("cmd=get_result rc=0", "rc"), "0");
    EXPECT_EQ(pmi_word("cmd=get_result", "rc"), "");
    EXPECT_EQ(pmi_word("rc", "rc"), "");
    EXPECT_EQ(pmi_word("", "rc"), "");
}

}  // namespace
}  // namespace coppice::bootstrap
