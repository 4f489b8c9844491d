// Whom a rank gets the address of when a group is made, counted at a launcher's store; and how many questions bring it the others.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <deque>
#include <map>

#include "base/clock.hpp"
#include "base/mix.hpp"
#include "bootstrap/piece.hpp"
#include "bootstrap/store.hpp"
#include "engine/addresses/copying.hpp"
#include "engine/formation/exchange.hpp"

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

struct Sent {
    Seat to;
    std::vector<std::byte> header;
    std::vector<std::byte> payload;
};

// Takes whatever address there is, and keeps what is sent.
class AnyWire final : public transport::Transport {
  public:
    explicit AnyWire(std::deque<Sent>& sent) : sent_(sent) {}
    const transport::Capabilities& capabilities() const override {
        static constexpr transport::Capabilities kAny{.name = "any", .eager_size = 8192, .hears_unknown = true};
        return kAny;
    }
    transport::Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {std::byte{1}}; }
    Result<void> add_peer(Seat, std::span<const std::byte>) override { return {}; }
    void watch(Seat) override {}
    transport::SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t*) override {
        sent_.push_back(
            {.to = to, .header = {header.begin(), header.end()}, .payload = {payload.begin(), payload.end()}});
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

  private:
    std::deque<Sent>& sent_;
};

class ManualClock final : public Clock {
  public:
    std::uint64_t now_ns() const override { return now; }
    std::uint64_t now = 1;
};

Settings settings(const char* addresses) {
    const SettingTexts texts([addresses](const char* name) -> const char* {
        if (std::string_view(name) == "COPPICE_ADDRESSES") return addresses;
        return std::string_view(name) == "COPPICE_TRANSPORT" ? "tcp" : nullptr;
    });
    return *parse(texts);
}

std::vector<std::string> hosts_of(std::uint32_t ranks, std::uint32_t ranks_per_host) {
    std::vector<std::string> hosts;
    for (std::uint32_t r = 0; r < ranks; ++r)
        hosts.push_back(fmt::format("h{}", r / ranks_per_host));
    return hosts;
}

// How many addresses were fetched.
std::uint32_t exchange(TransportSet& transport_set, Rank self, const std::vector<std::string>& hosts,
                       const Settings& chosen, const Clock& clock) {
    const auto ranks = static_cast<std::uint32_t>(hosts.size());
    std::uint32_t gets = 0;
    auto bootstrap = bootstrap::StoreBootstrap::create(std::make_unique<CountingStore>(self, ranks, gets));
    EXPECT_TRUE(bootstrap);
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
                                          .clock = clock},
                                         mine, now_ns() + kPatience);
    EXPECT_TRUE(done) << done.error().message;
    return gets;
}

struct Outcome {
    std::uint32_t gets = 0;
    std::uint32_t wired = 0;
};

Outcome exchange(Rank self, std::uint32_t ranks, const Settings& chosen) {
    Outcome outcome;
    std::deque<Sent> sent;
    TransportSet transport_set(ranks);
    transport_set.add(std::make_unique<AnyWire>(sent));
    outcome.gets = exchange(transport_set, self, hosts_of(ranks, 1), chosen, real_clock());
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

struct Job {
    std::uint32_t ranks;
    std::uint32_t ranks_per_host;
    std::uint64_t slowness_ms;  // how much longer than a millisecond a message may take
    std::uint64_t stop_ms = 0;  // so long rank 0 and those that have its address from the start do nothing
};

struct Copied {
    std::uint64_t most = 0;  // questions of one rank
    std::uint64_t letters = 0;
};

// Ranks look after their addresses every millisecond.
Copied copy_all(const Job& job) {
    constexpr std::uint64_t kMillisecond = 1'000'000;
    const Settings chosen = settings("few");
    const std::vector<std::string> hosts = hosts_of(job.ranks, job.ranks_per_host);
    ManualClock clock;
    std::deque<Sent> sent;
    std::vector<std::unique_ptr<TransportSet>> sets;
    for (std::uint32_t r = 0; r < job.ranks; ++r) {
        sets.push_back(std::make_unique<TransportSet>(job.ranks));
        sets.back()->add(std::make_unique<AnyWire>(sent));
        exchange(*sets.back(), Rank(r), hosts, chosen, clock);
    }
    Copied copied;
    std::multimap<std::uint64_t, Sent> under_way;
    const auto is_busy = [](const auto& set) { return set->copying()->is_busy(); };
    while (std::ranges::any_of(sets, is_busy) || !under_way.empty()) {
        clock.now += kMillisecond;
        if (clock.now > 10'000 * kMillisecond) {
            ADD_FAILURE() << "addresses are copied for ever";
            return copied;
        }
        for (; !under_way.empty() && under_way.begin()->first <= clock.now; under_way.erase(under_way.begin())) {
            const Sent& letter = under_way.begin()->second;
            EXPECT_TRUE(sets[letter.to.value]->copying()->take(letter.header, letter.payload));
        }
        for (std::uint32_t r = 0; r < job.ranks; ++r) {
            const bool is_stopped = clock.now < job.stop_ms * kMillisecond && (r == 0 || sets[0]->is_wired(Seat(r)));
            if (!is_stopped) sets[r]->copying()->poll();
        }
        for (Sent& letter : sent) {
            const std::uint64_t more = mix(copied.letters) % (job.slowness_ms + 1);
            under_way.emplace(clock.now + (1 + more) * kMillisecond, std::move(letter));
            ++copied.letters;
        }
        sent.clear();
    }
    for (const auto& set : sets) {
        const Copying::Counts& counts = set->copying()->counts();
        EXPECT_EQ(counts.fetched + counts.of_host + counts.copied, job.ranks - 1);
        copied.most = std::max(copied.most, counts.asked);
    }
    return copied;
}

TEST(few_addresses, bring_the_others_with_few_questions) {
    for (const Job job : {Job{64, 1, 0}, Job{64, 8, 5}, Job{256, 1, 5}, Job{256, 8, 0}, Job{1024, 1, 0}}) {
        const auto log2 = static_cast<std::uint32_t>(std::bit_width(job.ranks) - 1);
        const Copied copied = copy_all(job);
        EXPECT_LE(copied.most, 2 * log2) << job.ranks;
        EXPECT_LE(copied.letters, std::uint64_t{6} * log2 * job.ranks) << job.ranks;
    }
}

// The others ask them, and each other, less and less often.
TEST(few_addresses, bring_the_others_with_few_questions_though_those_are_stopped_that_know_one) {
    const Job job{.ranks = 64, .ranks_per_host = 1, .slowness_ms = 0, .stop_ms = 1000};
    EXPECT_LE(copy_all(job).most, 2 * 6 + 8U);  // pauses of 10, 20, 40 … 320 ms
}

// Others are asked while an answer is under way.
TEST(few_addresses, bring_the_others_with_few_questions_though_answers_take_long) {
    for (const Job job : {Job{64, 1, 40}, Job{256, 8, 40}}) {
        const auto log2 = static_cast<std::uint32_t>(std::bit_width(job.ranks) - 1);
        EXPECT_LE(copy_all(job).most, 4 * log2) << job.ranks;
    }
}

}  // namespace
}  // namespace coppice::engine
