// Groups that processes join with tickets, as tests drive them: members of a job, and strangers that the job has not started.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {

inline constexpr std::size_t kNotes = 1024;
inline constexpr std::uint64_t kHour = 3'600'000'000'000;

// A ticket as it lies in the job's notes, from word `at` on: its length, and its bytes.
inline constexpr std::size_t kTicketWords = 1 + COPPICE_TICKET_BYTES / 8;
inline constexpr std::size_t kTicketAt = 64;

inline void put_ticket(std::atomic<std::uint64_t>* notes, const std::vector<std::byte>& ticket,
                       std::size_t at = kTicketAt) {
    std::memcpy(static_cast<void*>(notes + at + 1), ticket.data(), ticket.size());
    notes[at].store(ticket.size());
}

inline std::vector<std::byte> get_ticket(const std::atomic<std::uint64_t>* notes, std::size_t at = kTicketAt) {
    COPPICE_CHECK(becomes([&] { return notes[at].load() != 0; }));
    std::vector<std::byte> ticket(notes[at].load());
    std::memcpy(ticket.data(), static_cast<const void*>(notes + at + 1), ticket.size());
    return ticket;
}

inline void invite(const Member& member, std::uint32_t uses, std::uint64_t lifetime_ns = kHour,
                   std::size_t at = kTicketAt) {
    std::vector<std::byte> ticket(COPPICE_TICKET_BYTES);
    std::size_t bytes = ticket.size();
    if (coppice_group_invite(member.group, uses, lifetime_ns, ticket.data(), &bytes) != COPPICE_OK)
        throw CheckFailed(coppice_last_error());
    ticket.resize(bytes);
    put_ticket(member.notes, ticket, at);
}

inline std::uint32_t size_of(const coppice_group_t* group) {
    coppice_view_t view{};
    view.struct_size = sizeof view;
    COPPICE_CHECK(coppice_group_view(group, &view, nullptr, 0) == COPPICE_OK);
    return view.size;
}

// An agreement; whether all were there.
inline bool agree(coppice_group_t* group, std::uint64_t& value, coppice_operation_t operation = COPPICE_OR) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = operation;
    const coppice_status_t status = coppice_agree(group, &value, sizeof value, &options, kDeadlineNs);
    if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED) throw CheckFailed(coppice_last_error());
    return status == COPPICE_OK;
}

inline coppice_group_t* renew(coppice_group_t* group) {
    coppice_group_t* next = nullptr;
    if (coppice_group_renew(group, nullptr, &next, kDeadlineNs) != COPPICE_OK) throw CheckFailed(coppice_last_error());
    COPPICE_CHECK(coppice_group_destroy(group, kDeadlineNs) == COPPICE_OK);
    return next;
}

// Agrees, and renews where somebody waits or has died, until the group has so many members, nobody waits, and all are there.
inline coppice_group_t* grow(coppice_group_t* group, std::uint32_t members) {
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (true) {
        std::uint64_t value = 0;
        const bool is_whole = agree(group, value);
        int pending = 0;
        COPPICE_CHECK(coppice_group_pending(group, &pending) == COPPICE_OK);
        if (is_whole && pending == 0 && size_of(group) == members) return group;
        if (!is_whole || pending != 0) group = renew(group);
        if (now_ns() > deadline) {
            throw CheckFailed("there are " + std::to_string(size_of(group)) + " members, not " +
                              std::to_string(members));
        }
        usleep(200);
    }
}

// All of them agree, and hear of each.
inline void work_together(coppice_group_t* group) {
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    COPPICE_CHECK(coppice_group_query(group, &info) == COPPICE_OK);
    for (std::uint64_t round = 0; round < 3; ++round) {
        std::uint64_t value = std::uint64_t{1} << info.rank;
        COPPICE_CHECK(agree(group, value));
        COPPICE_CHECK(value == (std::uint64_t{1} << info.size) - 1);
        for (std::uint32_t root = 0; root < info.size; ++root) {
            const std::vector<unsigned char> sent = payload_of(round, root, 2000);
            std::vector<unsigned char> buffer = info.rank == root ? sent : std::vector<unsigned char>(sent.size());
            if (coppice_broadcast(group, buffer.data(), buffer.size(), root, nullptr, kDeadlineNs) != COPPICE_OK)
                throw CheckFailed(coppice_last_error());
            COPPICE_CHECK(buffer == sent);
        }
    }
    COPPICE_CHECK(info.garbage == 0);
}

inline void leave(coppice_context_t* context, coppice_group_t* group) {
    COPPICE_CHECK(coppice_group_destroy(group, kDeadlineNs) == COPPICE_OK);
    COPPICE_CHECK(coppice_context_destroy(context) == COPPICE_OK);
}

// A process that nobody of the job has started.
struct Stranger {
    using Environment = std::map<std::string, std::string>;
    using Body = std::function<void(coppice_context_t*)>;

    static std::size_t start(Job& job, const Environment& environment, const Body& body) {
        return job.processes().start([environment, body] {
            for (const auto& [name, value] : environment)
                setenv(name.c_str(), value.c_str(), 1);
            coppice_context_t* context = nullptr;
            COPPICE_CHECK(coppice_context_create(nullptr, &context) == COPPICE_OK);
            body(context);
            return 0;
        });
    }

    static coppice_group_t* join(coppice_context_t* context, const std::vector<std::byte>& ticket) {
        coppice_group_t* group = nullptr;
        if (coppice_group_join(context, ticket.data(), ticket.size(), nullptr, &group, kDeadlineNs) != COPPICE_OK)
            throw CheckFailed(coppice_last_error());
        COPPICE_CHECK(group != nullptr);
        return group;
    }

    // Refused with this status, and a sentence that has these words.
    static void expect_refusal(coppice_context_t* context, const std::vector<std::byte>& ticket,
                               coppice_status_t status, const std::string& words) {
        coppice_group_t* group = nullptr;
        const coppice_status_t got =
            coppice_group_join(context, ticket.data(), ticket.size(), nullptr, &group, kDeadlineNs);
        const std::string said = coppice_last_error();
        if (got != status || said.find(words) == std::string::npos)
            throw CheckFailed("status " + std::to_string(got) + ": " + said);
        COPPICE_CHECK(group == nullptr);
        COPPICE_CHECK(coppice_context_destroy(context) == COPPICE_OK);
    }
};

}  // namespace coppice::testing
