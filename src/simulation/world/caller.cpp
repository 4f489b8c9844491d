#include "simulation/world/caller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.hpp"
#include "base/mix.hpp"
#include "engine/settings.hpp"
#include "protocol/chance.hpp"
#include "simulation/world/world.hpp"

namespace coppice::world {
namespace {

using promises::Action;

// What a root gives: different for each step, root and place.
void fill(std::vector<std::byte>& buffer, std::uint64_t seed) {
    std::uint64_t state = seed;
    for (std::size_t at = 0; at < buffer.size(); at += 8) {
        const std::uint64_t word = protocol::next_word(state);
        std::memcpy(buffer.data() + at, &word, std::min<std::size_t>(8, buffer.size() - at));
    }
}

}  // namespace

// ------------------------------------------------------------------------------------------------------ the record ---

void Caller::note_start(promises::Call& call) {
    call.began_ns = rank_.clock().now_ns();
    call.kept_ns = rank_.world().clockwork().kept_ns(rank_.number());
}

std::size_t Caller::begin(Action action, const Step* step, const Joined* joined) {
    const Within outside(nullptr);
    promises::Call call;
    call.action = action;
    call.rank = rank_.number();
    if (joined != nullptr) call.group = joined->id;
    if (step != nullptr) call.step = step->number;
    if (step != nullptr) call.timeout_ns = step->timeout_ns;
    note_start(call);
    history_.calls.push_back(std::move(call));
    return history_.calls.size() - 1;
}

void Caller::end(std::size_t number, coppice_status_t status) {
    const Within outside(nullptr);
    promises::Call& call = at(number);
    call.status = status;
    call.ended_ns = rank_.clock().now_ns();
    call.kept_ns = rank_.world().clockwork().kept_ns(call.rank) - call.kept_ns;
    if (status < 0) call.sentence = coppice_last_error();
    if (status == COPPICE_ERR_FENCED) out_ = true;
    if (rank_.world().clockwork().tell) {
        rank_.world().clockwork().tell(fmt::format("{:>12} ns  {}", call.ended_ns, promises::describe(call)));
    }
}

std::uint64_t Caller::liberty(const Step& step, std::uint32_t salt) const {
    std::uint64_t state = program_.seed * kWeyl + step.number * 1000003U + rank_.number() * 7919U + salt;
    protocol::next_word(state);
    return protocol::next_word(state);
}

// ----------------------------------------------------------------------------------------------------- the program ---

void Caller::run() {
    const std::map<std::string, std::string> settings{
        {"COPPICE_TRANSPORT", program_.transport},
        {"COPPICE_HOST", fmt::format("host{}", rank_.world().fate().host_of[rank_.number()])},
        {"COPPICE_WINDOW", fmt::format("{}", program_.window)},
        {"COPPICE_AGREEMENT_WINDOW", fmt::format("{}", program_.agreement_window)},
        {"COPPICE_PAYLOAD_CHUNK", fmt::format("{}", program_.chunk)},
        {"COPPICE_PAYLOAD_AHEAD", fmt::format("{}", program_.ahead)},
        {"COPPICE_TREE", program_.tree},
        {"COPPICE_CORRECTION", program_.correction},
        {"COPPICE_HIERARCHY", program_.hierarchy},
        {"COPPICE_ADDRESSES", program_.addresses},
        {"COPPICE_QUORUM", program_.quorum},
        {"COPPICE_JOIN", rank_.world().launcher() != nullptr ? "any" : "none"},
        {"COPPICE_CAPACITY",
         rank_.world().launcher() != nullptr ? fmt::format("{}", rank_.world().fate().seats()) : "auto"},
        {"COPPICE_DETECTION_BOUND", fmt::format("{}ms", program_.detection_bound_ns / 1'000'000)},
        {"COPPICE_PROGRESS_THREAD", !program_.has_thread            ? "0"
                                    : program_.calls_back_on_thread ? "1"
                                                                    : "auto"}};
    const engine::SettingTexts texts([&settings](const char* name) -> const char* {
        const auto found = settings.find(name);
        return found == settings.end() ? nullptr : found->second.c_str();
    });
    const coppice_status_t made = rank_.call([&] { return rank_.make_context(texts, &context_); });
    if (made == COPPICE_OK && (is_newcomer() ? join() : create(0))) {
        // One that has come by a renewal goes on behind it, as the others do.
        const std::uint32_t joined_by = is_newcomer() ? rank_.world().step_of(current_.epoch, current_.members) : 0;
        for (const Step& step : program_.steps) {
            if (out_) break;
            if (step.number > joined_by) do_step(step);
        }
        settle();
        destroy(current_, nullptr);
        drop_old(nullptr);
    }
    if (context_ != nullptr) {
        const std::size_t call = begin(Action::leak, nullptr, nullptr);
        end(call, rank_.call([&] {
            rank_.world().forget_thread();
            return coppice_context_destroy(context_);
        }));
    }
}

void Caller::do_step(const Step& step) {
    if (sits_out_ && step.kind != Step::Kind::renew) return;
    switch (step.kind) {
        case Step::Kind::broadcast:
            return step.mode == Step::Mode::blocking ? broadcast(step) : broadcast_nb(step);
        case Step::Kind::agree:
            return step.mode == Step::Mode::blocking ? agree(step) : agree_nb(step);
        case Step::Kind::settle:
            return settle();
        case Step::Kind::away:
            return away(step);
        case Step::Kind::learn:
            return learn(step);
        case Step::Kind::acknowledge:
            return acknowledge();
        case Step::Kind::revoke:
            return revoke(step);
        case Step::Kind::shrink:
            return shrink(step);
        case Step::Kind::renew:
            settle();
            if (step.keep_old) {
                old_.push_back(std::move(current_));
            } else {
                destroy(current_, &step);
            }
            if (!create(step.number)) out_ = true;
            return;
        case Step::Kind::drop:
            if (step.who == rank_.number()) drop_old(&step);
            return;
    }
}

bool Caller::create(std::uint32_t step) {
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = WorldRank::exchange;
    options.exchange_argument = &rank_;
    options.rank = rank_.number();
    options.size = rank_.world().fate().ranks;
    options.on_failure = on_failure;
    options.on_failure_argument = this;
    const std::size_t call = begin(Action::create, nullptr, nullptr);
    at(call).step = step;
    current_ = {};
    {
        const Within outside(nullptr);
        current_.id = rank_.world().group_number(promises::kNone, made_++, {});
        if (groups_.size() <= current_.id) groups_.resize(current_.id + 1);
        groups_[current_.id].started_by.clear();
        for (std::uint32_t rank = 0; rank < options.size; ++rank)
            groups_[current_.id].started_by.push_back(rank);
        at(call).made = at(call).group = current_.id;
        at(call).members = groups_[current_.id].started_by;
    }
    sits_out_ = false;
    current_.members = groups_[current_.id].started_by;
    current_.self = rank_.number();
    const coppice_status_t status =
        rank_.call_that_enters_late([&] { return coppice_group_create(context_, &options, &current_.group); });
    end(call, status);
    take_early_failures();
    return status == COPPICE_OK;
}

bool Caller::is_newcomer() const {
    return rank_.number() >= rank_.world().fate().ranks;
}

bool Caller::join() {
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.on_failure = on_failure;
    options.on_failure_argument = this;
    const std::size_t call = begin(Action::create, nullptr, nullptr);
    coppice_group_t* group = nullptr;
    const coppice_status_t status =
        rank_.call_that_enters_late([&] { return coppice_group_create(context_, &options, &group); });
    if (status != COPPICE_OK) {
        end(call, status);
        return false;
    }
    current_ = {};
    current_.members = look_at_view(group, &current_.epoch);
    {
        const Within outside(nullptr);
        at(call).epoch = current_.epoch;
        at(call).members.assign(current_.members.begin(), current_.members.end());
        current_.id = rank_.world().view_number(current_.epoch, at(call).members);
        if (groups_.size() <= current_.id) groups_.resize(current_.id + 1);
        at(call).made = at(call).group = current_.id;
    }
    // Not before: in that call the group may tell of failures, of members that are not known here yet.
    current_.group = group;
    const auto self = std::ranges::find(current_.members, rank_.number());
    current_.self = static_cast<std::uint32_t>(self - current_.members.begin());
    end(call, status);
    take_early_failures();
    return self != current_.members.end();
}

// The ranks of the world that are its members.
std::vector<std::uint32_t> Caller::look_at_view(coppice_group_t* group, std::uint32_t* epoch) {
    coppice_view_t view{};
    view.struct_size = sizeof view;
    std::vector<coppice_member_t> members(kMostRanks);
    rank_.call([&] { return coppice_group_view(group, &view, members.data(), members.size()); });
    *epoch = view.epoch;
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t i = 0; i < view.size; ++i)
        ranks.push_back(rank_.world().fate().rank_with(members[i].seat, members[i].incarnation));
    return ranks;
}

