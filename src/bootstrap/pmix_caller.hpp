// Calls of libpmix that may never return.
//
// PMIx_Init, PMIx_Commit and others wait for the launcher's server, and have no deadline: where that is stopped, or hangs, they wait for
// good. A thread that waits there can't be called back. So one of its own makes the calls, in their order, and is left behind when the
// deadline passes. A call may thus come to its end long after its caller has given up: it owns what it uses. Where a call returns at once
// the server does not hang, whatever the time is: so each is given a moment also when the deadline has passed before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/error.hpp"

namespace coppice::bootstrap::pmix {

class Caller {
  public:
    // Waits for those that were left behind earlier: libpmix is one for the process, and not asked for more while it hangs.
    // COPPICE_ERR_BOOTSTRAP where one of them is still there at the deadline, COPPICE_ERR_NO_RESOURCES without a thread.
    // `last` is what goodbye() has made. A call has `least_ns` to return in, or longer where the deadline is later.
    static Result<std::unique_ptr<Caller>> start(std::uint64_t deadline_ns, std::function<void()> last = {},
                                                 std::uint64_t least_ns = kLeast);
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
    // Leaves the thread behind where a call has not returned; it ends after the last one.
    ~Caller();

    // What the call returns; nullopt where it has not returned in time. No further one is made then but goodbye()'s.
    template <class Call>
    std::optional<std::invoke_result_t<Call>> call(std::uint64_t deadline_ns, Call what) {
        const auto outcome = std::make_shared<std::optional<std::invoke_result_t<Call>>>();
        if (!run(deadline_ns, [outcome, what = std::move(what)]() mutable { outcome->emplace(what()); }))
            return std::nullopt;
        return std::move(*outcome);
    }

    // Makes the last call in any case, whenever those before it have returned. For destructors: it needs no memory.
    void goodbye(std::uint64_t deadline_ns) noexcept;

    // Whether this is a thread that makes calls, which need not wait for itself.
    static bool is_this_thread();

    static constexpr std::uint64_t kLeast = 1'000'000'000;

  private:
    struct Shared;
    Caller(std::shared_ptr<Shared> shared, std::uint64_t least_ns);
    bool run(std::uint64_t deadline_ns, std::function<void()> what);
    std::uint64_t in_time(std::uint64_t deadline_ns) const;

    std::shared_ptr<Shared> shared_;
    std::uint64_t least_ns_;
    std::thread thread_;
};

}  // namespace coppice::bootstrap::pmix
