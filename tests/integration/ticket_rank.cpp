// A job whose last rank is no rank: it comes with a ticket, to the group of all others. When it is as far as is asked for, all tell the launcher
// that they are there: the network can be cut from that moment on (coppice-run --cut …@joined+TIME).
//
//   coppice-run -n N --hosts N ticket_rank PHASE FILE
//
// PHASE: "knocks": the last one has its ticket, and begins to join; "waits": the members know it, and take it in from now on. FILE is where the
// ticket is written. Each rank that is in the group at the end prints a line with the members; the last rank also prints why it is not.
#include <coppice/coppice.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "bootstrap/launcher.hpp"

namespace {

using coppice::bootstrap::LauncherBootstrap;
using coppice::bootstrap::LauncherEnvironment;

constexpr std::uint64_t kPatienceNs = 120'000'000'000;
constexpr std::uint64_t kIsOver = 1;     // the last one has ended
constexpr std::uint64_t kHasWorked = 2;  // with all

[[noreturn]] void end(const char* what) {
    fprintf(stderr, "ticket_rank: %s: %s\n", what, coppice_last_error());
    exit(3);
}

void check(coppice_status_t status, const char* what) {
    if (status != COPPICE_OK) end(what);
}

void pause_a_little() {
    usleep(1000);
}

bool exists(const std::string& file) {
    return access(file.c_str(), F_OK) == 0;
}

void touch(const std::string& file) {
    std::ofstream(file).flush();
}

LauncherEnvironment own_environment() {
    const auto number = [](const char* name) { return static_cast<std::uint32_t>(strtoul(getenv(name), nullptr, 10)); };
    return {coppice::Rank(number("COPPICE_RANK")), number("COPPICE_SIZE"), getenv("COPPICE_LAUNCHER")};
}

// The launcher counts from here.
void meet(const LauncherEnvironment& environment) {
    auto bootstrap = LauncherBootstrap::create(environment, coppice::now_ns() + kPatienceNs);
    if (!bootstrap || !(*bootstrap)->allgather(std::vector<std::byte>(1), coppice::now_ns() + kPatienceNs)) {
        fprintf(stderr, "ticket_rank: the ranks do not meet\n");
        exit(3);
    }
}

void say_who_is_in(const coppice_group_t* group) {
    coppice_view_t view{};
    view.struct_size = sizeof view;
    check(coppice_group_view(group, &view, nullptr, 0), "view");
    std::vector<coppice_member_t> members(view.size);
    check(coppice_group_view(group, &view, members.data(), members.size()), "view");
    std::string text;
    for (const coppice_member_t& one : members)
        text.append(" ").append(std::to_string(one.seat)).append(".").append(std::to_string(one.incarnation));
    printf("group %u:%s\n", view.epoch, text.c_str());
    fflush(stdout);
}

coppice_group_t* renew(coppice_group_t* group) {
    coppice_group_t* next = nullptr;
    check(coppice_group_renew(group, nullptr, &next, kPatienceNs), "renew");
    check(coppice_group_destroy(group, kPatienceNs), "destroy");
    return next;
}

// Agrees, and renews where it has to, until all have worked with the last one, or it is over with that.
template <class Meet>
void work(coppice_context_t* context, coppice_group_t* group, std::uint32_t all, const std::string& over,
          Meet&& waits) {
    for (int rounds = 0;;) {
        std::uint64_t value = (exists(over) ? kIsOver : 0) | (rounds >= 50 ? kHasWorked : 0);
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_OR;
        const coppice_status_t status = coppice_agree(group, &value, sizeof value, &options, kPatienceNs);
        if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED) end("agree");
        int pending = 0;
        check(coppice_group_pending(group, &pending), "pending");
        coppice_group_info_t info{};
        info.struct_size = sizeof info;
        check(coppice_group_query(group, &info), "query");
        if (status == COPPICE_OK && value != 0) break;
        if (pending != 0) waits();
        if (status != COPPICE_OK || pending != 0) group = renew(group);
        rounds += status == COPPICE_OK && info.size == all ? 1 : 0;
        pause_a_little();
    }
    say_who_is_in(group);
    check(coppice_group_destroy(group, kPatienceNs), "destroy");
    check(coppice_context_destroy(context), "context");
}

