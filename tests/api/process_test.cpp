// What may call the library at all: not a forked child of a process that uses it, not a failure callback.
#include <unistd.h>

#include "api/support.hpp"

namespace coppice::testing {
namespace {

// Both sides can do their work.
void check_pair_works() {
    Pair pair;
    pair.make();
    for (const Pair::Side& one : pair.side)
        COPPICE_CHECK(one.status == COPPICE_OK);
    pair.at_all([](Pair::Side& one) {
        std::uint64_t value = one.rank == 0 ? 17 : 0;
        one.status = coppice_broadcast(one.group, &value, sizeof value, 0, nullptr, kDeadlineNs);
        if (one.status == COPPICE_OK && value != 17) one.status = COPPICE_ERR_INTERNAL;
        if (one.status == COPPICE_OK) one.status = coppice_agree(one.group, nullptr, 0, nullptr, kDeadlineNs);
    });
    for (const Pair::Side& one : pair.side)
        COPPICE_CHECK(one.status == COPPICE_OK);
    pair.unmake();
    for (const Pair::Side& one : pair.side)
        COPPICE_CHECK(one.status == COPPICE_OK);
}

TEST(Process, AChildIsRefusedWhileItsParentHasAContextAndSoAreItsChildren) {
    coppice_context_t* context = nullptr;
    ASSERT_EQ(coppice_context_create(nullptr, &context), COPPICE_OK);
    Processes processes;
    const auto parent = std::to_string(getpid());
    const std::size_t child = processes.start([&] {
        coppice_context_t* other = nullptr;
        COPPICE_CHECK(coppice_context_create(nullptr, &other) == COPPICE_ERR_FORKED);
        COPPICE_CHECK(std::string(coppice_last_error()).find(parent) != std::string::npos);
        COPPICE_CHECK(coppice_context_destroy(context) == COPPICE_ERR_FORKED);
        Processes own;
        const std::size_t grandchild = own.start([&] {
            COPPICE_CHECK(coppice_context_create(nullptr, &other) == COPPICE_ERR_FORKED);
            return 0;
        });
        COPPICE_CHECK(own.wait(grandchild).well());
        return 0;
    });
    EXPECT_TRUE(processes.wait(child).well());
    EXPECT_EQ(coppice_progress(context), COPPICE_OK) << "the parent is not concerned";
    EXPECT_EQ(coppice_context_destroy(context), COPPICE_OK);
}

TEST(Process, AChildOfOneThatHasEndedItsContextsIsAsFreeAsAny) {
    for (const char* transport : {"shm", "ucx"}) {
        const Variable allowed("COPPICE_TRANSPORT", transport);
        check_pair_works();
        Processes processes;
        const std::size_t child = processes.start([] {
            check_pair_works();
            return 0;
        });
        EXPECT_TRUE(processes.wait(child).well()) << transport;
        check_pair_works();
    }
}

}  // namespace
}  // namespace coppice::testing
