// A session whose ranks have no memory in common, because they run on different machines: each keeps an area of its own, they
// meet in the library's barriers, and what they have measured goes around by broadcasts before it is reported.
//
// Their clocks differ. So a time is of one rank's clock, and the figure of an operation is the longest call of any rank. A rank
// that finds itself among the fewer ones (of two equal sides: not with the lowest rank) can't tell whether the others live and go
// on without it; it ends.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "perf/session.hpp"

namespace perf {

namespace {

// Operations between two looks at the time, which all ranks take together.
constexpr std::uint64_t kLookEvery = 64;

std::size_t without_zeros(std::span<const std::byte> bytes) {
    std::size_t size = bytes.size();
    while (size > 0 && bytes[size - 1] == std::byte{0})
        --size;
    return size;
}

// As if every call had begun at one instant.
void forget_clock(measure_stamp_t& stamp) {
    if (stamp.end != 0) stamp.end = 1 + (stamp.end - stamp.start);
    if (stamp.start != 0) stamp.start = 1;
}

}  // namespace

// Whether all have been able to open the owner's area, and whether the owner lives; the same at all.
std::optional<Failure> Session::share_with_all(bool is_open, std::uint32_t owner, bool& all, bool& owner_lives) {
    std::uint32_t mine = is_open ? 1 : 0;
    const coppice_status_t status = coppice_agree(group_, &mine, sizeof mine, nullptr, timeout_ns_);
    if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED)
        return library_failure("sharing memory for the time stamps", status);
    all = mine == 1;
    std::vector<std::uint32_t> failed(info_.size);
    std::size_t count = 0;
    const coppice_status_t told = coppice_group_agreed(group_, failed.data(), failed.size(), &count);
    if (told != COPPICE_OK) return library_failure("sharing memory for the time stamps", told);
    failed.resize(count);
    owner_lives = std::ranges::find(failed, owner) == failed.end();
    return std::nullopt;
}

std::uint32_t Session::lowest_live() const {
    std::uint32_t lowest = 0;
    while (lowest < rank() && is_dead(lowest))
        ++lowest;
    return lowest;
}

std::optional<Failure> Session::parted_apart() const {
    std::uint32_t dead = 0;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank)
        dead += is_dead(rank) ? 1 : 0;
    const std::uint32_t living = ranks() - dead;
    if (living > dead || (living == dead && !is_dead(0))) return std::nullopt;
    return Failure{kExitCutOff,
                   fmt::format("{} of {} ranks are left on this side: cut off from the others, which may go on "
                               "without this one, or alone",
                               living, ranks())};
}

std::optional<Failure> Session::barrier_apart(const std::function<void()>& action) {
    const coppice_status_t status = coppice_barrier(group_, timeout_ns_);
    if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED) return library_failure("barrier", status);
    learn_failures();
    if (auto failure = parted_apart()) return failure;
    if (!action) return std::nullopt;
    if (auto failure = gather()) return failure;
    if (lowest_live() == rank()) action();
    return std::nullopt;
}

std::optional<Failure> Session::broadcast_part(std::span<std::byte> bytes, std::uint32_t root, bool& arrived) {
    const coppice_status_t status = coppice_broadcast(group_, bytes.data(), bytes.size(), root, nullptr, timeout_ns_);
    arrived = status == COPPICE_OK;
    if (arrived || status == COPPICE_ERR_ROOT_FAILED || status == COPPICE_ERR_PEER_FAILED) return std::nullopt;
    return library_failure("gathering what was measured", status);
}

// `memory` of `root`, up to its last byte that is not zero, to everybody.
std::optional<Failure> Session::gather_part(std::span<std::byte> memory, std::uint32_t root) {
    std::uint64_t size = without_zeros(memory);
    bool arrived = false;
    if (auto failure = broadcast_part(std::as_writable_bytes(std::span(&size, 1)), root, arrived)) return failure;
    if (!arrived) return std::nullopt;
    std::span<std::byte> rest = memory.first(std::min<std::size_t>(size, memory.size()));
    while (!rest.empty() && arrived) {
        const auto part = rest.first(std::min<std::size_t>(rest.size(), info_.max_payload));
        if (auto failure = broadcast_part(part, root, arrived)) return failure;
        rest = rest.subspan(part.size());
    }
    return std::nullopt;
}

// In turn, the dead too: which ranks are dead is not yet known to all alike.
std::optional<Failure> Session::gather() {
    for (std::uint32_t root = 0; root < ranks(); ++root) {
        const std::span row(measure_row(area(), root), area()->iterations);
        if (root == rank()) std::ranges::for_each(row, forget_clock);
        if (auto failure = gather_part(std::as_writable_bytes(row), root)) return failure;
        if (auto failure = gather_part({static_cast<std::byte*>(measure_own(area(), root)), standing_at_}, root))
            return failure;
    }
    learn_failures();
    return std::nullopt;
}

bool Session::over_apart(std::uint64_t number) {
    if (is_over_ || number % kLookEvery != 0) return is_over_;
    std::uint32_t late = measure_now() >= end_ns_ ? 1 : 0;
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_OR;
    const coppice_status_t status = coppice_agree(group_, &late, sizeof late, &options, timeout_ns_);
    // What has gone wrong the next operation tells.
    is_over_ = late != 0 && (status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED);
    return is_over_;
}

}  // namespace perf
