// What becomes of a server's events before an engine takes them; with a library of the test's own. With libpmix: integration.pmix_reports.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "bootstrap/pmix_caller.hpp"
#include "bootstrap/pmix_reports.hpp"

namespace coppice::bootstrap::pmix {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr int kRefused = -46;

// What was called.
struct Called {
    int sessions = 0;  // begun, and not ended
    int handlers = 0;
    int registrations = 0;
    int answer = COPPICE_PMIX_SUCCESS;
    coppice_pmix_event_fn handler = nullptr;
    int handled = 0;
} called;

Library fake() {
    called = {};
    Library library;
    library.init = [](Process*, Info*, std::size_t) { return ++called.sessions, int{COPPICE_PMIX_SUCCESS}; };
    library.finalize = [](const Info*, std::size_t) { return --called.sessions, int{COPPICE_PMIX_SUCCESS}; };
    library.error_string = [](int) { return "a reason"; };
    library.version = [] { return "a library"; };
    library.register_handler = [](int*, std::size_t, Info*, std::size_t, coppice_pmix_event_fn handler,
                                  coppice_pmix_registered_fn registered, void* argument) {
        called.handler = handler;
        ++called.registrations;
        if (called.answer == COPPICE_PMIX_SUCCESS) ++called.handlers;
        std::thread([=] { registered(called.answer, 7, argument); }).join();
        return int{COPPICE_PMIX_SUCCESS};
    };
    library.deregister_handler = [](std::size_t reference, coppice_pmix_done_fn, void*) {
        EXPECT_EQ(reference, 7U);
        return --called.handlers, int{COPPICE_PMIX_SUCCESS};
    };
    return library;
}

Process process(std::uint32_t rank, const char* job = "job") {
    Process one{};
    std::strncpy(one.nspace, job, sizeof one.nspace - 1);
    one.rank = rank;
    return one;
}

void tell(std::vector<Info> infos) {
    const auto handled = [](int status, Info*, std::size_t, coppice_pmix_done_fn, void*, void*) {
        EXPECT_EQ(status, COPPICE_PMIX_NO_ACTION_TAKEN);
        ++called.handled;
    };
    const int before = called.handled;
    called.handler(0, COPPICE_PMIX_PROC_ABORTED, nullptr, infos.data(), infos.size(), nullptr, 0, handled, nullptr);
    EXPECT_EQ(called.handled, before + 1);
}

Info about(Process& one) {
    Info info{};
    std::strcpy(info.key, COPPICE_PMIX_AFFECTED_PROC);
    info.value.type = COPPICE_PMIX_PROC;
    info.value.data.process = &one;
    return info;
}

Info about(coppice_pmix_array_t& array) {
    Info info{};
    std::strcpy(info.key, COPPICE_PMIX_AFFECTED_PROCS);
    info.value.type = COPPICE_PMIX_DATA_ARRAY;
    info.value.data.array = &array;
    return info;
}

// And waits for the calls that this makes.
void end(std::unique_ptr<Reports>& reports) {
    reports.reset();
    EXPECT_TRUE(Caller::start(now_ns() + 120'000'000'000));
}

bool is_readable(const Reports& reports) {
    pollfd entry{.fd = reports.descriptor(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
}

TEST(PmixReports, TellOfADeathOnce) {
    const Library library = fake();
    const auto reports = listen(library, process(0), kRanks);
    ASSERT_TRUE(reports);
    EXPECT_FALSE(is_readable(**reports));
    EXPECT_TRUE((*reports)->take().empty());
    Process dead = process(2);
    tell({about(dead)});
    tell({about(dead)});
    EXPECT_TRUE(is_readable(**reports));
    EXPECT_EQ((*reports)->take(), std::vector{Rank(2)});
    EXPECT_FALSE(is_readable(**reports));
    tell({about(dead)});
    EXPECT_FALSE(is_readable(**reports));
    EXPECT_TRUE((*reports)->take().empty());
}

TEST(PmixReports, TellOfTheJobsOtherRanksAlone) {
    const Library library = fake();
    const auto reports = listen(library, process(1), kRanks);
    ASSERT_TRUE(reports);
    std::vector<Process> several{process(0, "another"),   process(1), process(kRanks), process(UINT32_MAX),
                                 process(UINT32_MAX - 1), process(3), process(0, ""),  process(0, "jo"),
                                 process(0, "job2")};
    for (Process& one : several)
        tell({about(one)});
    EXPECT_EQ((*reports)->take(), std::vector{Rank(3)});
    several.push_back(process(2));
    coppice_pmix_array_t array{.type = COPPICE_PMIX_PROC, .size = several.size(), .items = several.data()};
    tell({about(array)});
    EXPECT_EQ((*reports)->take(), std::vector{Rank(2)});
}

TEST(PmixReports, LeaveWhatIsNoProcess) {
    const Library library = fake();
    const auto reports = listen(library, process(1), kRanks);
    ASSERT_TRUE(reports);
    Process one = process(2);
    Info info = about(one);
    info.value.type = COPPICE_PMIX_UINT32;
    tell({info});
    info = about(one);
    info.value.data.process = nullptr;
    tell({info});
    info = about(one);
    std::strcpy(info.key, "pmix.something");
    tell({info});
    coppice_pmix_array_t array{.type = COPPICE_PMIX_UINT32, .size = 1, .items = &one};
    info = about(array);
    tell({info});
    array = {.type = COPPICE_PMIX_PROC, .size = 1, .items = nullptr};
    tell({info});
    info.value.data.array = nullptr;
    tell({info});
    array = {.type = COPPICE_PMIX_PROC, .size = 1, .items = &one};
    info = about(array);
    info.value.type = COPPICE_PMIX_BYTE_OBJECT;
    tell({info});
    tell({});
    EXPECT_FALSE(is_readable(**reports));
    called.handler(0, COPPICE_PMIX_PROC_ABORTED, nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr);
}

TEST(PmixReports, ShareOneHandlerAndEndTheSessionWithTheLast) {
    const Library library = fake();
    auto first = listen(library, process(0), kRanks);
    auto second = listen(library, process(0), kRanks);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(called.registrations, 1);
    EXPECT_EQ(called.sessions, 2);
    end(*first);
    EXPECT_EQ(called.handlers, 1);
    Process dead = process(3);
    tell({about(dead)});
    EXPECT_EQ((*second)->take(), std::vector{Rank(3)});
    end(*second);
    EXPECT_EQ(called.handlers, 0);
    EXPECT_EQ(called.sessions, 0);
    tell({about(dead)});  // the library was about to say so
    auto third = listen(library, process(0), kRanks);
    ASSERT_TRUE(third);
    EXPECT_EQ(called.registrations, 2);
    EXPECT_EQ(called.handlers, 1);
}

TEST(PmixReports, AreRefusedAndNoSessionIsKept) {
    Library library = fake();
    called.answer = kRefused;
    const auto refused = listen(library, process(0), kRanks);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("a reason (-46)"), std::string::npos) << refused.error().message;
    EXPECT_EQ(called.sessions, 0);
    library.register_handler = [](int*, std::size_t, Info*, std::size_t, coppice_pmix_event_fn,
                                  coppice_pmix_registered_fn, void*) { return kRefused; };
    const auto not_taken = listen(library, process(0), kRanks);
    ASSERT_FALSE(not_taken);
    EXPECT_NE(not_taken.error().message.find("takes no handler"), std::string::npos) << not_taken.error().message;
    EXPECT_EQ(called.sessions, 0);
    library.register_handler = nullptr;  // an old library
    EXPECT_FALSE(listen(library, process(0), kRanks));
    EXPECT_EQ(called.sessions, 0);
}

}  // namespace
}  // namespace coppice::bootstrap::pmix
