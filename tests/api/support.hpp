// What the tests of the C API share: groups of one, two ranks in one process, and how an error must look.
#pragma once

#include <gmock/gmock.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coppice/coppice.h"
#include "support/processes.hpp"

namespace coppice::testing {

// A variable of the environment while this lives; no value: not set.
class Variable {
  public:
    Variable(std::string name, const char* value) : name_(std::move(name)) {
        if (const char* before = std::getenv(name_.c_str())) before_ = before;
        set(value);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() { set(before_ ? before_->c_str() : nullptr); }

  private:
    void set(const char* value) const {
        if (value != nullptr) {
            setenv(name_.c_str(), value, 1);
        } else {
            unsetenv(name_.c_str());
        }
    }
    std::string name_;
    std::optional<std::string> before_;
};

// The call failed with this status, and its sentence has all these words.
inline void expect_error(coppice_status_t is, coppice_status_t expected, const std::vector<std::string>& words = {}) {
    EXPECT_EQ(is, expected) << coppice_last_error();
    for (const std::string& word : words)
        EXPECT_THAT(coppice_last_error(), ::testing::HasSubstr(word));
}

// The exchange of a group of one.
inline int exchange_alone(void* /*argument*/, const void* mine, std::size_t bytes, void* all) {
    std::memcpy(all, mine, bytes);
    return 0;
}

inline coppice_group_options_t options_alone() {
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = exchange_alone;
    options.size = 1;
    return options;
}

// A context and a group of one rank.
class Alone : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(coppice_context_create(nullptr, &context), COPPICE_OK) << coppice_last_error();
        const coppice_group_options_t options = options_alone();
        ASSERT_EQ(coppice_group_create(context, &options, &group), COPPICE_OK) << coppice_last_error();
    }
    void TearDown() override {
        EXPECT_EQ(coppice_group_destroy(group, kDeadlineNs), COPPICE_OK) << coppice_last_error();
        EXPECT_EQ(coppice_context_destroy(context), COPPICE_OK) << coppice_last_error();
    }
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
};

// Ranks in this process, each with a context of its own; their exchange is among as many threads. Once made, they may
// be moved by one thread in turn.
template <std::uint32_t kRanks>
class Together {
  public:
    struct Side {
        Together* all = nullptr;
        std::uint32_t rank = 0;
        coppice_context_t* context = nullptr;
        coppice_group_t* group = nullptr;
        coppice_status_t status = COPPICE_OK;
        std::string error;
    };
    Side side[kRanks];

    // Makes all groups; the exchange fails at all sides once it was called `exchanges` times.
    void make(int exchanges = 1000) {
        exchanges_ = exchanges;
        at_all([&](Side& one) {
            coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
            options.exchange = exchange;
            options.exchange_argument = &one;
            options.rank = one.rank;
            options.size = kRanks;
            one.status = coppice_context_create(nullptr, &one.context);
            if (one.status == COPPICE_OK) one.status = coppice_group_create(one.context, &options, &one.group);
            if (one.status != COPPICE_OK) one.error = coppice_last_error();
        });
    }
    // Destroys what was made.
    void unmake() {
        at_all([&](Side& one) {
            one.status = coppice_group_destroy(one.group, kDeadlineNs);
            if (one.status == COPPICE_OK) one.status = coppice_context_destroy(one.context);
            if (one.status != COPPICE_OK) one.error = coppice_last_error();
            one.group = nullptr;
            one.context = nullptr;
        });
    }
    void expect_well() const {
        for (const Side& one : side)
            EXPECT_EQ(one.status, COPPICE_OK) << one.error;
    }

    template <class Body>
    void at_all(Body&& body) {
        std::vector<std::jthread> others;
        for (std::uint32_t rank = 1; rank < kRanks; ++rank)
            others.emplace_back([&, rank] { body(side[rank]); });
        body(side[0]);
    }

    Together() {
        for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
            side[rank].all = this;
            side[rank].rank = rank;
        }
    }
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

  private:
    static int exchange(void* argument, const void* mine, std::size_t bytes, void* all) {
        const Side& one = *static_cast<const Side*>(argument);
        return one.all->gather(one.rank, mine, bytes, all);
    }
    int gather(std::uint32_t rank, const void* mine, std::size_t bytes, void* all) {
        if (rank == 0) {
            memory_.assign(kRanks * bytes, 0);
            fails_ = exchanges_-- <= 0;
        }
        barrier_.arrive_and_wait();
        std::memcpy(memory_.data() + rank * bytes, mine, bytes);
        const bool fails = fails_;
        barrier_.arrive_and_wait();
        std::memcpy(all, memory_.data(), kRanks * bytes);
        barrier_.arrive_and_wait();
        return fails ? 5 : 0;
    }

    std::barrier<> barrier_{kRanks};
    std::vector<char> memory_;
    int exchanges_ = 0;
    bool fails_ = false;
};

using Pair = Together<2>;

}  // namespace coppice::testing
