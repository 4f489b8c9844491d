// PMIx as a store, over a library of the test's own that answers late, or never. With libpmix: integration.launchers.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/host.hpp"
#include "bootstrap/pmix.hpp"
#include "bootstrap/pmix_caller.hpp"
#include "bootstrap/pmix_library.hpp"
#include "support/no_memory.hpp"

namespace coppice::bootstrap {
namespace {

using pmix::Caller;
using pmix::Info;
using pmix::Library;
using pmix::Process;
using pmix::Value;

constexpr std::uint64_t kGenerous = 120'000'000'000;
constexpr std::uint64_t kBrief = 20'000'000;
constexpr std::uint64_t kSome = 5'000'000'000;  // for what returns at once, and then waited out
constexpr std::uint32_t kRanks = 3;

std::uint64_t in_time() {
    return now_ns() + kGenerous;
}

// Holds up a call. Not for good: a test whose own thread makes that call fails, and does not hang.
class Hold {
  public:
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return is_over_; });
    }
    void end() {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_over_ = false;
};

// What was called, and what waits. Calls come from a thread of the library's; never two at once.
struct Called {
    int sessions = 0;
    int fences = 0;
    std::map<std::string, std::vector<char>> own;  // by key
    std::unique_ptr<Hold> holds_fence;
    std::unique_ptr<Hold> holds_handler;
    std::unique_ptr<Hold> holds_end;
    int handlers = 0;
} called;

// As rank 0 of three. It has nothing of the other ranks: a caller that waits for what they put waits until its deadline.
Library fake() {
    called = {};
    Library library;
    library.init = [](Process* self, Info*, std::size_t) {
        *self = {};
        std::strcpy(self->nspace, "job");
        ++called.sessions;
        return int{COPPICE_PMIX_SUCCESS};
    };
    library.finalize = [](const Info*, std::size_t) {
        if (called.holds_end) called.holds_end->wait();
        return --called.sessions, int{COPPICE_PMIX_SUCCESS};
    };
    library.put = [](std::uint8_t, const char* key, Value* value) {
        const char* const bytes = value->data.object.bytes;
        called.own[key].assign(bytes, bytes + value->data.object.size);
        return int{COPPICE_PMIX_SUCCESS};
    };
    library.commit = [] { return int{COPPICE_PMIX_SUCCESS}; };
    library.fence_nb = [](const Process*, std::size_t, const Info*, std::size_t, coppice_pmix_done_fn done,
                          void* argument) {
        if (called.holds_fence) called.holds_fence->wait();
        ++called.fences;
        done(COPPICE_PMIX_SUCCESS, argument);
        return int{COPPICE_PMIX_SUCCESS};
    };
    library.get = [](const Process* of, const char* key, const Info*, std::size_t, Value** value) {
        *value = nullptr;
        const bool is_size = std::strcmp(key, COPPICE_PMIX_JOB_SIZE) == 0;
        if (!is_size && of->rank != 0) return int{COPPICE_PMIX_NOT_FOUND};
        *value = static_cast<Value*>(std::calloc(1, sizeof(Value)));
        if (is_size) {
            (*value)->type = COPPICE_PMIX_UINT32;
            (*value)->data.uint32 = kRanks;
        } else {
            const std::vector<char>& bytes = called.own.at(key);
            (*value)->type = COPPICE_PMIX_BYTE_OBJECT;
            (*value)->data.object.bytes = static_cast<char*>(std::malloc(bytes.size()));
            (*value)->data.object.size = bytes.size();
            std::memcpy((*value)->data.object.bytes, bytes.data(), bytes.size());
        }
        return int{COPPICE_PMIX_SUCCESS};
    };
    library.get_nb = [](const Process* of, const char* key, const Info*, std::size_t, coppice_pmix_value_fn answered,
                        void* argument) {
        if (of->rank != 0) {  // never answered: what the question owns is kept for the leak checker
            static std::vector<void*> open;
            open.push_back(argument);
            return int{COPPICE_PMIX_SUCCESS};
        }
        Value value{};
        value.type = COPPICE_PMIX_BYTE_OBJECT;
        value.data.object = {.bytes = called.own.at(key).data(), .size = called.own.at(key).size()};
        answered(COPPICE_PMIX_SUCCESS, &value, argument);
        return int{COPPICE_PMIX_SUCCESS};
    };
    library.error_string = [](int) { return "a reason"; };
    library.version = [] { return "a library"; };
    library.register_handler = [](int*, std::size_t, Info*, std::size_t, coppice_pmix_event_fn,
                                  coppice_pmix_registered_fn registered, void* argument) {
        if (called.holds_handler) called.holds_handler->wait();
        ++called.handlers;
        registered(COPPICE_PMIX_SUCCESS, 7, argument);
        return int{COPPICE_PMIX_SUCCESS};
    };
    library.deregister_handler = [](std::size_t, coppice_pmix_done_fn, void*) {
        return --called.handlers, int{COPPICE_PMIX_SUCCESS};
    };
    return library;
}

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

// Once all threads that were left behind are back.
void wait_for_all() {
    ASSERT_TRUE(Caller::start(in_time()));
}

