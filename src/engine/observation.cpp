#include "engine/observation.hpp"

#include <algorithm>
#include <cstdio>

#include "engine/group.hpp"

namespace coppice::engine {
namespace {

// A call waits in one thread, and a program has more threads than these seldom: room that need not be allocated later.
constexpr std::size_t kUsualWaiters = 16;

void say_once(const std::string& why) {
    static shared::Counter<std::uint32_t> said;
    if (said.add() > 0) return;
    std::fprintf(stderr, "coppice: coppice-status can't look into this process: %s (COPPICE_STATUS=0 silences this)\n",
                 why.c_str());
}

}  // namespace

std::unique_ptr<Observation> Observation::make(const Clock& clock) {
    auto page = status::OwnPage::make(clock.now_ns());
    if (!page) {
        say_once(page.error().message);
        return nullptr;
    }
    std::unique_ptr<Observation> made(new Observation(clock, std::move(*page)));
    made->waiters_.reserve(kUsualWaiters);
    return made;
}

// ------------------------------------------------------------------------------------------------------ who waits ---

// A request that is waited for again and again, for a little while each time, has been waited for since the first time. One whose
// caller was away for longer than that is waited for anew.
void Observation::note_wait(Request::Seen& seen, std::uint64_t now_ns) {
    if (seen.awaited_ns == 0 || now_ns - seen.last_awaited_ns >= kLatelyNs) {
        seen.awaited_ns = now_ns;
        seen.as_awaited = false;
    }
    seen.last_awaited_ns = now_ns;
}

void Observation::wait(Waiter& waiter) {
    const std::uint64_t now = clock_.now_ns();
    Request* const request = waiter.awaited.request;
    if (waiter.since_ns == 0) {
        if (request != nullptr) note_wait(request->seen, now);
        waiter.since_ns = request != nullptr ? request->seen.awaited_ns : now;
        waiter.shown = request != nullptr && request->seen.as_awaited;
        waiters_.push_back(&waiter);
    }
    if (waiter.shown ? now - written_ns_ < kRefreshNs && !changed_ : now - waiter.since_ns < kPatienceNs) return;
    waiter.shown = true;
    write(now);
}

void Observation::go_on(Waiter& waiter) {
    if (waiter.since_ns == 0) return;
    std::erase(waiters_, &waiter);
    Request* const request = waiter.awaited.request;
    if (request == nullptr && !waiter.shown) return;
    const std::uint64_t now = clock_.now_ns();
    if (request != nullptr) request->seen.last_awaited_ns = now;
    if (waiter.shown && (request == nullptr || !was_just_awaited(*request, now))) write(now);
}

// Such waits may be too short for a wait() in any of them. The next report says it.
void Observation::wait_again(const Waiter& waiter) {
    if (!waiter.awaited.returns) return;
    Request::Seen& seen = waiter.awaited.request->seen;
    if (waiter.since_ns == 0) note_wait(seen, clock_.now_ns());
    seen.may_come_back = true;
}

bool Observation::was_just_awaited(const Request& request, std::uint64_t now_ns) {
    const Request::Seen& seen = request.seen;
    return request.state == RequestState::waiting && seen.may_come_back && now_ns - seen.last_awaited_ns < kLatelyNs &&
           now_ns - seen.awaited_ns >= kPatienceNs;
}

void Observation::begin_creation() {
    const std::uint64_t now = clock_.now_ns();
    if (creations_++ == 0) creating_since_ns_ = now;
    write(now);
}

void Observation::end_creation() {
    --creations_;
    write(clock_.now_ns());
}

// --------------------------------------------------------------------------------------------------------- groups ---

void Observation::attach(Group& group) {
    Shown shown{&group, {}};
    group.show_facts(shown.facts);
    const auto slot = std::ranges::find(slots_, false);
    if (slot != slots_.end()) {
        *slot = true;
        shown.facts.slot = static_cast<std::uint32_t>(slot - slots_.begin());
        group.count_entered_in(&page_->entered(shown.facts.slot));
    } else {
        shown.facts.slot = status::kMostGroups;  // not shown
    }
    groups_.push_back(shown);
    write(clock_.now_ns());
}

void Observation::detach(Group& group) {
    const auto shown = std::ranges::find(groups_, &group, &Shown::group);
    if (shown == groups_.end()) return;
    group.count_entered_in(nullptr);
    if (shown->facts.slot < status::kMostGroups) slots_[shown->facts.slot] = false;
    groups_.erase(shown);
    write(clock_.now_ns());
}

void Observation::retired(const Group& group) {
    const auto shown = std::ranges::find(groups_, &group, &Shown::group);
    if (shown != groups_.end()) shown->facts.left = 1;
    changed_ = true;
}

// -------------------------------------------------------------------------------------------------------- reports ---

void Observation::refresh() {
    const std::uint64_t now = clock_.now_ns();
    if (changed_ || now - written_ns_ >= kRefreshNs) write(now);
}

void Observation::write(std::uint64_t now_ns) {
    status::Report& report = page_->next();
    report.groups_count = report.groups_omitted = 0;
    report.operations_count = report.operations_omitted = 0;
    for (const Shown& shown : groups_) {
        if (shown.facts.slot >= status::kMostGroups || report.groups_count == status::kMostGroups) {
            ++report.groups_omitted;
            continue;
        }
        status::Group& to = report.groups[report.groups_count++];
        to = shown.facts;
        shown.group->show(to);
    }
    if (creations_ > 0) {
        status::Operation& creation = report.operations[report.operations_count++];
        creation = {.kind = status::Kind::creation, .blocking = 1, .since_ns = creating_since_ns_, .waits = {}};
    }
    for (const Waiter* const waiter : waiters_)
        if (waiter->shown) add_waiter(report, *waiter);
    for (const Shown& shown : groups_)
        add_requests(report, *shown.group, now_ns);
    page_->publish(now_ns);
    written_ns_ = now_ns;
    changed_ = false;
}

// Null where there is no room.
status::Operation* Observation::add(status::Report& report, const Group& group) const {
    if (report.operations_count == status::kMostOperations) {
        ++report.operations_omitted;
        return nullptr;
    }
    status::Operation& operation = report.operations[report.operations_count++];
    operation = {};
    std::uint32_t index = 0;
    for (const Shown& shown : groups_) {
        if (shown.facts.slot >= status::kMostGroups) continue;
        if (shown.group == &group) operation.group = index;
        ++index;
    }
    return &operation;
}

void Observation::add_waiter(status::Report& report, const Waiter& waiter) const {
    const Awaited& awaited = waiter.awaited;
    const bool is_over = awaited.request != nullptr && awaited.request->state == RequestState::done;
    const bool has_begun = awaited.request != nullptr && awaited.request->state == RequestState::waiting;
    if (is_over || (!has_begun && awaited.kind == status::Kind::none)) return;
    status::Operation* const operation = add(report, *waiter.group);
    if (operation == nullptr) return;
    operation->kind = awaited.kind;
    operation->blocking = 1;
    operation->since_ns = waiter.since_ns;
    if (has_begun) {
        awaited.request->seen.as_awaited = true;
        waiter.group->show_request(*awaited.request, *operation);
    } else {
        operation->root = awaited.root.value;
        waiter.group->show_unbegun(*operation);
    }
}

// Those for which nobody waits just now.
void Observation::add_requests(status::Report& report, Group& group, std::uint64_t now_ns) const {
    group.for_each_waiting([&](Request& request) {
        if (is_awaited(request)) return;
        Request::Seen& seen = request.seen;
        if (seen.waiting_ns == 0) seen.waiting_ns = now_ns;
        seen.as_awaited = was_just_awaited(request, now_ns);
        status::Operation* const operation = add(report, group);
        if (operation == nullptr) return;
        operation->blocking = seen.as_awaited ? 1 : 0;
        operation->since_ns = seen.as_awaited ? seen.awaited_ns : seen.waiting_ns;
        group.show_request(request, *operation);
    });
}

bool Observation::is_awaited(const Request& request) const {
    return std::ranges::any_of(
        waiters_, [&](const Waiter* waiter) { return waiter->shown && waiter->awaited.request == &request; });
}

}  // namespace coppice::engine
