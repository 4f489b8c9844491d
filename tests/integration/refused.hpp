// A group that goes on and takes in who comes, for tests of those that are refused, or stop or die on their way.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <string>

#include "bootstrap/ticket.hpp"
#include "integration/tickets.hpp"

namespace coppice::testing {

using bootstrap::Ticket;
using Environment = Stranger::Environment;

inline const Environment kOpen{{"COPPICE_JOIN", "any"}, {"COPPICE_CAPACITY", "5"}, {"COPPICE_TRANSPORT", "shm,tcp"}};
inline constexpr std::size_t kStop = 8;  // the note that ends a job
inline constexpr std::size_t kPending =
    10;  // the notes in which each of the first members tells whether somebody waits for it
inline constexpr std::size_t kFirst = 2;  // first members

// Two members that agree, and take in who comes, until they are told to end.
class Refused : public ::testing::Test {
  protected:
    static void serve(Member& member, std::uint32_t uses, std::uint64_t lifetime_ns) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank == 1) invite(member, uses, lifetime_ns);
        go_on(member.context, member.group, member.notes, &member.notes[kPending + member.rank]);
    }
    // All that are in end together.
    static void go_on(coppice_context_t* context, coppice_group_t* group, std::atomic<std::uint64_t>* notes,
                      std::atomic<std::uint64_t>* pending_note = nullptr) {
        while (true) {
            std::uint64_t end = notes[kStop].load();
            const bool is_whole = agree(group, end, COPPICE_MIN);
            int pending = 0;
            COPPICE_CHECK(coppice_group_pending(group, &pending) == COPPICE_OK);
            notes[0].fetch_add(1);
            if (pending_note != nullptr) pending_note->store(static_cast<std::uint64_t>(pending));
            const bool may_renew = notes[3].load() == 0;
            if (is_whole && end != 0) break;
            // May differ between them for a moment: that is an agreement of its own.
            std::uint64_t all = may_renew ? 1 : 0;
            const bool agreed = agree(group, all, COPPICE_MIN);
            if (!is_whole || !agreed || (pending != 0 && all != 0)) {
                group = renew(group);
                notes[7].store(size_of(group));
            }
            usleep(200);
        }
        work_together(group);
        leave(context, group);
    }
    static Job make(std::uint32_t uses = 8, std::uint64_t lifetime_ns = kHour, const Environment& environment = kOpen) {
        JobOptions options;
        options.ranks = kFirst;
        options.environment = environment;
        return Job(
            options, [=](Member& member) { serve(member, uses, lifetime_ns); }, kNotes);
    }
    static bool all_see_that_one_waits(Job& job) {
        return becomes([&] {
            for (std::size_t member = 0; member < kFirst; ++member)
                if (job.note(kPending + member).load() == 0) return false;
            return true;
        });
    }
    static void end(Job& job) {
        job.note(kStop).store(1);
        EXPECT_EQ(job.finish(), "");
    }
    static void expect_refusal(Job& job, const std::function<std::vector<std::byte>()>& ticket, coppice_status_t status,
                               const std::string& words, const Environment& environment = kOpen) {
        const std::size_t one = Stranger::start(job, environment, [=](coppice_context_t* context) {
            Stranger::expect_refusal(context, ticket(), status, words);
        });
        const Ending ending = job.processes().wait(one);
        EXPECT_TRUE(ending.well()) << ending.text();
    }
    // One that joins, and stays until all end.
    static std::size_t start_member(Job& job, const Environment& environment = kOpen) {
        auto* const notes = &job.note(0);
        return Stranger::start(job, environment, [notes](coppice_context_t* context) {
            coppice_group_t* group = Stranger::join(context, get_ticket(notes));
            notes[4].fetch_add(1);
            go_on(context, group, notes);
        });
    }
    static void expect_one_joins(Job& job, std::uint64_t so_many = 1) {
        joined_ = start_member(job);
        EXPECT_TRUE(job.await_note(4, so_many));
    }
    static void end_with_joined(Job& job) {
        end(job);
        const Ending ending = job.processes().wait(joined_);
        EXPECT_TRUE(ending.well()) << ending.text();
    }
    static Ticket read(const std::vector<std::byte>& bytes) {
        Ticket ticket;
        COPPICE_CHECK(Ticket::read(bytes, ticket) == Ticket::Reading::whole);
        return ticket;
    }
    static inline std::size_t joined_ = 0;
};

inline int connect_to(const bootstrap::DoorAddress& door) {
    const bootstrap::DoorAddress::Ip& ip = door.ips.back();  // this host's
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(door.port);
    std::memcpy(&to.sin_addr, ip.bytes.data(), 4);
    COPPICE_CHECK(::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    return socket;
}

}  // namespace coppice::testing