void Caller::on_failure(void* self, coppice_group_t* group, std::uint32_t failed) {
    auto& caller = *static_cast<Caller*>(self);
    if (caller.current_.group == group) return caller.take_failure(caller.current_, failed);
    for (Joined& old : caller.old_)
        if (old.group == group) return caller.take_failure(old, failed);
    const Within outside(nullptr);
    caller.early_failures_.emplace_back(group, failed);
}

void Caller::take_failure(Joined& joined, std::uint32_t failed) {
    const Within outside(nullptr);
    const std::size_t call = begin(Action::callback, nullptr, &joined);
    joined.told.push_back(joined.members.at(failed));
    at(call).failed = {joined.told.back()};
    end(call, COPPICE_OK);
}

void Caller::take_early_failures() {
    const Within outside(nullptr);
    for (const auto& [group, failed] : early_failures_)
        if (group == current_.group) take_failure(current_, failed);
    early_failures_.clear();
}

void Caller::broadcast(const Step& step) {
    keep_window();
    const std::uint32_t root = step.who % static_cast<std::uint32_t>(current_.members.size());
    const bool is_root = root == current_.self;
    std::vector<std::byte> buffer(is_root ? step.bytes : kMostBytes);
    const std::uint64_t place = (std::uint64_t{step.number} << 20) ^ (std::uint64_t{current_.id} << 8) ^ root;
    if (is_root) fill(buffer, place);
    const std::size_t call = begin(Action::broadcast, &step, &current_);
    at(call).root = current_.members[root];
    if (is_root) at(call).payload = hash_bytes(buffer.data(), buffer.size(), 0);
    if (is_root) at(call).bytes = buffer.size();
    std::size_t received = 0;
    coppice_status_t status = COPPICE_ERR_BUSY;
    // With a short deadline that takes many tries. A rank that never has room is seen by the promise that calls end.
    for (bool again = false; status == COPPICE_ERR_BUSY; again = true) {
        if (again) make_room();
        note_start(at(call));
        status = rank_.call([&] {
            return coppice_broadcast(current_.group, buffer.data(), buffer.size(), root, &received, step.timeout_ns);
        });
    }
    ++current_.broadcasts;
    if (!is_root && status == COPPICE_OK) {
        at(call).payload = hash_bytes(buffer.data(), received, 0);
        at(call).bytes = received;
    }
    end(call, status);
}

