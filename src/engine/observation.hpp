// What a context shows of itself on its status page (status/page.hpp): its groups, and what their callers wait for.
//
// On the way of a call that need not wait there is one plain store for each operation, which counts it. Reports are written
// by what waits anyway: when a call has waited for kPatienceNs, when it goes on after that (not if its caller may come back for its request at
// once), on what happens rarely (a group comes or goes, a rank fails), and every kRefreshNs while somebody looks after the context. A report
// costs a microsecond or two.
//
// Under the context's guard.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "engine/core/group_context.hpp"
#include "engine/requests/request.hpp"
#include "status/kept_pages.hpp"
#include "status/own_page.hpp"

namespace coppice::engine {

class Group;

// What a caller waits for: an operation of a request that has begun, or one that has found no room to begin.
struct Awaited {
    status::Kind kind = status::Kind::none;  // of a call without a request, or whose request has not begun
    Request* request = nullptr;
    Rank root{};           // of a broadcast that has not begun
    bool returns = false;  // its caller has the request, and may wait for it again
};

class Observation final : public StatusPage {
  public:
    // Null where there can be none: says so once, on standard error. The program does not depend on it.
    static std::unique_ptr<Observation> make(const Clock& clock);

    // A caller that waits within Context::wait. It is on the page after kPatienceNs, until it goes on.
    struct Waiter {
        const Group* group = nullptr;
        Awaited awaited;
        std::uint64_t since_ns = 0;  // 0: not listed
        bool shown = false;
    };
    void wait(Waiter& waiter);
    void go_on(Waiter& waiter);
    // Its wait ends, and the request does not: the caller may come back for it at once. Before go_on().
    void wait_again(const Waiter& waiter);

    // While a group is being made.
    void begin_creation();
    void end_creation();
    void attach(Group& group);
    void detach(Group& group);
    // Its caller has left it.
    void retired(const Group& group);

    // Ranks of a group are on that host.
    void add_host(std::string_view name) { page_->add_host(name); }

    // So that coppice-status can still read its page after it was killed, as long as this context is there. Of a few.
    void keep_page_of(pid_t process, int descriptor) {
        kept_.tidy();
        kept_.keep(process, descriptor);
    }
    int page_descriptor() const { return page_->descriptor(); }

    void refresh() override;

  private:
    static constexpr std::uint64_t kPatienceNs = 1'000'000;
    static constexpr std::uint64_t kRefreshNs = 100'000'000;
    // Who waited for a request so lately still waits for it: such a caller may be without a processor between two waits.
    static constexpr std::uint64_t kLatelyNs = 100'000'000;
    static constexpr std::size_t kMostKept = 8;

    Observation(const Clock& clock, std::unique_ptr<status::OwnPage> page) : clock_(clock), page_(std::move(page)) {}

    // A group that is shown, and what does not change of it.
    struct Shown {
        Group* group;
        status::Group facts;
    };
    void write(std::uint64_t now_ns);
    status::Operation* add(status::Report& report, const Group& group) const;
    void add_waiter(status::Report& report, const Waiter& waiter) const;
    void add_requests(status::Report& report, Group& group, std::uint64_t now_ns) const;
    bool is_awaited(const Request& request) const;
    static void note_wait(Request::Seen& seen, std::uint64_t now_ns);
    static bool was_just_awaited(const Request& request, std::uint64_t now_ns);

    const Clock& clock_;
    std::unique_ptr<status::OwnPage> page_;
    status::KeptPages kept_{kMostKept, kMostKept};
    std::vector<Shown> groups_;
    std::array<bool, status::kMostGroups> slots_{};
    std::vector<Waiter*> waiters_;  // most often none, or one
    std::uint32_t creations_ = 0;   // under way
    std::uint64_t creating_since_ns_ = 0;
    std::uint64_t written_ns_ = 0;
};

}  // namespace coppice::engine
