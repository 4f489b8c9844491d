#include "chaos_team.hpp"

#include <sched.h>

#include <algorithm>

#include "chaos_exchange.hpp"

namespace chaos {

std::string listing(const Team::Members& members) {
    std::string text;
    for (const std::uint32_t member : members) {
        if (!text.empty()) text += ',';
        text += std::to_string(member);
    }
    return text.empty() ? "-" : text;
}

std::string Team::name(const Flight& flight) const {
    return fmt::format("{} {} of team {:x} (root {}, {} bytes{})", flight.broadcast ? "broadcast" : "agreement",
                       flight.number, id_, flight.root, flight.bytes, flight.view ? ", view" : "");
}

void Told::on_failure(void* told, coppice_group_t* group, std::uint32_t rank) {
    auto& self = *static_cast<Told*>(told);
    const std::scoped_lock lock(self.mutex_);
    if (!self.ranks_.emplace(group, rank).second)
        wrong("lost", fmt::format("told of the failure of rank {} twice", rank));
}

void Told::forget(coppice_group_t* group) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(ranks_, [group](const auto& one) { return one.first == group; });
}

void Team::combine(void*, void* into, const void* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes / 8; ++i)
        static_cast<std::uint64_t*>(into)[i] |= static_cast<const std::uint64_t*>(from)[i];
}

void Team::create(const std::string& name, const Members& members, std::uint32_t self) {
    members_ = members;
    told_ = std::make_shared<Told>();
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    FileExchange exchange(options_.directory, name, members, self, options_.patience);
    if (!name.empty()) {
        options.exchange = FileExchange::exchange;
        options.exchange_argument = &exchange;
        options.rank = self;
        options.size = static_cast<std::uint32_t>(members.size());
    }
    options.timeout_ns = patience_ns();
    options.on_failure = Told::on_failure;
    options.on_failure_argument = told_.get();
    const coppice_status_t status = coppice_group_create(context_, &options, &group_);
    const std::string what = describe(fmt::format("creating team {:x} {}", id_, name), status);
    if (options_.may_not_create &&
        (status == COPPICE_ERR_BOOTSTRAP || status == COPPICE_ERR_NO_TRANSPORT || status == COPPICE_ERR_NO_RESOURCES)) {
        leave("c " + what);
    }
    if (status == COPPICE_ERR_TIMEOUT || status == COPPICE_ERR_BOOTSTRAP) wrong("hung", what);
    if (status == COPPICE_ERR_FENCED && options_.may_be_fenced) leave("f");
    if (status != COPPICE_OK) wrong("lost", what);
    adopt(group_);
    if (info_.rank != self || info_.size != members.size())
        wrong("lost", "another rank or size than asked for: " + what);
}

void Team::adopt(coppice_group_t* group) {
    group_ = group;
    info_.struct_size = sizeof info_;
    const coppice_status_t status = coppice_group_query(group_, &info_);
    if (status != COPPICE_OK) wrong("lost", describe("asking a group that was just made", status));
    if (info_.size != members_.size()) wrong("diverged", fmt::format("team {:x} has {} members", id_, info_.size));
    log_line(fmt::format("g {:x} {} {}", id_, info_.rank, listing(members_)));
}

void Team::leave_without_quorum(const std::string& what) const {
    leave(fmt::format("q {:x} {}", id_, what));
}

// What any operation may end with, so that there is nothing to be checked. Whatever else is no result ends this
// process.
bool Team::ends_here(coppice_status_t status, const std::string& what) {
    if (status == COPPICE_ERR_REVOKED) {
        revoked_ = true;
        return true;
    }
    if (status == COPPICE_ERR_NO_QUORUM && options_.grows) {
        revoked_ = lost_quorum_ = true;
        return true;
    }
    if (status == COPPICE_ERR_NO_QUORUM) leave_without_quorum(describe(what, status));
    if (status == COPPICE_ERR_FENCED && options_.may_be_fenced) leave("f");
    if (status == COPPICE_ERR_TIMEOUT || status == COPPICE_ERR_BUSY) wrong("hung", describe(what, status));
    return false;
}