void Caller::broadcast_nb(const Step& step) {
    keep_window();
    const std::uint32_t root = step.who % static_cast<std::uint32_t>(current_.members.size());
    const bool is_root = root == current_.self;
    Open open;
    open.view = step.mode == Step::Mode::view;
    open.buffer.resize(is_root ? step.bytes : open.view ? 0 : kMostBytes);
    if (is_root) fill(open.buffer, (std::uint64_t{step.number} << 20) ^ (std::uint64_t{current_.id} << 8) ^ root);
    open.call = begin(Action::broadcast, &step, &current_);
    at(open.call).timeout_ns = COPPICE_NO_TIMEOUT;
    at(open.call).root = current_.members[root];
    if (is_root) at(open.call).payload = hash_bytes(open.buffer.data(), open.buffer.size(), 0);
    if (is_root) at(open.call).bytes = open.buffer.size();
    coppice_status_t status = COPPICE_ERR_BUSY;
    while (status == COPPICE_ERR_BUSY) {
        status = rank_.call([&] {
            return open.view ? coppice_broadcast_view_nb(current_.group, open.buffer.data(), open.buffer.size(), root,
                                                         &open.request)
                             : coppice_broadcast_nb(current_.group, open.buffer.data(), open.buffer.size(), root,
                                                    &open.request);
        });
        if (status == COPPICE_ERR_BUSY) make_room();
    }
    open.broadcast = current_.broadcasts++;
    if (status != COPPICE_OK) return end(open.call, status);
    open_.push_back(std::move(open));
}

// ------------------------------------------------------------------------------------------------ groups come and go ---

void Caller::revoke(const Step& step) {
    if (step.who % current_.members.size() != current_.self) return;
    const std::size_t call = begin(Action::revoke, &step, &current_);
    end(call, rank_.call([&] { return coppice_group_revoke(current_.group); }));
}

