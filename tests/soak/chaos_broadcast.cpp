// Broadcasts: payloads, the memory in which they lie, and what is found of them where they arrive.
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "chaos_team.hpp"

namespace chaos {

namespace {

// Payloads follow from what they are: any byte that is wrong shows.
std::uint64_t payload_seed(std::uint64_t seed, std::uint64_t team, std::uint64_t number, std::uint32_t root) {
    return mix(mix(mix(seed, team), number), root);
}

}  // namespace

// Every order of magnitude is as likely as the others.
std::uint64_t Team::draw_bytes(Draw& common) const {
    if (options_.large > 0 && common.one_in(3)) {
        const std::uint64_t scale = std::uint64_t{8192} << common.below(8);
        // Chunks end at powers of two.
        const std::uint64_t bytes = common.one_in(4) ? scale - 1 + common.below(3) : scale + common.below(scale);
        return std::min<std::uint64_t>({bytes, options_.large, info_.max_payload});
    }
    const std::uint64_t most = common.one_in(4) ? room() : std::uint64_t{1} << common.below(10);
    return common.one_in(20) ? 0 : common.below(std::min<std::uint64_t>(most, room()) + 1);
}

Team::Flight Team::draw_broadcast(Draw& common) {
    Flight flight;
    flight.root = static_cast<std::uint32_t>(common.below(members_.size()));
    flight.bytes = draw_bytes(common);
    number_it(flight);
    flight.view = own_.one_in(3);
    // A receiver seldom knows the size.
    const bool knows_it = flight.bytes <= room() || own_.one_in(2);
    flight.room = knows_it ? std::max(flight.bytes, room()) : std::min<std::size_t>(options_.large, info_.max_payload);
    flight.memory.assign((flight.room + 7) / 8, 0xeeeeeeeeeeeeeeeeU);
    if (flight.root == info_.rank) {
        const std::uint64_t payload = payload_seed(options_.seed, id_, flight.number, flight.root);
        for (std::size_t i = 0; i < (flight.bytes + 7) / 8; ++i)
            flight.memory[i] = word_of(payload, i);
    }
    return flight;
}

void Team::number_it(Flight& flight) {
    flight.number = sequence_++;
    flight.before = begun_;
    begun_ += flight.bytes;
}

// In jobs with large payloads a root's lies in the program's memory, which may be registered, or in the library's.
void Team::choose_memory(Flight& flight) {
    if (options_.large == 0 || !flight.broadcast || flight.root != info_.rank || flight.bytes == 0) return;
    const std::uint64_t kind = own_.below(4);
    if (kind == 0) {
        const coppice_status_t status = coppice_memory_allocate(group_, flight.bytes, &flight.lent);
        if (status != COPPICE_OK) wrong("lost", describe("memory for " + name(flight), status));
        std::memcpy(flight.lent, flight.memory.data(), flight.bytes);
    } else if (kind == 1) {
        const coppice_status_t status = coppice_memory_register(group_, flight.memory.data(), flight.bytes);
        flight.is_registered = status == COPPICE_OK;
        if (status != COPPICE_OK && status != COPPICE_ERR_NO_RESOURCES)
            wrong("lost", describe("registering the memory of " + name(flight), status));
    }
}

// What the library has lent may be freed as soon as the payload is on its way, though others have yet to read it.
void Team::give_back(Flight& flight, bool has_ended) {
    if (flight.lent != nullptr && (has_ended || own_.one_in(2))) {
        const coppice_status_t status = coppice_memory_free(group_, flight.lent);
        if (status != COPPICE_OK) wrong("lost", describe("freeing the memory of " + name(flight), status));
        flight.lent = nullptr;
    }
    const auto deadline = Clock::now() + std::chrono::duration<double>(options_.patience);
    while (flight.is_registered && has_ended) {
        const coppice_status_t status = coppice_memory_deregister(group_, flight.memory.data());
        flight.is_registered = status != COPPICE_OK;
        const std::string what = "deregistering the memory of " + name(flight);
        if (status == COPPICE_ERR_BUSY && Clock::now() > deadline) wrong("hung", describe(what, status));
        if (status != COPPICE_OK && status != COPPICE_ERR_BUSY) wrong("lost", describe(what, status));
        if (status == COPPICE_OK) return;
        if (options_.polls) coppice_progress(context_);
        sched_yield();
    }
}

void Team::check(const Flight& flight, const void* payload, std::size_t bytes, const char* when) const {
    if (bytes != flight.bytes) wrong("corrupt", fmt::format("{} {}: {} bytes came", name(flight), when, bytes));
    const std::uint64_t seed = payload_seed(options_.seed, id_, flight.number, flight.root);
    const char* const all = static_cast<const char*>(payload);
    for (std::size_t i = 0; i < bytes; i += 8) {
        const std::uint64_t expected = word_of(seed, i / 8);
        if (std::memcmp(all + i, &expected, std::min<std::size_t>(8, bytes - i)) == 0) continue;
        wrong("corrupt", fmt::format("{} {}: wrong from byte {} on", name(flight), when, i));
    }
}

void Team::check_view(const Flight& flight, const char* when) const {
    const void* payload = nullptr;
    std::size_t bytes = 0;
    const coppice_status_t status = coppice_request_view(flight.request, &payload, &bytes);
    if (status == COPPICE_ERR_FENCED && options_.may_be_fenced) leave("f");
    if (status != COPPICE_OK) wrong("lost", describe(fmt::format("{} {}", name(flight), when), status));
    check(flight, payload, bytes, when);
}

void Team::broadcast_ended(Flight& flight, coppice_status_t status, std::size_t received) {
    log_line(fmt::format("b {:x} {} {} {}", id_, flight.number, members_[flight.root], std::to_string(status)));
    if (ends_here(status, name(flight))) return;
    if (status == COPPICE_OK) {
        if (flight.view) {
            check_view(flight, "as a view");
        } else {
            check(flight, flight.payload(), received, "as delivered");
        }
        return;
    }
    const Members failed = listed([&](std::uint32_t* ranks, std::size_t capacity, std::size_t* count) {
        return coppice_group_failed(group_, ranks, capacity, count);
    });
    const bool root_failed = std::ranges::count(failed, flight.root) > 0;
    if (status == COPPICE_ERR_ROOT_FAILED && root_failed) return;
    if (status == COPPICE_ERR_PEER_FAILED && options_.may_miss && !failed.empty()) return;
    wrong("lost", describe(name(flight), status) + fmt::format(" (failed: {})", listing(failed)));
}

void Team::broadcasts(Draw& common, std::uint64_t number) {
    for (std::uint64_t i = 0; i < number && !revoked_; ++i) {
        let_go(longest_held());
        Flight flight = draw_broadcast(common);
        make_room();
        flight.view = false;
        const bool receives = flight.root != info_.rank;
        // Some have less room than it takes.
        const bool narrow = receives && flight.bytes > 0 && own_.one_in(50);
        const std::size_t here = narrow ? flight.bytes - 1 : receives ? flight.room : flight.bytes;
        std::size_t received = 0;
        choose_memory(flight);
        const coppice_status_t status =
            coppice_broadcast(group_, flight.payload(), here, flight.root, &received, patience_ns());
        give_back(flight, true);
        if (status == COPPICE_ERR_TRUNCATED && narrow) {
            // Of a payload that goes in chunks no more than its size may have come here.
            log_line(fmt::format("b {:x} {} {} {}", id_, flight.number, members_[flight.root],
                                 flight.bytes > options_.eager ? std::to_string(status) : "0"));
            const bool touched =
                std::ranges::any_of(flight.memory, [](std::uint64_t word) { return word != 0xeeeeeeeeeeeeeeeeU; });
            if (touched) wrong("corrupt", name(flight) + ": touched a buffer that was too small");
            continue;
        }
        if (status == COPPICE_OK && narrow) wrong("corrupt", name(flight) + ": fits into less than its size");
        broadcast_ended(flight, status, status == COPPICE_OK && !receives ? flight.bytes : received);
    }
}

// Views are held while others come, but for no longer than they may be.
void Team::let_go(std::size_t most_behind) {
    while (!held_.empty() && (sequence_ - held_.front().number > most_behind || most_behind == 0))
        let_go_of_one();
}

// Nor while the payloads behind them fill the window.
void Team::make_room() {
    while (!held_.empty() && is_in_the_way(held_.front()))
        let_go_of_one();
}

void Team::let_go_of_one() {
    Flight& flight = held_.front();
    check_view(flight, "as a view that was held");
    if (const auto status = coppice_request_free(flight.request); status != COPPICE_OK)
        wrong("lost", describe("freeing " + name(flight), status));
    held_.pop_front();
}

}  // namespace chaos
