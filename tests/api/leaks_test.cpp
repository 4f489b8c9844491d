// Contexts and groups leave nothing behind: no descriptor, no thread, no mapping.
#include <fstream>

#include "api/support.hpp"

namespace coppice::testing {
namespace {

// Mappings of shared segments in this process.
std::size_t mapped_segments() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find("memfd:coppice") != std::string::npos ? 1 : 0;
    return count;
}

struct Holdings {
    std::size_t descriptors = open_descriptors();
    std::size_t tasks = threads();
    std::size_t segments = mapped_segments();
};

// What is left after `rounds` more of what was done twice before: UCX and the obituary's thread are started once.
template <class Body>
void expect_nothing_left(int rounds, Body&& body) {
    body();
    body();
    const Holdings before;
    EXPECT_EQ(before.segments, 0U);
    for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round)
        body();
    // A thread that was joined may still be listed for a moment.
    EXPECT_TRUE(becomes([&] { return threads() <= before.tasks; }));
    const Holdings after;
    EXPECT_EQ(after.descriptors, before.descriptors);
    EXPECT_EQ(after.segments, 0U);
}

void make_and_destroy_alone(bool progress_thread) {
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
    coppice_context_options_t context_options = COPPICE_CONTEXT_OPTIONS_INIT;
    context_options.progress_thread = progress_thread ? 1 : 0;
    const coppice_group_options_t options = options_alone();
    ASSERT_EQ(coppice_context_create(&context_options, &context), COPPICE_OK) << coppice_last_error();
    ASSERT_EQ(coppice_group_create(context, &options, &group), COPPICE_OK) << coppice_last_error();
    char byte = 0;
    EXPECT_EQ(coppice_broadcast(group, &byte, 1, 0, nullptr, kDeadlineNs), COPPICE_OK);
    EXPECT_EQ(coppice_group_destroy(group, kDeadlineNs), COPPICE_OK);
    EXPECT_EQ(coppice_context_destroy(context), COPPICE_OK);
}

void make_and_destroy_pair() {
    Pair pair;
    pair.make();
    pair.expect_well();
    pair.at_all([](Pair::Side& one) {
        char byte = 0;
        one.status = coppice_broadcast(one.group, &byte, 1, 0, nullptr, kDeadlineNs);
        if (one.status == COPPICE_OK) one.status = coppice_broadcast(one.group, &byte, 1, 1, nullptr, kDeadlineNs);
        if (one.status != COPPICE_OK) one.error = coppice_last_error();
    });
    pair.expect_well();
    pair.unmake();
    pair.expect_well();
}

TEST(Leaks, GroupsOfOneLeaveNothing) {
    expect_nothing_left(200, [] { make_and_destroy_alone(false); });
}

TEST(Leaks, ProgressThreadsLeaveNothing) {
    expect_nothing_left(200, [] { make_and_destroy_alone(true); });
}

TEST(Leaks, SharedSegmentsLeaveNothing) {
    for (const char* hierarchy : {"host", "flat"}) {
        const Variable variable("COPPICE_HIERARCHY", hierarchy);
        expect_nothing_left(200, make_and_destroy_pair);
    }
}

TEST(Leaks, UcxLeavesNothing) {
    const Variable variable("COPPICE_TRANSPORT", "ucx");
    expect_nothing_left(30, make_and_destroy_pair);
}

TEST(Leaks, TcpLeavesNothing) {
    const Variable variable("COPPICE_TRANSPORT", "tcp");
    expect_nothing_left(100, make_and_destroy_pair);
}

TEST(Leaks, CreationsThatFailHalfWayLeaveNothing) {
    // Greetings and addresses take an exchange each, and so does the sharing of boards.
    for (const auto& [transport, enough] : {std::pair{"shm", 3}, std::pair{"ucx", 2}, std::pair{"tcp", 2}}) {
        const Variable variable("COPPICE_TRANSPORT", transport);
        for (int exchanges = 0; exchanges < enough; ++exchanges) {
            SCOPED_TRACE(std::string(transport) + " fails after " + std::to_string(exchanges) + " exchanges");
            expect_nothing_left(10, [exchanges] {
                Pair pair;
                pair.make(exchanges);
                for (Pair::Side& one : pair.side) {
                    EXPECT_EQ(one.status, COPPICE_ERR_BOOTSTRAP);
                    EXPECT_THAT(one.error, ::testing::HasSubstr("returned 5"));
                    EXPECT_EQ(one.group, nullptr);
                }
                pair.unmake();
                pair.expect_well();
            });
        }
    }
}

}  // namespace
}  // namespace coppice::testing