void Caller::shrink(const Step& step) {
    settle();
    const std::size_t call = begin(Action::shrink, &step, &current_);
    rank_.world().note_renewal(current_.epoch + 1, rank_.number(), step.number);
    const bool is_leaver = step.leaves && step.who % current_.members.size() == current_.self;
    if (is_leaver) at(call).left = rank_.call([&] { return coppice_group_leave(current_.group); }) == COPPICE_OK;
    coppice_group_t* shrunk = nullptr;
    const coppice_status_t status = renew(step, &shrunk);
    at(call).timeout_ns = COPPICE_NO_TIMEOUT;
    if (status == COPPICE_OK && shrunk == nullptr) {
        take_agreement(call, current_);
        end(call, status);
        sits_out_ = true;
        if (!step.keep_old) return destroy(current_, &step);
        old_.push_back(std::move(current_));
        current_ = {};
        return;
    }
    if (status == COPPICE_OK) {
        take_shrunk(call, current_, shrunk);
        end(call, status);
        Joined old = std::move(current_);
        current_ = {};
        current_.group = shrunk;
        current_.id = at(call).made;
        current_.epoch = at(call).epoch;
        current_.members = at(call).members;
        const auto self = std::ranges::find(current_.members, rank_.number());
        current_.self = static_cast<std::uint32_t>(self - current_.members.begin());
        take_early_failures();
        if (step.keep_old) {
            old_.push_back(std::move(old));
        } else {
            destroy(old, &step);
        }
        return;
    }
    end(call, status);
    // The others may go on, or nobody.
    if (status == COPPICE_ERR_NO_QUORUM) out_ = true;
}

// A shrink, or the renewal with which a rank leaves: one operation.
coppice_status_t Caller::renew(const Step& step, coppice_group_t** next) {
    coppice_status_t status = COPPICE_ERR_TIMEOUT;
    // All ranks ask for the defaults, or for nothing, or some do this and the others that.
    const coppice_renew_options_t defaults = COPPICE_RENEW_OPTIONS_INIT;
    const bool asks = step.number % 3 == 0 || (step.number % 3 == 1 && rank_.number() % 2 == 0);
    const coppice_renew_options_t* const options = asks ? &defaults : nullptr;
    while (status == COPPICE_ERR_TIMEOUT) {
        if (step.mode == Step::Mode::blocking) {
            status = rank_.call([&] {
                return step.leaves || step.admits ? coppice_group_renew(current_.group, options, next, step.timeout_ns)
                                                  : coppice_group_shrink(current_.group, next, step.timeout_ns);
            });
            continue;
        }
        coppice_request_t* request = nullptr;
        status = rank_.call([&] {
            return step.leaves || step.admits ? coppice_group_renew_nb(current_.group, options, next, &request)
                                              : coppice_group_shrink_nb(current_.group, next, &request);
        });
        if (status != COPPICE_OK) break;
        status = rank_.call([&] { return coppice_request_wait(request, nullptr, step.timeout_ns); });
        rank_.call([&] { return coppice_request_free(request); });
    }
    return status;
}

void Caller::take_shrunk(std::size_t call, Joined& old, coppice_group_t* shrunk) {
    take_agreement(call, old);
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    rank_.call([&] { return coppice_group_query(shrunk, &info); });
    std::uint32_t epoch = 0;
    const std::vector<std::uint32_t> seen =
        rank_.world().launcher() != nullptr ? look_at_view(shrunk, &epoch) : std::vector<std::uint32_t>();
    const Within outside(nullptr);
    promises::Call& record = at(call);
    if (rank_.world().launcher() != nullptr) {
        record.epoch = epoch;
        record.members.assign(seen.begin(), seen.end());
        record.made = rank_.world().view_number(epoch, record.members);
    } else {
        record.made = rank_.world().group_number(old.id, record.step, record.failed);
    }
    if (groups_.size() <= record.made) groups_.resize(record.made + 1);
    groups_[record.made].parent = old.id;
    for (const std::uint32_t rank : old.members)
        if (seen.empty() && !promises::contains(record.failed, rank)) record.members.push_back(rank);
    // What the group says of itself.
    record.bytes = info.size;
    record.root = info.rank;
}

void Caller::destroy(Joined& joined, const Step* step) {
    if (joined.group == nullptr) return;
    const std::size_t call = begin(Action::destroy, step, &joined);
    if (out_) at(call).timeout_ns = 0;
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    rank_.call([&] { return coppice_group_query(joined.group, &info); });
    at(call).bytes = info.garbage;
    const coppice_status_t status =
        rank_.call([&] { return coppice_group_destroy(joined.group, at(call).timeout_ns); });
    joined.group = nullptr;
    rank_.note_grave();
    end(call, status);
}

void Caller::drop_old(const Step* step) {
    while (!old_.empty()) {
        destroy(old_.front(), step);
        old_.pop_front();
    }
}

void Caller::away(const Step& step) {
    if (liberty(step, 1) % 2 == 0) return;
    std::uint64_t left = liberty(step, 2) % (step.away_ns + 1);
    if (program_.has_thread) return rank_.stay_away(left);
    // Without a thread it owes the others some progress.
    constexpr std::uint64_t kTurnNs = 200'000;
    for (; left > 0; left -= std::min(left, kTurnNs)) {
        rank_.stay_away(std::min(left, kTurnNs));
        rank_.call([&] { return coppice_progress(context_); });
    }
}

}  // namespace coppice::world
