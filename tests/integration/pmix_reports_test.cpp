// Deaths that a server of PMIx reports, to processes that keep their sessions. The dead are only stopped: nothing else tells of them, and
// when they go on they are found to be wrong.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <regex>
#include <stdexcept>

#include "integration/pmix_server.hpp"
#include "support/stopped.hpp"

namespace coppice::testing {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kVictim = 3;
const Environment kKeep{{"COPPICE_PMIX_SESSION", "keep"}};
// The victim is rank 0 in a group of these.
const char* const kBackwards = "make 3 2 1 0";

// How ranks reach each other, and who waits for what.
struct Way {
    const char* name;
    std::uint32_t hosts;
    Environment environment;
    friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};

class Reports : public ::testing::TestWithParam<Way> {
  protected:
    PmixJob start(Environment environment) const {
        environment.insert(GetParam().environment.begin(), GetParam().environment.end());
        return PmixJob(kRanks, environment, GetParam().hosts);
    }
};
INSTANTIATE_TEST_SUITE_P(Pmix, Reports,
                         ::testing::Values(Way{"one_host", 1, {}}, Way{"two_hosts", 2, {}},
                                           Way{"each_a_host", kRanks, {}},
                                           Way{"no_thread", 2, {{"COPPICE_PROGRESS_THREAD", "0"}}}),
                         [](const auto& way) { return std::string(way.param.name); });

// The one that this process has.
std::string pmix_library() {
    Dl_info found{};
    if (::dladdr(reinterpret_cast<void*>(&PMIx_Init), &found) == 0) throw std::runtime_error("no libpmix");
    return std::filesystem::canonical(found.dli_fname);
}

void expect_all(PmixJob& job, const std::string& line, std::uint32_t ranks = kRanks) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(job.hear(rank), line) << "rank " << rank << "; " << job.errors();
}

void tell_survivors(const PmixJob& job, const std::string& line) {
    for (std::uint32_t rank = 0; rank < kVictim; ++rank)
        job.tell(rank, line);
}

void stop_victim(PmixJob& job) {
    job.processes().signal(kVictim, SIGSTOP);
    ASSERT_TRUE(await_stopped(job.processes(), kVictim));
}

TEST_P(Reports, EndTheWaitForARank) {
    PmixJob job = start(kKeep);
    job.tell_all(kBackwards);
    expect_all(job, "made 4");
    stop_victim(job);
    tell_survivors(job, "agree 0");
    job.report(PMIX_ERR_PROC_ABORTED, job.process(kVictim));
    expect_all(job, "agreed 0xe failed", kVictim);
    tell_survivors(job, "shrink 0");
    expect_all(job, "shrunk 3", kVictim);
    tell_survivors(job, "agree 0");
    expect_all(job, "agreed 0x7 ok", kVictim);
    // It lives nevertheless.
    job.processes().signal(kVictim, SIGCONT);
    job.tell(kVictim, "agree 0");
    EXPECT_EQ(job.hear(kVictim), "agreed 0x1 fenced") << job.errors();
}

TEST_P(Reports, AreNotHeardByThoseThatEndTheirSessions) {
    PmixJob job = start({});
    job.tell_all(kBackwards);
    expect_all(job, "made 4");
    EXPECT_EQ(PmixJob::ended_sessions(), kRanks);
    stop_victim(job);
    tell_survivors(job, "agree 0");
    job.report(PMIX_ERR_PROC_ABORTED, job.process(kVictim));
    job.processes().signal(kVictim, SIGCONT);
    job.tell(kVictim, "agree 0");
    expect_all(job, "agreed 0xf ok");
}

