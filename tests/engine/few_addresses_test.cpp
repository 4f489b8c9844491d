// Whom a rank gets the address of when a group is made: counted at a launcher's store.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>

#include "base/clock.hpp"
#include "bootstrap/piece.hpp"
#include "bootstrap/store.hpp"
#include "engine/addresses/copying.hpp"
#include "engine/addresses/exchange.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint64_t kPatience = 60'000'000'000;

// As one rank sees it: any other rank has put what this one has, under its own number.
class CountingStore final : public bootstrap::Store {
  public:
    CountingStore(Rank rank, std::uint32_t size, std::uint32_t& gets) : rank_(rank), size_(size), gets_(gets) {}
    Rank rank() const override { return rank_; }
    std::uint32_t size() const override { return size_; }
    const char* name() const override { return "counting"; }
    std::string carrier() const override { return "the counting one"; }
    Result<void> put(const std::string& key, std::span<const std::byte> value) override {
        values_.emplace(key, std::vector<std::byte>(value.begin(), value.end()));
        return {};
    }
    Result<void> fence(std::uint64_t) override { return {}; }
    Result<std::optional<std::vector<std::byte>>> get(Rank rank, const std::string& key, std::uint64_t) override {
        ++gets_;
        std::vector<std::byte> piece = values_.at(key);
        bootstrap::PieceHeader header;
        std::memcpy(&header, piece.data(), sizeof header);
        header.rank = rank.value;
        std::memcpy(piece.data(), &header, sizeof header);
        return std::optional(std::move(piece));
    }

  private:
    Rank rank_;
    std::uint32_t size_;
    std::uint32_t& gets_;
    std::map<std::string, std::vector<std::byte>> values_;
};

// Takes whatever address there is.
class AnyWire final : public transport::Transport {
  public:
    const transport::Capabilities& capabilities() const override {
        static constexpr transport::Capabilities kAny{.name = "any", .eager_size = 8192, .hears_unknown = true};
        return kAny;
    }
    transport::Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {std::byte{1}}; }
    Result<void> add_peer(Seat, std::span<const std::byte>) override { return {}; }
    void watch(Seat) override {}
    transport::SendStatus send(Seat, std::span<const std::byte>, std::span<const std::byte>, std::uint32_t*) override {
        return transport::SendStatus::sent;
    }
    transport::SendStatus write(Seat, std::span<const std::byte>, std::span<const std::byte>, std::uint32_t*) override {
        return transport::SendStatus::sent;
    }
    std::size_t poll(transport::Receiver&) override { return 0; }
    void release(transport::Buffer) override {}
    void fence(Seat) override {}
    void forget(Seat) override {}
    bool leave() override { return true; }
};

Settings settings(const char* addresses) {
    const SettingTexts texts([addresses](const char* name) -> const char* {
        if (std::string_view(name) == "COPPICE_ADDRESSES") return addresses;
        return std::string_view(name) == "COPPICE_TRANSPORT" ? "tcp" : nullptr;
    });
    return *parse(texts);
}

struct Outcome {
    std::uint32_t gets = 0;
    std::uint32_t wired = 0;
};

Outcome exchange(Rank self, std::uint32_t ranks, const Settings& chosen) {
    Outcome outcome;
    auto bootstrap = bootstrap::StoreBootstrap::create(std::make_unique<CountingStore>(self, ranks, outcome.gets));
    EXPECT_TRUE(bootstrap);
    TransportSet transport_set(ranks);
    transport_set.add(std::make_unique<AnyWire>());
    std::vector<std::string> hosts;
    for (std::uint32_t r = 0; r < ranks; ++r)
        hosts.push_back(fmt::format("h{}", r));
    const topology::Nodes nodes = topology::Nodes::by_host(std::span<const std::string>(hosts));
    const std::vector<bool> dead(ranks, false);
    std::vector<std::byte> mine;
    for (const char c : std::string_view("any\n\1\0\0\0!", 9))
        mine.push_back(static_cast<std::byte>(c));
    const auto done = exchange_addresses(**bootstrap,
                                         {.settings = chosen,
                                          .transport_set = transport_set,
                                          .self = self,
                                          .hosts = hosts,
                                          .is_dead = dead,
                                          .nodes = nodes,
                                          .token = 7,
                                          .clock = real_clock()},
                                         mine, now_ns() + kPatience);
    EXPECT_TRUE(done) << done.error().message;
    for (std::uint32_t r = 0; r < ranks; ++r)
        outcome.wired += transport_set.is_wired(Seat(r));
    return outcome;
}

TEST(few_addresses, are_no_more_than_tree_ring_and_host_need) {
    const Settings chosen = settings("auto");
    const std::uint32_t distance = chosen.correction.distance;
    for (const std::uint32_t ranks : {33U, 64U, 100U, 512U, 1000U, 1024U}) {
        const auto log2 = static_cast<std::uint32_t>(std::bit_width(ranks) - 1);
        for (const std::uint32_t self : {0U, 1U, ranks / 2, ranks - 1}) {
            const Outcome outcome = exchange(Rank(self), ranks, chosen);
            EXPECT_LE(outcome.gets, 2 * log2 + 2 * distance + 4) << ranks;
            EXPECT_EQ(outcome.wired, outcome.gets) << ranks;
        }
    }
}

TEST(few_addresses, are_all_in_small_jobs_and_where_that_is_chosen) {
    EXPECT_EQ(exchange(Rank(3), 32, settings("auto")).gets, 31U);
    EXPECT_EQ(exchange(Rank(3), 100, settings("all")).gets, 99U);
    EXPECT_LT(exchange(Rank(3), 32, settings("few")).gets, 20U);
}

}  // namespace
}  // namespace coppice::engine