// A fence may end just in time, and what it has brought is asked for then.
TEST(Pmix, AnswersWhatItKnowsAlsoWhenTheTimeIsOver) {
    const Library library = fake();
    {
        const auto store = connect_to_pmix(library, now_ns(), kGenerous);
        ASSERT_TRUE(store) << store.error().message;
        const auto put = (*store)->put("key", bytes_of("here"));
        ASSERT_TRUE(put) << put.error().message;
        const auto got = (*store)->get(Rank(0), "key", now_ns());
        ASSERT_TRUE(got) << got.error().message;
        EXPECT_EQ(*got, bytes_of("here"));
        const auto nothing = (*store)->get(Rank(2), "key", now_ns());
        ASSERT_TRUE(nothing) << nothing.error().message;
        EXPECT_FALSE(*nothing);
        const auto waited = (*store)->wait_for(Rank(1), "key");
        ASSERT_TRUE(waited) << waited.error().message;
        EXPECT_FALSE(*waited);
        EXPECT_EQ(called.sessions, 1);
    }
    wait_for_all();
    EXPECT_EQ(called.sessions, 0);
}

// The server answers; a rank of another host does not come, and another one there is asked whether it is dead.
TEST(Pmix, SaysOfARankThatDoesNotComeThatItDoesNotCome) {
    const Library library = fake();
    StoreHistory history;
    history.begun[0] = 1;  // there was a group before, so no fence waits
    const std::uint64_t here = std::hash<std::string>{}(host_identity(""));
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        history.met[rank] = StoreHistory::Process{.host = rank == 0 ? here : here + 1, .started = 1, .number = 1};
    const std::uint64_t deadline = now_ns() + kBrief;
    auto store = connect_to_pmix(library, deadline, kGenerous);
    ASSERT_TRUE(store) << store.error().message;
    const auto bootstrap = StoreBootstrap::create(std::move(*store), {}, history);
    ASSERT_TRUE(bootstrap) << bootstrap.error().message;
    const auto all = (*bootstrap)->allgather(bytes_of("here"), deadline);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().status, COPPICE_ERR_BOOTSTRAP);
    EXPECT_NE(all.error().message.find("rank 1 did not show up"), std::string::npos) << all.error().message;
}

// finalize waits for a fence, which the other ranks may never come to.
TEST(Pmix, EndsNoSessionBehindAFenceThatHasYetToBegin) {
    const Library library = fake();
    called.holds_fence = std::make_unique<Hold>();
    {
        const auto store = connect_to_pmix(library, now_ns() + kSome, kBrief);
        ASSERT_TRUE(store) << store.error().message;
        const auto met = (*store)->fence(now_ns() + kBrief);
        ASSERT_FALSE(met);
        EXPECT_NE(met.error().message.find("for a fence"), std::string::npos) << met.error().message;
    }
    called.holds_fence->end();
    wait_for_all();
    EXPECT_EQ(called.fences, 1);
    EXPECT_EQ(called.sessions, 1);
}

TEST(Pmix, EndsItsSessionWithoutMemory) {
    const Library library = fake();
    auto store = connect_to_pmix(library, in_time(), kGenerous);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE((*store)->fence(in_time()));
    {
        const testing::NoMemory nothing;
        store->reset();
    }
    EXPECT_EQ(called.sessions, 0);
}

// The group does without; what comes late is given back where it came.
TEST(Pmix, WaitsForNoHandlerOfEventsBeyondItsTime) {
    const Library library = fake();
    called.holds_handler = std::make_unique<Hold>();
    {
        const auto store = connect_to_pmix(library, now_ns() + kSome, kBrief);
        ASSERT_TRUE(store) << store.error().message;
        const auto reports = (*store)->reports();
        ASSERT_FALSE(reports);
        EXPECT_NE(reports.error().message.find("whether it tells of deaths"), std::string::npos)
            << reports.error().message;
    }
    called.holds_handler->end();
    wait_for_all();
    EXPECT_EQ(called.handlers, 0);
    EXPECT_EQ(called.sessions, 0);
}

// A group's end waits for a server that hangs no longer than a moment, and nothing else is asked meanwhile.
TEST(Pmix, EndsReportsThoughTheServerHangs) {
    const Library library = fake();
    std::unique_ptr<Reports> reports;
    {
        const auto store = connect_to_pmix(library, in_time(), kGenerous);
        ASSERT_TRUE(store) << store.error().message;
        auto made = (*store)->reports();
        ASSERT_TRUE(made) << made.error().message;
        reports = std::move(*made);
    }
    EXPECT_EQ(called.handlers, 1);
    EXPECT_EQ(called.sessions, 1);
    called.holds_end = std::make_unique<Hold>();
    reports.reset();
    EXPECT_FALSE(Caller::start(now_ns())) << "the end of the session hangs";
    called.holds_end->end();
    wait_for_all();
    EXPECT_EQ(called.handlers, 0);
    EXPECT_EQ(called.sessions, 0);
}

}  // namespace
}  // namespace coppice::bootstrap