// ----------------------------------------------------------------------------------------------------- agreement ---

// Each rank's contribution says whose it is, whatever the operation; under AND by what is not there.
Team::Flight Team::draw_agreement(Draw& common) {
    Flight flight;
    flight.broadcast = false;
    flight.number = number_++;
    constexpr coppice_operation_t kOperations[] = {COPPICE_OR, COPPICE_AND, COPPICE_COMBINE, COPPICE_MAX, COPPICE_MIN};
    flight.operation = kOperations[common.below(5)];
    flight.bytes = 8 * (common.one_in(8) ? 4 + common.below(COPPICE_MAX_AGREED / 8 - 3) : 4);
    const bool inverted = flight.operation == COPPICE_AND || flight.operation == COPPICE_MIN;
    flight.memory.assign(COPPICE_MAX_AGREED / 8, 0);
    if (flight.operation == COPPICE_MAX || flight.operation == COPPICE_MIN) {
        reinterpret_cast<std::uint8_t*>(flight.memory.data())[info_.rank] = 1;
    } else {
        flight.memory[0] = std::uint64_t{1} << info_.rank;
    }
    // The rest is the same at all.
    for (std::size_t i = 4; i < flight.bytes / 8; ++i)
        flight.memory[i] = word_of(mix(id_, flight.number), i);
    for (std::size_t i = 0; i < 4 && inverted; ++i)
        flight.memory[i] = flight.operation == COPPICE_AND ? ~flight.memory[i] : 0x0101010101010101U - flight.memory[i];
    flight.acknowledged = acknowledged_;
    return flight;
}

std::uint64_t Team::contributors(const Flight& flight) const {
    if (flight.operation == COPPICE_OR || flight.operation == COPPICE_COMBINE) return flight.memory[0];
    if (flight.operation == COPPICE_AND) return ~flight.memory[0];
    std::uint64_t set = 0;
    for (std::size_t i = 0; i < 32; ++i) {
        const std::uint8_t one = reinterpret_cast<const std::uint8_t*>(flight.memory.data())[i];
        set |= std::uint64_t{flight.operation == COPPICE_MAX ? one == 1U : one == 0U} << i;
    }
    return set;
}

void Team::agreement_ended(Flight& flight, coppice_status_t status, const Members& failed) {
    const std::uint64_t set = contributors(flight);
    log_line(fmt::format("a {:x} {} {} {:x} {}", id_, flight.number, std::to_string(status), set, listing(failed)));
    if (ends_here(status, name(flight))) return;
    const auto bad = [&](const char* what) {
        wrong("lost", fmt::format("{}: {}; contributors {:x}, failed {}, before {}", name(flight), what, set,
                                  listing(failed), listing(agreed_)));
    };
    if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED) wrong("lost", describe(name(flight), status));
    std::uint64_t dead = 0;
    for (const std::uint32_t rank : failed)
        dead |= std::uint64_t{1} << rank;
    const std::uint64_t all = (std::uint64_t{1} << members_.size()) - 1;
    if ((set & ~all) != 0) bad("a contribution of nobody");
    if ((set | dead) != all) bad("a contribution is missing and its rank has not failed");
    if ((dead >> info_.rank & 1) != 0) bad("this rank is among the failed");
    if (!std::ranges::includes(failed, agreed_)) bad("a rank that had failed is alive again");
    if (status == COPPICE_ERR_PEER_FAILED && failed.empty()) bad("nobody failed, and yet it says so");
    if (status == COPPICE_OK && (dead & ~flight.acknowledged) != 0) bad("a failure goes without being told");
    for (std::size_t i = 4; i < flight.bytes / 8; ++i) {
        if (flight.memory[i] != word_of(mix(id_, flight.number), i)) wrong("corrupt", name(flight) + ": another value");
    }
    agreed_ = failed;
}