// Events arrive in their order: when the last one has been heeded, so have been the others.
TEST_P(Reports, ThatMakeNoSenseAreLeft) {
    PmixJob job = start(kKeep);
    job.tell_all(kBackwards);
    expect_all(job, "made 4");
    pmix_proc_t elsewhere;
    PMIX_LOAD_PROCID(&elsewhere, "another-job", 0);
    constexpr pmix_rank_t kUnknown = 77;
    job.report(PMIX_ERR_PROC_ABORTED, elsewhere);
    for (const pmix_rank_t rank :
         {kUnknown, static_cast<pmix_rank_t>(kRanks), static_cast<pmix_rank_t>(PMIX_RANK_WILDCARD),
          static_cast<pmix_rank_t>(PMIX_RANK_UNDEF)})
        job.report(PMIX_ERR_PROC_ABORTED, job.process(rank));
    for (std::uint32_t rank = 0; rank < kVictim; ++rank)
        job.report_to(rank, PMIX_ERR_PROC_ABORTED, job.process(rank));  // its own death
    job.report_nonsense(PMIX_ERR_PROC_ABORTED);
    stop_victim(job);
    tell_survivors(job, "agree 0");
    job.report(PMIX_ERR_PROC_KILLED_BY_CMD, {elsewhere, job.process(kUnknown), job.process(kVictim)});
    expect_all(job, "agreed 0xe failed", kVictim);
    job.report(PMIX_ERR_PROC_ABORTED, job.process(kVictim));  // once more
    tell_survivors(job, "shrink 0");
    expect_all(job, "shrunk 3", kVictim);
    job.report(PMIX_ERR_PROC_ABORTED, job.process(kVictim));
    tell_survivors(job, "agree 0");
    expect_all(job, "agreed 0x7 ok", kVictim);
}

// The session stays for the one that is left, and ends with it.
TEST_P(Reports, AreForAllGroupsOfAProcess) {
    PmixJob job = start(kKeep);
    job.tell_all("make");
    expect_all(job, "made 4");
    job.tell_all(kBackwards);
    expect_all(job, "made 4");
    job.tell_all("make");
    expect_all(job, "made 4");
    job.tell_all("leave 0");
    expect_all(job, "left");
    EXPECT_EQ(PmixJob::ended_sessions(), 0U);
    stop_victim(job);
    tell_survivors(job, "agree 1");
    job.report(PMIX_ERR_PROC_ABORTED, job.process(kVictim));
    expect_all(job, "agreed 0xe failed", kVictim);
    tell_survivors(job, "agree 2");
    expect_all(job, "agreed 0x7 failed", kVictim);
    for (const char* const last : {"leave 1", "leave 2"}) {
        EXPECT_EQ(PmixJob::ended_sessions(), 0U);
        tell_survivors(job, last);
        expect_all(job, "left", kVictim);
    }
    EXPECT_EQ(PmixJob::ended_sessions(), kVictim);
}

// Then no session is kept, for which a launcher might end the job.
TEST_P(Reports, AreDoneWithoutWhereThereAreNone) {
    for (const char* const does : {"refused", "silent"}) {
        Environment environment = kKeep;
        environment["UNSURE_PMIX_EVENTS"] = does;
        environment["UNSURE_PMIX"] = pmix_library();
        const char* const others = std::getenv("LD_LIBRARY_PATH");
        environment["LD_LIBRARY_PATH"] =
            std::filesystem::path(UNSURE_PMIX).parent_path().string() + ":" + (others == nullptr ? "" : others);
        PmixJob job = start(environment);
        job.tell_all("make");
        expect_all(job, "made 4");
        EXPECT_EQ(PmixJob::ended_sessions(), kRanks);
        job.tell_all("make");
        expect_all(job, "made 4");
        const std::string errors = job.errors();
        const std::regex told("COPPICE_PMIX_SESSION=keep is of no use here: the launcher's server of PMIx does not");
        EXPECT_EQ(std::distance(std::sregex_iterator(errors.begin(), errors.end(), told), {}), kRanks) << errors;
        job.tell_all("agree 0");
        expect_all(job, "agreed 0xf ok");
    }
}

// After the session has ended there is another one.
TEST_P(Reports, AreHeardInALaterSessionToo) {
    PmixJob job = start(kKeep);
    job.tell_all("make");
    expect_all(job, "made 4");
    job.tell_all("leave 0");
    expect_all(job, "left");
    EXPECT_EQ(PmixJob::ended_sessions(), kRanks);
    job.tell_all(kBackwards);
    expect_all(job, "made 4");
    stop_victim(job);
    tell_survivors(job, "agree 1");
    job.report(PMIX_ERR_PROC_ABORTED, job.process(kVictim));
    expect_all(job, "agreed 0xe failed", kVictim);
}

}  // namespace
}  // namespace coppice::testing