void be_member(const LauncherEnvironment& self, bool knocks, const std::string& file) {
    coppice_context_t* context = nullptr;
    check(coppice_context_create(nullptr, &context), "context");
    std::vector<std::uint32_t> ranks(self.size - 1);
    for (std::uint32_t rank = 0; rank + 1 < self.size; ++rank)
        ranks[rank] = rank;
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.ranks = ranks.data();
    options.rank_count = ranks.size();
    coppice_group_t* group = nullptr;
    check(coppice_group_create(context, &options, &group), "create");
    if (self.rank.value == 0) {
        std::vector<char> ticket(COPPICE_TICKET_BYTES);
        std::size_t bytes = ticket.size();
        check(coppice_group_invite(group, 1, kPatienceNs, ticket.data(), &bytes), "invite");
        std::ofstream(file + ".new", std::ios::binary).write(ticket.data(), static_cast<std::streamsize>(bytes));
        rename((file + ".new").c_str(), file.c_str());
    }
    bool has_met = knocks;
    if (knocks) meet(self);
    work(context, group, self.size, file + ".over", [&] {
        if (!has_met) meet(self);
        has_met = true;
    });
}

// Of those that the launcher has started it has the host alone.
void forget_the_launcher() {
    for (const char* name : {"COPPICE_RANK", "COPPICE_SIZE", "COPPICE_LAUNCHER", "COPPICE_WITNESS",
                             "COPPICE_LOCAL_RANK", "COPPICE_LOCAL_SIZE"})
        unsetenv(name);
}

void tell_why_not(const std::string& over) {
    printf("told: %s\n", coppice_last_error());
    fflush(stdout);
    touch(over);
}

void be_stranger(const LauncherEnvironment& self, bool knocks, const std::string& file) {
    forget_the_launcher();
    while (!exists(file))
        pause_a_little();
    std::ifstream stream(file, std::ios::binary);
    const std::vector<char> ticket{std::istreambuf_iterator<char>(stream), {}};
    std::jthread meeting([&self] { meet(self); });
    if (knocks) meeting.join();
    coppice_context_t* context = nullptr;
    check(coppice_context_create(nullptr, &context), "context");
    coppice_group_t* group = nullptr;
    if (coppice_group_join(context, ticket.data(), ticket.size(), nullptr, &group, kPatienceNs) != COPPICE_OK) {
        tell_why_not(file + ".over");
        _exit(0);  // the others may still wait to meet it
    }
    // From here on it ends like a member that is cut off, where it is one.
    for (int rounds = 0;;) {
        std::uint64_t value = rounds >= 50 ? kHasWorked : 0;
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_OR;
        const coppice_status_t status = coppice_agree(group, &value, sizeof value, &options, kPatienceNs);
        if (status == COPPICE_OK && value != 0) break;
        coppice_group_t* next = nullptr;
        int pending = 0;
        check(coppice_group_pending(group, &pending), "pending");
        const bool renews = status == COPPICE_ERR_PEER_FAILED || pending != 0;
        if ((status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED) ||
            (renews && coppice_group_renew(group, nullptr, &next, kPatienceNs) != COPPICE_OK)) {
            tell_why_not(file + ".over");
            _exit(0);
        }
        if (next != nullptr) check(coppice_group_destroy(std::exchange(group, next), kPatienceNs), "destroy");
        ++rounds;
        pause_a_little();
    }
    say_who_is_in(group);
    check(coppice_group_destroy(group, kPatienceNs), "destroy");
    check(coppice_context_destroy(context), "context");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const LauncherEnvironment self = own_environment();
    const bool knocks = strcmp(argv[1], "knocks") == 0;
    if (self.rank.value + 1 == self.size) {
        be_stranger(self, knocks, argv[2]);
    } else {
        be_member(self, knocks, argv[2]);
    }
    return 0;
}
