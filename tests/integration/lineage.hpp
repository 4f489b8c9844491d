// Groups that are made of each other by shrinking, as tests follow them.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "integration/job.hpp"

namespace coppice::testing {

inline const std::uint64_t kTimeout = kDeadlineNs;

inline coppice_group_info_t info_of(const coppice_group_t* group) {
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    COPPICE_CHECK(coppice_group_query(group, &info) == COPPICE_OK);
    return info;
}

inline std::vector<std::uint32_t> agreed(const coppice_group_t* group) {
    std::vector<std::uint32_t> ranks(64);
    std::size_t count = 0;
    COPPICE_CHECK(coppice_group_agreed(group, ranks.data(), ranks.size(), &count) == COPPICE_OK);
    ranks.resize(count);
    return ranks;
}

// Where a rank was counted in the first group, told by each group that is made of another.
struct Lineage {
    coppice_group_t* group = nullptr;
    std::vector<std::uint32_t> first;  // first[r]: the number of this group's rank r there
    std::uint32_t epoch = 0;

    static Lineage begin(const Member& member) {
        Lineage lineage{member.group, std::vector<std::uint32_t>(member.ranks), 0};
        std::iota(lineage.first.begin(), lineage.first.end(), 0U);
        return lineage;
    }
    // The next group; this one is left as it is.
    Lineage shrink() const {
        Lineage next;
        const coppice_status_t status = coppice_group_shrink(group, &next.group, kTimeout);
        if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
        return next.of(*this);
    }
    Lineage of(const Lineage& parent) const {
        Lineage next{group, {}, parent.epoch + 1};
        const std::vector<std::uint32_t> gone = agreed(parent.group);
        for (std::uint32_t rank = 0; rank < parent.first.size(); ++rank) {
            if (std::ranges::count(gone, rank) == 0) next.first.push_back(parent.first[rank]);
        }
        return next;
    }
    void check(const Member& member) const {
        const coppice_group_info_t info = info_of(group);
        COPPICE_CHECK(info.size == first.size() && first[info.rank] == member.rank && info.epoch == epoch);
    }
};

// Broadcasts from all and agreements, verified by what each was in the first group.
inline void work(const Lineage& lineage, const Member& member, std::uint64_t seed = 0) {
    const coppice_group_info_t info = info_of(lineage.group);
    std::uint64_t all = 0;
    for (const std::uint32_t rank : lineage.first)
        all |= std::uint64_t{1} << rank;
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_OR;
    for (std::uint32_t round = 0; round < 3; ++round) {
        std::uint64_t value = std::uint64_t{1} << member.rank;
        COPPICE_CHECK(coppice_agree(lineage.group, &value, sizeof value, &options, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(value == all);
        for (std::uint32_t root = 0; root < info.size; ++root) {
            const std::size_t bytes = round == 0 ? 8 : 3000;
            const std::vector<unsigned char> sent = payload_of(seed + round, lineage.first[root], bytes);
            std::vector<unsigned char> buffer = info.rank == root ? sent : std::vector<unsigned char>(bytes);
            std::size_t received = 0;
            const coppice_status_t status =
                coppice_broadcast(lineage.group, buffer.data(), bytes, root, &received, kTimeout);
            if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
            COPPICE_CHECK(received == bytes && buffer == sent);
        }
    }
}

// Shrinks until nobody of `victims` is in the group any more: one that died after the others had agreed still is.
// `seed` tells groups apart. What comes in between is destroyed or, with `keep`, left to the caller.
inline Lineage shrink_until_gone(Lineage lineage, const Member& member, const std::vector<std::uint32_t>& victims,
                                 std::vector<coppice_group_t*>* keep = nullptr) {
    while (true) {
        const Lineage next = lineage.shrink();
        next.check(member);
        if (keep != nullptr) {
            keep->push_back(lineage.group);
        } else {
            COPPICE_CHECK(coppice_group_revoke(lineage.group) == COPPICE_OK);
            COPPICE_CHECK(coppice_group_destroy(lineage.group, kTimeout) == COPPICE_OK);
        }
        lineage = next;
        const auto is_victim = [&](std::uint32_t rank) { return std::ranges::count(victims, rank) > 0; };
        if (std::ranges::none_of(lineage.first, is_victim)) return lineage;
    }
}

inline void leave(const Member& member, const Lineage& lineage) {
    COPPICE_CHECK(coppice_group_destroy(lineage.group, kTimeout) == COPPICE_OK);
    COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
}

}  // namespace coppice::testing
