// What a group tells of itself, without anybody else.
#include <algorithm>

#include "api/api.hpp"
#include "api/structures.hpp"

using namespace coppice;

extern "C" {

coppice_status_t coppice_group_query(const coppice_group_t* group, coppice_group_info_t* info) {
    if (!api::is_group(group)) return api::no_group("coppice_group_query", group);
    if (info == nullptr) return api::null_argument("coppice_group_query", "info");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        const engine::Group& inner = *group->engine;
        coppice_group_info_t all{};
        all.rank = inner.members().self().value;
        all.size = inner.members().ranks();
        all.hosts = inner.members().nodes();
        all.window = inner.settings().window;
        all.max_payload = engine::kMaxBroadcast;
        all.connections = inner.connections();
        all.garbage = inner.garbage();
        all.refused = inner.refused();
        all.epoch = inner.epoch().value;
        const std::string transports = inner.transports();
        transports.copy(all.transports, sizeof all.transports - 1);
        all.leaves = inner.leaves();
        api::move_on(group);
        return api::given(api::give_answer(all, info, COPPICE_SIZE_THROUGH(coppice_group_info_t, refused),
                                           "coppice_group_query", "coppice_group_info_t"));
    });
}

coppice_status_t coppice_group_count(const coppice_group_t* group, coppice_group_counts_t* counts) {
    if (!api::is_group(group)) return api::no_group("coppice_group_count", group);
    if (counts == nullptr) return api::null_argument("coppice_group_count", "counts");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        group->context->glance();
        const transport::Counters now = group->engine->counters();
        coppice_group_counts_t all{};
        all.sends = now.sends;
        all.writes = now.writes;
        all.received = now.received;
        all.doorbells = now.doorbells;
        all.work_requests = now.work_requests;
        all.signalled = now.signalled;
        all.probes = now.probes;
        all.busy_polls = now.busy_polls;
        all.copies = now.copies;
        all.registrations = now.registrations;
        const engine::Context::Duty& duty = group->context->duty();
        all.takeovers = duty.takeovers;
        all.thread_rounds = duty.rounds;
        all.thread_events = duty.events;
        const engine::Payloads::Counts& payloads = group->engine->payloads().counts();
        all.chunks = payloads.taken;
        all.chunks_sent = payloads.sent;
        all.chunks_again = payloads.again;
        all.chunks_damaged = payloads.damaged;
        all.chunks_read = payloads.read;
        all.reads = now.reads;
        const auto& sent = group->engine->broadcast_messages();
        const auto over = [&sent](engine::Crossing crossing) { return sent[static_cast<std::size_t>(crossing)]; };
        all.sent_in_host = over(engine::Crossing::host);
        all.sent_in_leaf = over(engine::Crossing::leaf);
        all.sent_in_pod = over(engine::Crossing::pod);
        all.sent_beyond = over(engine::Crossing::network);
        all.unregistered = payloads.unregistered;
        return api::given(api::give_answer(all, counts, COPPICE_SIZE_THROUGH(coppice_group_counts_t, registrations),
                                           "coppice_group_count", "coppice_group_counts_t"));
    });
}

coppice_status_t coppice_group_failed(const coppice_group_t* group, uint32_t* ranks, size_t capacity, size_t* count) {
    if (!api::is_group(group)) return api::no_group("coppice_group_failed", group);
    if (count == nullptr) return api::null_argument("coppice_group_failed", "count");
    if (ranks == nullptr && capacity > 0) return api::null_argument("coppice_group_failed", "ranks");
    return api::guarded<api::Callers::kAll>([&] {
        const engine::Context::Guard guard(*group->context);
        api::move_on(group);
        const auto failed = group->engine->members().failed_ranks();
        for (std::size_t i = 0; i < std::min(capacity, failed.size()); ++i)
            ranks[i] = failed[i].value;
        *count = failed.size();
        return COPPICE_OK;
    });
}

coppice_status_t coppice_group_pending(const coppice_group_t* group, int* pending) {
    if (!api::is_group(group)) return api::no_group("coppice_group_pending", group);
    if (pending == nullptr) return api::null_argument("coppice_group_pending", "pending");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        group->context->glance();
        *pending = group->engine->agreement().change_waits() ? 1 : 0;
        return COPPICE_OK;
    });
}

coppice_status_t coppice_group_view(const coppice_group_t* group, coppice_view_t* view, coppice_member_t* members,
                                    size_t capacity) {
    if (!api::is_group(group)) return api::no_group("coppice_group_view", group);
    if (view == nullptr) return api::null_argument("coppice_group_view", "view");
    if (members == nullptr && capacity > 0) return api::null_argument("coppice_group_view", "members");
    return api::guarded([&] {
        const engine::Context::Guard guard(*group->context);
        group->context->glance();
        const engine::Group& inner = *group->engine;
        const engine::Lineage& lineage = inner.core().around().lineage();
        coppice_view_t all{};
        all.epoch = inner.epoch().value;
        all.size = inner.members().ranks();
        for (std::uint32_t rank = 0; rank < all.size; ++rank) {
            const engine::Origin origin = lineage.of(Rank(rank));
            if (origin.before == engine::Origin::kNobody) ++all.newcomers;
            if (origin.since < lineage.of(Rank(all.eldest)).since) all.eldest = rank;
            if (rank < capacity) members[rank] = {origin.seat.value, origin.incarnation, origin.before, origin.since};
        }
        return api::given(api::give_answer(all, view, COPPICE_SIZE_THROUGH(coppice_view_t, eldest),
                                           "coppice_group_view", "coppice_view_t"));
    });
}

}  // extern "C"