void Team::agreements(Draw& common, std::uint64_t number) {
    for (std::uint64_t i = 0; i < number && !revoked_; ++i) {
        Flight flight = draw_agreement(common);
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = flight.operation;
        options.type = COPPICE_UINT8;
        options.combine = flight.operation == COPPICE_COMBINE ? combine : nullptr;
        const coppice_status_t status =
            coppice_agree(group_, flight.memory.data(), flight.bytes, &options, patience_ns());
        Members failed;
        if (status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED) {
            failed = listed([&](std::uint32_t* ranks, std::size_t capacity, std::size_t* count) {
                return coppice_group_agreed(group_, ranks, capacity, count);
            });
        }
        agreement_ended(flight, status, failed);
    }
}

// Of what is known by now, which differs from rank to rank.
void Team::acknowledge() {
    const Members failed = listed([&](std::uint32_t* ranks, std::size_t capacity, std::size_t* count) {
        return coppice_group_failed(group_, ranks, capacity, count);
    });
    if (failed.empty()) return;
    const coppice_status_t status = coppice_group_ack_failed(group_, failed.data(), failed.size());
    if (status != COPPICE_OK) wrong("lost", describe("acknowledging failures", status));
    for (const std::uint32_t rank : failed)
        acknowledged_ |= std::uint64_t{1} << rank;
}

// --------------------------------------------------------------------------------------------------- several at once

void Team::start(Flight& flight) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = flight.operation;
    options.type = COPPICE_UINT8;
    options.combine = flight.operation == COPPICE_COMBINE ? combine : nullptr;
    const bool sends = flight.root == info_.rank;
    choose_memory(flight);
    const auto deadline = Clock::now() + std::chrono::duration<double>(options_.patience);
    for (;;) {
        coppice_status_t status = COPPICE_OK;
        if (!flight.broadcast) {
            status = coppice_agree_nb(group_, flight.memory.data(), flight.bytes, &options, &flight.request);
        } else if (flight.view) {
            status = coppice_broadcast_view_nb(group_, flight.payload(), flight.bytes, flight.root, &flight.request);
        } else {
            status = coppice_broadcast_nb(group_, flight.payload(), sends ? flight.bytes : flight.room, flight.root,
                                          &flight.request);
        }
        if (status == COPPICE_OK) return give_back(flight, false);
        if (status != COPPICE_ERR_BUSY || Clock::now() > deadline) {
            flight.request = nullptr;
            if (flight.broadcast) return broadcast_ended(flight, status, 0);
            return agreement_ended(flight, status, {});
        }
        if (options_.polls) coppice_progress(context_);
        sched_yield();
    }
}

void Team::finish(Flight& flight) {
    if (flight.request == nullptr)
        return give_back(flight, true);  // it could not be begun, in a group that was revoked
    std::size_t received = 0;
    const coppice_status_t status = coppice_request_wait(flight.request, &received, patience_ns());
    give_back(flight, true);
    ended(flight, status, received);
    if (status == COPPICE_OK && flight.view && own_.one_in(2)) {
        held_.push_back(std::move(flight));
        std::ranges::sort(held_, {}, &Flight::number);
        return;
    }
    const coppice_status_t freed = coppice_request_free(flight.request);
    if (freed != COPPICE_OK) wrong("lost", describe("freeing " + name(flight), freed));
}

void Team::ended(Flight& flight, coppice_status_t status, std::size_t received) {
    if (flight.broadcast) {
        return broadcast_ended(flight, status, flight.root == info_.rank ? flight.bytes : received);
    }
    Members failed;
    if (status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED) {
        failed = listed([&](std::uint32_t* ranks, std::size_t capacity, std::size_t* count) {
            return coppice_request_agreed(flight.request, ranks, capacity, count);
        });
    }
    agreement_ended(flight, status, failed);
}

