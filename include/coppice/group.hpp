// Group, without shrink_nb and renew_nb: <coppice/shrinking.hpp>. Programs include <coppice/coppice.hpp>, of which this is a part.
#pragma once

#include <coppice/agreement.h>
#include <coppice/broadcast.h>
#include <coppice/group.h>
#include <coppice/membership.h>
#include <coppice/agreement.hpp>
#include <coppice/context.hpp>
#include <coppice/group_options.hpp>
#include <coppice/request.hpp>
#include <coppice/status.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace coppice {
inline namespace v0 {

class Shrinking;

class Group {
  public:
    Group() = default;
    Group(Group&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), state_(std::move(other.state_)) {}
    Group& operator=(Group&& other) noexcept {
        Group taken(std::move(other));
        std::swap(handle_, taken.handle_);
        std::swap(state_, taken.state_);
        return *this;
    }
    // Leaves the group, collectively, within leave_timeout. While an exception unwinds the stack it leaves
    // immediately: then the others may see this rank as failed. A group whose requests still live stays until the process ends.
    ~Group() {
        if (handle_ == nullptr) return;
        const bool unwinding = std::uncaught_exceptions() > state_->exceptions;
        static_cast<void>(try_leave(unwinding ? Timeout(0) : state_->leave_timeout));
        // The library still calls on_failure of a group that it keeps: its callback must stay too.
        if (handle_ != nullptr) static_cast<void>(new (std::nothrow) std::shared_ptr<State>(state_));
    }

    static Group create(Context& context, const GroupOptions& options = {}) {
        Group group;
        std::exception_ptr thrown;
        const Status status = create(context, options, group, thrown);
        if (thrown) std::rethrow_exception(thrown);
        detail::throw_unless_ok(status);
        return group;
    }
    static Status try_create(Context& context, const GroupOptions& options, Group& group) noexcept {
        std::exception_ptr thrown;
        return create(context, options, group, thrown);
    }

    // A group that others have made, with a ticket of theirs (coppice_group_join); the exchange, rank, size and timeout of `options` are not used.
    static Group join(Context& context, std::span<const std::byte> ticket, const GroupOptions& options = {},
                      Timeout timeout = kNoTimeout) {
        Group group;
        detail::throw_unless_ok(try_join(context, ticket, options, group, timeout));
        return group;
    }
    static Status try_join(Context& context, std::span<const std::byte> ticket, const GroupOptions& options,
                           Group& group, Timeout timeout = kNoTimeout) noexcept {
        std::exception_ptr thrown;  // there is no exchange that could
        return make(context, options, group, thrown, [&](coppice_group_options_t& plain, coppice_group_t** made) {
            plain.exchange = nullptr;
            return coppice_group_join(context.native(), ticket.data(), ticket.size(), &plain, made,
                                      detail::to_c(timeout));
        });
    }

    // Says when leaving failed, where the destructor cannot. The group is empty after kOk and kTimeout.
    void leave(Timeout timeout = kNoTimeout) { detail::throw_unless_ok(try_leave(timeout)); }
    Status try_leave(Timeout timeout = kNoTimeout) noexcept {
        const Status status = detail::from_c(coppice_group_destroy(handle_, detail::to_c(timeout)));
        if (status == Status::kOk || status == Status::kTimeout) handle_ = nullptr;
        return status;
    }

    coppice_group_info_t info() const {
        coppice_group_info_t info{};
        detail::throw_unless_ok(try_info(info));
        return info;
    }
    Status try_info(coppice_group_info_t& info) const noexcept {
        info.struct_size = sizeof info;
        return detail::from_c(coppice_group_query(handle_, &info));
    }
    std::uint32_t rank() const { return info().rank; }
    std::uint32_t size() const { return info().size; }
    // What carries messages to the other ranks, for people.
    std::string transports() const { return info().transports; }

    // The ranks that this rank knows to have failed, ascending. May be called from on_failure.
    std::vector<std::uint32_t> failed() const {
        std::vector<std::uint32_t> ranks;
        std::size_t count = 0;
        detail::throw_unless_ok(try_failed({}, count));
        // Another thread may learn of a death in between.
        while (ranks.size() < count) {
            ranks.resize(count);
            detail::throw_unless_ok(try_failed(ranks, count));
        }
        return ranks;
    }
    // Fills `ranks` as far as it goes; `count` is the number of all.
    Status try_failed(std::span<std::uint32_t> ranks, std::size_t& count) const noexcept {
        return detail::from_c(coppice_group_failed(handle_, ranks.data(), ranks.size(), &count));
    }

    // Blocking; returns the part of `buffer` that the payload fills: at the root all of it.
    std::span<std::byte> broadcast(std::span<std::byte> buffer, std::uint32_t root, Timeout timeout = kNoTimeout) {
        std::size_t received = 0;
        detail::throw_unless_ok(try_broadcast(buffer, root, received, timeout));
        return buffer.first(received);
    }
    Status try_broadcast(std::span<std::byte> buffer, std::uint32_t root, std::size_t& received,
                         Timeout timeout = kNoTimeout) noexcept {
        std::size_t size_here = buffer.size();
        const Status status = detail::from_c(
            coppice_broadcast(handle_, buffer.data(), buffer.size(), root, &size_here, detail::to_c(timeout)));
        if (status == Status::kOk) received = size_here;
        return status;
    }

    // kBusy when the window is full: make progress and try again.
    Request broadcast_nb(std::span<std::byte> buffer, std::uint32_t root) {
        Request request;
        detail::throw_unless_ok(try_broadcast_nb(buffer, root, request));
        return request;
    }
    Status try_broadcast_nb(std::span<std::byte> buffer, std::uint32_t root, Request& request) noexcept {
        coppice_request_t* handle = nullptr;
        const Status status =
            detail::from_c(coppice_broadcast_nb(handle_, buffer.data(), buffer.size(), root, &handle));
        if (status == Status::kOk) request = Request(handle);
        return status;
    }

    // Zero copy; Request::take_view gives the payload. `payload` is the root's, who may use it again when the request has ended, and
    // ignored elsewhere.
    Request broadcast_view_nb(std::span<const std::byte> payload, std::uint32_t root) {
        Request request;
        detail::throw_unless_ok(try_broadcast_view_nb(payload, root, request));
        return request;
    }
    Status try_broadcast_view_nb(std::span<const std::byte> payload, std::uint32_t root, Request& request) noexcept {
        coppice_request_t* handle = nullptr;
        const Status status =
            detail::from_c(coppice_broadcast_view_nb(handle_, payload.data(), payload.size(), root, &handle));
        if (status == Status::kOk) request = Request(handle);
        return status;
    }

    // The same, blocking. kTimeout: given up here, as with broadcast. kBusy: the window stayed full until the
    // deadline, and this broadcast has not begun.
    View broadcast_view(std::span<const std::byte> payload, std::uint32_t root, Timeout timeout = kNoTimeout) {
        View view;
        detail::throw_unless_ok(try_broadcast_view(payload, root, view, timeout));
        return view;
    }
    Status try_broadcast_view(std::span<const std::byte> payload, std::uint32_t root, View& view,
                              Timeout timeout = kNoTimeout) noexcept {
        using Clock = std::chrono::steady_clock;
        const Clock::time_point start = Clock::now();
        const auto left = [&] { return timeout == kNoTimeout ? kNoTimeout : timeout - Timeout(Clock::now() - start); };
        Request request;
        Status status = try_broadcast_view_nb(payload, root, request);
        while (status == Status::kBusy && left() > Timeout(0)) {
            if (const Status moved = detail::from_c(coppice_progress(state_->context)); moved != Status::kOk) {
                return moved;
            }
            std::this_thread::yield();
            status = try_broadcast_view_nb(payload, root, request);
        }
        if (status == Status::kOk) status = request.try_wait(left());
        return status == Status::kOk ? request.try_take_view(view) : status;
    }

    // What an agreement ended with. `acknowledged` is false where C says COPPICE_ERR_PEER_FAILED: the value is agreed, but
    // ranks of `agreed()` have failed whose failure not every rank had acknowledged. Here that is no error.
    struct Agreed {
        bool acknowledged = true;
    };
    // Blocking; `value` is this rank's contribution and takes the result.
    Agreed agree(std::span<std::byte> value, const Combination& combination = {}, Timeout timeout = kNoTimeout) {
        const Status status = try_agree(value, combination, timeout);
        if (status != Status::kPeerFailed) detail::throw_unless_ok(status);
        return {status == Status::kOk};
    }
    // Of one number: the result.
    template <AgreedNumber Number>
    std::pair<Number, Agreed> agree(Number number, Operation operation, Timeout timeout = kNoTimeout) {
        const Agreed agreed = agree(std::as_writable_bytes(std::span(&number, 1)),
                                    {.operation = operation, .type = type_of<Number>()}, timeout);
        return {number, agreed};
    }
    Status try_agree(std::span<std::byte> value, const Combination& combination = {},
                     Timeout timeout = kNoTimeout) noexcept {
        const coppice_agree_options_t options = combination.to_c();
        return detail::from_c(coppice_agree(handle_, value.data(), value.size(), &options, detail::to_c(timeout)));
    }

    // `value` is the library's until the request has ended; Request::wait throws kPeerFailed where C returns it. A function
    // of the combination has to live as long.
    Request agree_nb(std::span<std::byte> value, const Combination& combination = {}) {
        Request request;
        detail::throw_unless_ok(try_agree_nb(value, combination, request));
        return request;
    }
    Status try_agree_nb(std::span<std::byte> value, const Combination& combination, Request& request) noexcept {
        const coppice_agree_options_t options = combination.to_c();
        coppice_request_t* handle = nullptr;
        const Status status = detail::from_c(coppice_agree_nb(handle_, value.data(), value.size(), &options, &handle));
        if (status == Status::kOk) request = Request(handle);
        return status;
    }

    // Blocking, until every live rank has entered.
    Agreed barrier(Timeout timeout = kNoTimeout) {
        const Status status = try_barrier(timeout);
        if (status != Status::kPeerFailed) detail::throw_unless_ok(status);
        return {status == Status::kOk};
    }
    Status try_barrier(Timeout timeout = kNoTimeout) noexcept {
        return detail::from_c(coppice_barrier(handle_, detail::to_c(timeout)));
    }
    // Request::wait throws kPeerFailed where C returns it.
    Request barrier_nb() {
        Request request;
        detail::throw_unless_ok(try_barrier_nb(request));
        return request;
    }
    Status try_barrier_nb(Request& request) noexcept {
        coppice_request_t* handle = nullptr;
        const Status status = detail::from_c(coppice_barrier_nb(handle_, &handle));
        if (status == Status::kOk) request = Request(handle);
        return status;
    }

    // The failed ranks that the last agreement, as far as this rank was told of its end, has agreed upon, ascending.
    std::vector<std::uint32_t> agreed() const {
        std::vector<std::uint32_t> ranks;
        std::size_t count = 0;
        detail::throw_unless_ok(try_agreed({}, count));
        while (ranks.size() < count) {
            ranks.resize(count);
            detail::throw_unless_ok(try_agreed(ranks, count));
        }
        ranks.resize(count);
        return ranks;
    }
    Status try_agreed(std::span<std::uint32_t> ranks, std::size_t& count) const noexcept {
        return detail::from_c(coppice_group_agreed(handle_, ranks.data(), ranks.size(), &count));
    }

    // This rank has taken note of these failures; without an argument of all that it knows of.
    void acknowledge_failed(std::span<const std::uint32_t> ranks) {
        detail::throw_unless_ok(try_acknowledge_failed(ranks));
    }
    void acknowledge_failed() { detail::throw_unless_ok(try_acknowledge_failed()); }
    Status try_acknowledge_failed(std::span<const std::uint32_t> ranks) noexcept {
        if (ranks.empty()) return Status::kOk;
        return detail::from_c(coppice_group_ack_failed(handle_, ranks.data(), ranks.size()));
    }
    Status try_acknowledge_failed() noexcept { return detail::from_c(coppice_group_ack_failed(handle_, nullptr, 0)); }

    // Everything of this group ends with kRevoked, at every rank. Local.
    void revoke() { detail::throw_unless_ok(try_revoke()); }
    Status try_revoke() noexcept { return detail::from_c(coppice_group_revoke(handle_)); }

    // A group of the survivors. Its callback and leave_timeout are this group's. kTimeout: call it again, or leave.
    Group shrink(Timeout timeout = kNoTimeout) {
        Group group;
        detail::throw_unless_ok(try_shrink(group, timeout));
        return group;
    }
    Status try_shrink(Group& group, Timeout timeout = kNoTimeout) noexcept {
        Group made;
        const Status status = detail::from_c(coppice_group_shrink(handle_, &made.handle_, detail::to_c(timeout)));
        if (status != Status::kOk) return status;
        made.state_ = state_;
        group = std::move(made);
        return status;
    }

    // The same without waiting. kBusy while another one is under way.
    Shrinking shrink_nb();
    Status try_shrink_nb(Shrinking& shrinking) noexcept;

    // The next group; empty at a rank that leaves. Otherwise as shrink.
    Group renew(const RenewOptions& options = {}, Timeout timeout = kNoTimeout) {
        Group group;
        detail::throw_unless_ok(try_renew(group, options, timeout));
        return group;
    }
    Status try_renew(Group& group, const RenewOptions& options = {}, Timeout timeout = kNoTimeout) noexcept {
        const coppice_renew_options_t plain = options.to_c();
        Group made;
        const Status status = detail::from_c(
            coppice_group_renew(handle_, options.as_others ? nullptr : &plain, &made.handle_, detail::to_c(timeout)));
        if (status != Status::kOk) return status;
        if (made.handle_ != nullptr) made.state_ = state_;
        group = std::move(made);
        return status;
    }
    Shrinking renew_nb(const RenewOptions& options = {});
    Status try_renew_nb(Shrinking& renewing, const RenewOptions& options = {}) noexcept;

    // This rank will not be in the next group (coppice_group_leave). leave() is what ends this one.
    void leave_with_renewal() { detail::throw_unless_ok(try_leave_with_renewal()); }
    Status try_leave_with_renewal() noexcept { return detail::from_c(coppice_group_leave(handle_)); }

    // A ticket with which so many processes may join, for so long: to be kept as a password is (coppice_group_invite).
    std::vector<std::byte> invite(std::uint32_t uses, Timeout lifetime) {
        std::vector<std::byte> ticket;
        detail::throw_unless_ok(try_invite(uses, lifetime, ticket));
        return ticket;
    }
    Status try_invite(std::uint32_t uses, Timeout lifetime, std::vector<std::byte>& ticket) noexcept {
        try {
            std::vector<std::byte> made(COPPICE_TICKET_BYTES);
            std::size_t bytes = made.size();
            const Status status =
                detail::from_c(coppice_group_invite(handle_, uses, detail::to_c(lifetime), made.data(), &bytes));
            if (status != Status::kOk) return status;
            made.resize(bytes);
            ticket = std::move(made);
            return status;
        } catch (const std::bad_alloc&) {
            return Status::kNoMemory;
        }
    }

    // Whether some rank wants to leave, or a process waits to join and can, as of the last agreement or barrier: the same at all that have
    // returned from it.
    bool pending() const {
        bool waits = false;
        detail::throw_unless_ok(try_pending(waits));
        return waits;
    }
    Status try_pending(bool& waits) const noexcept {
        int pending = 0;
        const Status status = detail::from_c(coppice_group_pending(handle_, &pending));
        if (status == Status::kOk) waits = pending != 0;
        return status;
    }

    // Which ranks are in it, and where they come from.
    Membership view() const {
        Membership membership;
        detail::throw_unless_ok(try_view(membership.view, {}));
        membership.members.resize(membership.view.size);
        detail::throw_unless_ok(try_view(membership.view, membership.members));
        return membership;
    }
    Status try_view(coppice_view_t& view, std::span<coppice_member_t> members) const noexcept {
        view.struct_size = sizeof view;
        return detail::from_c(coppice_group_view(handle_, &view, members.data(), members.size()));
    }

    // Slow (a system call, page pinning): once per buffer, not once per broadcast.
    Registration register_memory(std::span<std::byte> memory) {
        Registration registration;
        detail::throw_unless_ok(try_register_memory(memory, registration));
        return registration;
    }
    Status try_register_memory(std::span<std::byte> memory, Registration& registration) noexcept {
        const Status status = detail::from_c(coppice_memory_register(handle_, memory.data(), memory.size()));
        if (status == Status::kOk) registration = Registration(handle_, memory.data());
        return status;
    }

    // For a root's payload that is not copied.
    Memory allocate_memory(std::size_t bytes) {
        Memory memory;
        detail::throw_unless_ok(try_allocate_memory(bytes, memory));
        return memory;
    }
    Status try_allocate_memory(std::size_t bytes, Memory& memory) noexcept {
        void* address = nullptr;
        const Status status = detail::from_c(coppice_memory_allocate(handle_, bytes, &address));
        if (status == Status::kOk) memory = Memory(handle_, {static_cast<std::byte*>(address), bytes});
        return status;
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    coppice_group_t* native() const noexcept { return handle_; }  // stays this object's

  private:
    friend class Shrinking;

    template <class Begin>
    Status begin(Shrinking& shrinking, Begin&& begin) noexcept;

    // Has an address of its own, which the library keeps, so that the Group can move.
    struct State {
        std::function<void(std::uint32_t rank)> on_failure;
        coppice_context_t* context;
        Timeout leave_timeout;
        int exceptions;
    };
    struct Exchange {
        const GroupOptions& options;
        std::exception_ptr& thrown;
        std::size_t places;
    };

    static int exchange_trampoline(void* argument, const void* mine, std::size_t bytes, void* all) noexcept {
        const Exchange& exchange = *static_cast<Exchange*>(argument);
        try {
            const bool well = exchange.options.exchange({static_cast<const std::byte*>(mine), bytes},
                                                        {static_cast<std::byte*>(all), bytes * exchange.places});
            return well ? 0 : 1;
        } catch (...) {
            exchange.thrown = std::current_exception();
            return 1;
        }
    }
    static void failure_trampoline(void* argument, coppice_group_t*, std::uint32_t rank) noexcept {
        try {
            static_cast<State*>(argument)->on_failure(rank);
        } catch (...) {
            // It comes from the middle of any call, or from a thread that nobody waits for: there is no one
            // to tell.
        }
    }

    static Status create(Context& context, const GroupOptions& options, Group& group,
                         std::exception_ptr& thrown) noexcept {
        return make(context, options, group, thrown, [&](const coppice_group_options_t& plain, coppice_group_t** made) {
            return coppice_group_create(context.native(), &plain, made);
        });
    }

    template <class Make>
    static Status make(Context& context, const GroupOptions& options, Group& group, std::exception_ptr& thrown,
                       Make&& call) noexcept {
        Group made;
        try {
            made.state_.reset(
                new State{options.on_failure, context.native(), options.leave_timeout, std::uncaught_exceptions()});
        } catch (...) {
            thrown = std::current_exception();
            return Status::kNoMemory;
        }
        Exchange exchange{options, thrown, options.ranks.empty() ? options.size : options.ranks.size()};
        coppice_group_options_t plain = COPPICE_GROUP_OPTIONS_INIT;
        if (options.exchange) {
            plain.exchange = exchange_trampoline;
            plain.exchange_argument = &exchange;
        }
        plain.rank = options.rank;
        plain.size = options.size;
        plain.algorithm = detail::or_null(options.algorithm);
        plain.agreement_tree = detail::or_null(options.agreement_tree);
        plain.switches = detail::or_null(options.switches);
        plain.tree = detail::or_null(options.tree);
        plain.correction = detail::or_null(options.correction);
        plain.hierarchy = detail::or_null(options.hierarchy);
        plain.window = options.window;
        plain.timeout_ns = detail::to_c(options.timeout);
        if (!options.ranks.empty()) {
            plain.ranks = options.ranks.data();
            plain.rank_count = options.ranks.size();
        }
        plain.witness = options.witness;
        if (options.on_failure) {
            plain.on_failure = failure_trampoline;
            plain.on_failure_argument = made.state_.get();
        }
        const Status status = detail::from_c(call(plain, &made.handle_));
        if (status == Status::kOk) group = std::move(made);
        return status;
    }

    coppice_group_t* handle_ = nullptr;
    std::shared_ptr<State> state_;  // groups that are shrunk have it too
};

}  // namespace v0
}  // namespace coppice