void Team::flights(Draw& common, std::uint64_t number) {
    const bool mixed = common.one_in(2);
    // Agreements and broadcasts that are under way together; agreements end in their own order.
    const std::size_t most = 1 + own_.below(info_.window / 2);
    std::deque<Flight> flying;
    std::size_t agreeing = 0;
    const auto end_this = [&](std::size_t which) {
        agreeing -= !flying[which].broadcast;
        finish(flying[which]);
        flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(which));
    };
    const auto end_one = [&] {
        std::size_t which = own_.one_in(3) ? own_.below(flying.size()) : 0;
        if (!flying[which].broadcast) {
            which = 0;
            while (flying[which].broadcast)
                ++which;
        }
        end_this(which);
    };
    // A view is held from its arrival on, whether it has been asked for or not.
    const auto end_all = [&](auto&& that) {
        for (std::size_t which = 0; which < flying.size();) {
            if (flying[which].broadcast && that(flying[which])) {
                end_this(which);
            } else {
                ++which;
            }
        }
    };
    for (std::uint64_t i = 0; i < number && !revoked_; ++i) {
        const bool agrees = mixed && common.one_in(4);
        while (flying.size() >= most || (agrees && agreeing >= 4))
            end_one();
        end_all([&](const Flight& flight) { return sequence_ - flight.number > longest_held(); });
        if (revoked_) break;
        let_go(longest_held());
        Flight next = agrees ? draw_agreement(common) : draw_broadcast(common);
        end_all([&](const Flight& flight) { return flight.view && is_in_the_way(flight); });
        make_room();
        if (revoked_) break;
        flying.push_back(std::move(next));
        agreeing += agrees;
        start(flying.back());
    }
    while (!flying.empty())
        end_one();
}

// ------------------------------------------------------------------------------------------------------------- life

void Team::revoke() {
    const coppice_status_t status = coppice_group_revoke(group_);
    if (status != COPPICE_OK) wrong("lost", describe("revoking", status));
}

std::unique_ptr<Team> Team::shrink(std::uint64_t id, bool blocking) {
    const std::uint64_t number = shrinks_++;
    auto made = std::make_unique<Team>(options_, id, context_, own_);
    coppice_group_t* group = nullptr;
    coppice_status_t status = COPPICE_OK;
    if (blocking) {
        status = coppice_group_shrink(group_, &group, patience_ns());
    } else {
        coppice_request_t* request = nullptr;
        status = coppice_group_shrink_nb(group_, &group, &request);
        if (status == COPPICE_OK) {
            status = coppice_request_wait(request, nullptr, patience_ns());
            coppice_request_free(request);
        }
    }
    log_line(fmt::format("s {:x} {} {}", id_, number, std::to_string(status)));
    const std::string what = describe(fmt::format("shrink {} of team {:x}", number, id_), status);
    if (status == COPPICE_ERR_FENCED && options_.may_be_fenced) leave("f");
    if (status == COPPICE_ERR_NO_QUORUM) leave_without_quorum(what);
    if (status == COPPICE_ERR_TIMEOUT) wrong("hung", what);
    if (status != COPPICE_OK) wrong("lost", what);
    const Members failed = listed([&](std::uint32_t* ranks, std::size_t capacity, std::size_t* count) {
        return coppice_group_agreed(group_, ranks, capacity, count);
    });
    for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
        if (std::ranges::count(failed, rank) == 0) made->members_.push_back(members_[rank]);
    }
    made->told_ = told_;
    made->adopt(group);
    return made;
}

void Team::destroy() {
    let_go(0);
    const coppice_status_t status = coppice_group_destroy(group_, patience_ns());
    told_->forget(group_);
    group_ = nullptr;
    log_line(fmt::format("d {:x}", id_));
    const std::string what = describe(fmt::format("leaving team {:x}", id_), status);
    if (status == COPPICE_ERR_FENCED && options_.may_be_fenced) leave("f");
    if (status == COPPICE_ERR_TIMEOUT) wrong("hung", what);
    if (status != COPPICE_OK) wrong("lost", what);
}

}  // namespace chaos
