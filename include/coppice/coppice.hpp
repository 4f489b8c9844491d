// Coppice for C++20: RAII over coppice.h, header-only.
//
// coppice.h and docs/ say what an operation does, promises and costs. Here is only what C++ adds:
//
//  - Objects own what they stand for and are move-only. An object made by its default constructor, or moved from, is empty:
//    it may be assigned to, destroyed and asked `if (object)`, and nothing else.
//  - Lifetimes nest as in C: a Context outlives its Groups, a Group its Requests, Views and Registrations. Objects that are
//    declared in this order in one scope end in the right order.
//  - Every call that can fail exists twice. `try_…` never throws and returns a Status; its result goes to an out
//    parameter, which keeps its value unless the Status is kOk. The other one returns the result and throws Error, which
//    carries the Status and the sentence of last_error().
//  - Payloads are spans of bytes: std::as_bytes and std::as_writable_bytes make them of other spans.
//  - Deadlines are std::chrono durations from now. Negative ones count as 0, kNoTimeout waits for ever.
//
// Everything is in an inline namespace that carries the number of the ABI, so that a program may link the
// static library, whose own names are in namespace coppice too.
#pragma once

#include <coppice/coppice.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace coppice {
inline namespace v0 {

// ---------------------------------------------------------------------------------------------- errors ---

// The numbers of coppice_status_t. A newer library may return numbers that have no name here.
enum class [[nodiscard]] Status : int{
    kOk = COPPICE_OK,
    kInProgress = COPPICE_IN_PROGRESS,
    kInvalidArgument = COPPICE_ERR_INVALID_ARGUMENT,
    kOutOfRange = COPPICE_ERR_OUT_OF_RANGE,
    kTooLarge = COPPICE_ERR_TOO_LARGE,
    kTruncated = COPPICE_ERR_TRUNCATED,
    kTimeout = COPPICE_ERR_TIMEOUT,
    kRootFailed = COPPICE_ERR_ROOT_FAILED,
    kPeerFailed = COPPICE_ERR_PEER_FAILED,
    kFenced = COPPICE_ERR_FENCED,
    kRevoked = COPPICE_ERR_REVOKED,
    kMismatch = COPPICE_ERR_MISMATCH,
    kNoMemory = COPPICE_ERR_NO_MEMORY,
    kNoResources = COPPICE_ERR_NO_RESOURCES,
    kNoTransport = COPPICE_ERR_NO_TRANSPORT,
    kBootstrap = COPPICE_ERR_BOOTSTRAP,
    kBusy = COPPICE_ERR_BUSY,
    kConfig = COPPICE_ERR_CONFIG,
    kInternal = COPPICE_ERR_INTERNAL,
    kForked = COPPICE_ERR_FORKED,
    kNoQuorum = COPPICE_ERR_NO_QUORUM,
};

// A static sentence for any number. Any thread.
inline const char* to_string(Status status) noexcept {
    return coppice_status_string(static_cast<coppice_status_t>(status));
}

// The sentence of this thread's last call that failed, "" before that; good until the next one that fails.
inline const char* last_error() noexcept {
    return coppice_last_error();
}

// The version of the library that is linked at run time.
inline const char* version() noexcept {
    return coppice_version();
}

// what() is last_error() as it was when the call failed, or to_string(status()) where that says nothing.
class Error : public std::runtime_error {
  public:
    explicit Error(Status status) : Error(status, last_error()) {}
    Error(Status status, const std::string& sentence)
        : std::runtime_error(sentence.empty() ? std::string(to_string(status)) : sentence), status_(status) {}

    Status status() const noexcept { return status_; }

  private:
    Status status_;
};

using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout kNoTimeout = Timeout::max();

namespace detail {

constexpr Status from_c(coppice_status_t status) noexcept {
    return static_cast<Status>(status);
}

inline void throw_unless_ok(Status status) {
    if (status != Status::kOk) throw Error(status);
}

constexpr std::uint64_t to_c(Timeout timeout) noexcept {
    if (timeout == kNoTimeout) return COPPICE_NO_TIMEOUT;
    return timeout.count() < 0 ? 0 : static_cast<std::uint64_t>(timeout.count());
}

// C takes NULL for "the environment variable, else the default".
inline const char* or_null(const std::string& text) noexcept {
    return text.empty() ? nullptr : text.c_str();
}

}  // namespace detail

// --------------------------------------------------------------------------------------------- context ---

enum class ThreadMode { kSingle = COPPICE_THREAD_SINGLE, kMultiple = COPPICE_THREAD_MULTIPLE };

// What is left empty or false takes the value of its environment variable, else the default.
struct ContextOptions {
    ThreadMode thread_mode = ThreadMode::kSingle;
    int progress_thread = 0;      // as in coppice.h: 0 default, 1 with callbacks, -1 none
    std::string transports = {};  // "shm,tcp"
};

class Context {
  public:
    Context() = default;
    Context(Context&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Context& operator=(Context&& other) noexcept {
        Context taken(std::move(other));
        std::swap(handle_, taken.handle_);
        return *this;
    }
    // A context that still has groups stays until the process ends.
    ~Context() { static_cast<void>(coppice_context_destroy(handle_)); }

    static Context create(const ContextOptions& options = {}) {
        Context context;
        detail::throw_unless_ok(try_create(options, context));
        return context;
    }
    static Status try_create(const ContextOptions& options, Context& context) noexcept {
        coppice_context_options_t plain = COPPICE_CONTEXT_OPTIONS_INIT;
        plain.thread_mode = static_cast<coppice_thread_mode_t>(options.thread_mode);
        plain.progress_thread = options.progress_thread;
        plain.transports = detail::or_null(options.transports);
        Context made;
        const Status status = detail::from_c(coppice_context_create(&plain, &made.handle_));
        if (status == Status::kOk) context = std::move(made);
        return status;
    }

    void progress() { detail::throw_unless_ok(try_progress()); }
    Status try_progress() noexcept { return detail::from_c(coppice_progress(handle_)); }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    coppice_context_t* native() const noexcept { return handle_; }  // stays this object's

  private:
    coppice_context_t* handle_ = nullptr;
};

// ---------------------------------------------------------------------------------- requests and views ---

// The payload of a finished broadcast, in the memory in which it landed. A View that is kept for a whole
// window of further broadcasts holds them up.
class View {
  public:
    View() = default;
    View(View&& other) noexcept
        : request_(std::exchange(other.request_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
    View& operator=(View&& other) noexcept {
        View taken(std::move(other));
        std::swap(request_, taken.request_);
        std::swap(bytes_, taken.bytes_);
        return *this;
    }
    ~View() { static_cast<void>(coppice_request_free(request_)); }

    // Good as long as this object holds it.
    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    // After reading: kOk proves what has been read, kFenced says that the others have taken this rank for dead (it was silent for
    // too long, or the network has cut it off) and may have used the memory again.
    Status check() const noexcept {
        const void* payload = nullptr;
        std::size_t bytes = 0;
        return detail::from_c(coppice_request_view(request_, &payload, &bytes));
    }

    explicit operator bool() const noexcept { return request_ != nullptr; }

  private:
    friend class Request;
    View(coppice_request_t* request, std::span<const std::byte> bytes) noexcept : request_(request), bytes_(bytes) {}

    coppice_request_t* request_ = nullptr;
    std::span<const std::byte> bytes_;
};

// An operation under way. Its buffer must live until it has ended or this object is gone. Destroying the object before
// that gives the operation up at this rank, as by a timeout; the others are served all the same.
class Request {
  public:
    Request() = default;
    Request(Request&& other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), received_(std::exchange(other.received_, 0)) {}
    Request& operator=(Request&& other) noexcept {
        Request taken(std::move(other));
        std::swap(handle_, taken.handle_);
        std::swap(received_, taken.received_);
        return *this;
    }
    ~Request() { static_cast<void>(coppice_request_free(handle_)); }

    // Whether it has ended well; throws when it has ended otherwise. Makes progress.
    bool test() {
        const Status status = try_test();
        if (status == Status::kInProgress) return false;
        detail::throw_unless_ok(status);
        return true;
    }
    Status try_test() noexcept { return detail::from_c(coppice_request_test(handle_, &received_)); }

    // The size of the payload. kTimeout leaves the broadcast under way: wait again, or let go of the request.
    std::size_t wait(Timeout timeout = kNoTimeout) {
        detail::throw_unless_ok(try_wait(timeout));
        return received_;
    }
    Status try_wait(Timeout timeout = kNoTimeout) noexcept {
        return detail::from_c(coppice_request_wait(handle_, &received_, detail::to_c(timeout)));
    }

    // The size of the payload, after kOk.
    std::size_t received() const noexcept { return received_; }

    // After kOk of a request of broadcast_view_nb: its payload. The request is empty afterwards.
    View take_view() {
        View view;
        detail::throw_unless_ok(try_take_view(view));
        return view;
    }
    Status try_take_view(View& view) noexcept {
        const void* payload = nullptr;
        std::size_t bytes = 0;
        const Status status = detail::from_c(coppice_request_view(handle_, &payload, &bytes));
        if (status == Status::kOk) {
            view = View(std::exchange(handle_, nullptr), {static_cast<const std::byte*>(payload), bytes});
        }
        return status;
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    coppice_request_t* native() const noexcept { return handle_; }  // stays this object's

  private:
    friend class Group;
    explicit Request(coppice_request_t* handle) noexcept : handle_(handle) {}

    coppice_request_t* handle_ = nullptr;
    std::size_t received_ = 0;
};

// Memory that the group's transports know, until this object goes.
class Registration {
  public:
    Registration() = default;
    Registration(Registration&& other) noexcept
        : group_(std::exchange(other.group_, nullptr)), address_(std::exchange(other.address_, nullptr)) {}
    Registration& operator=(Registration&& other) noexcept {
        Registration taken(std::move(other));
        std::swap(group_, taken.group_);
        std::swap(address_, taken.address_);
        return *this;
    }
    ~Registration() {
        if (group_ != nullptr) static_cast<void>(coppice_memory_deregister(group_, address_));
    }

    explicit operator bool() const noexcept { return group_ != nullptr; }

  private:
    friend class Group;
    Registration(coppice_group_t* group, void* address) noexcept : group_(group), address_(address) {}

    coppice_group_t* group_ = nullptr;
    void* address_ = nullptr;
};

// ------------------------------------------------------------------------------------------- agreement ---

enum class Operation : int {
    kAnd = COPPICE_AND,
    kOr = COPPICE_OR,
    kMin = COPPICE_MIN,
    kMax = COPPICE_MAX,
    kCombine = COPPICE_COMBINE,
};
enum class Type : int {
    kUint8 = COPPICE_UINT8,
    kUint16 = COPPICE_UINT16,
    kUint32 = COPPICE_UINT32,
    kUint64 = COPPICE_UINT64,
    kInt8 = COPPICE_INT8,
    kInt16 = COPPICE_INT16,
    kInt32 = COPPICE_INT32,
    kInt64 = COPPICE_INT64,
};

template <class Number>
concept AgreedNumber = std::integral<Number> && !std::same_as<Number, bool> && sizeof(Number) <= 8;

template <AgreedNumber Number>
constexpr Type type_of() noexcept {
    constexpr int size = sizeof(Number) == 1 ? 0 : sizeof(Number) == 2 ? 1 : sizeof(Number) == 4 ? 2 : 3;
    return static_cast<Type>(size + (std::is_signed_v<Number> ? static_cast<int>(Type::kInt8) : 0));
}

// How values become one. kCombine: a function as coppice_combine_fn says, which must not throw.
struct Combination {
    Operation operation = Operation::kAnd;
    Type type = Type::kUint32;  // kMin and kMax
    coppice_combine_fn combine = nullptr;
    void* combine_argument = nullptr;

    coppice_agree_options_t to_c() const noexcept {
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = static_cast<coppice_operation_t>(operation);
        options.type = static_cast<coppice_type_t>(type);
        options.combine = combine;
        options.combine_argument = combine_argument;
        return options;
    }
};

// ----------------------------------------------------------------------------------------------- group ---

// What is left empty or 0 takes the value of its environment variable, else the default.
struct GroupOptions {
    // An allgather: `mine` in, the same number of bytes of every rank out, in rank order. Returns whether it went well;
    // what it throws comes out of create (try_create: kBootstrap). Called by the creating thread within creation only.
    // Empty: the launcher tells rank and size, and those below are ignored.
    std::function<bool(std::span<const std::byte> mine, std::span<std::byte> all)> exchange = {};
    std::uint32_t rank = 0;
    std::uint32_t size = 0;

    std::string tree = {};        // "binomial", "kary:4", "lame:2", …
    std::string correction = {};  // "optimized:2", "checked", …
    std::string hierarchy = {};   // "host", "flat"
    std::uint32_t window = 0;
    Timeout timeout{0};  // for creation

    // It may ask Group::failed and nothing else of the library, and must not throw; what it throws is dropped. Called once per
    // failed rank, from within any call of the library, or from the progress thread where that was asked for.
    std::function<void(std::uint32_t rank)> on_failure = {};

    // How long the destructor of the group waits for ranks that still need this one's payloads.
    Timeout leave_timeout = std::chrono::seconds(60);

    std::string algorithm = {};  // "tree", "ccg", "bfb", …

    std::string agreement_tree = {};  // "auto", "binomial", "bin/star", …

    std::string switches = {};  // above this host: "pod1/leaf3"
};

// Of a renewal. `most` 0: as many as wait.
struct RenewOptions {
    std::uint32_t least = 0;
    std::uint32_t most = 0;
    bool newcomers_come_last = false;

    coppice_renew_options_t to_c() const noexcept {
        coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
        options.least = least;
        options.most = most;
        if (newcomers_come_last) options.numbering = COPPICE_NUMBERS_LAST;
        return options;
    }
};

struct Membership {
    coppice_view_t view{};
    std::vector<coppice_member_t> members;  // by rank
};

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

    // Zero copy; Request::take_view gives the payload. `payload` is the root's and ignored elsewhere.
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
        const Status status =
            detail::from_c(coppice_group_renew(handle_, &plain, &made.handle_, detail::to_c(timeout)));
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

    // Whether some rank wants to leave, as of the last agreement: the same at all that have returned from it.
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
    };

    static int exchange_trampoline(void* argument, const void* mine, std::size_t bytes, void* all) noexcept {
        const Exchange& exchange = *static_cast<Exchange*>(argument);
        try {
            const bool well = exchange.options.exchange({static_cast<const std::byte*>(mine), bytes},
                                                        {static_cast<std::byte*>(all), bytes * exchange.options.size});
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
        Group made;
        try {
            made.state_.reset(
                new State{options.on_failure, context.native(), options.leave_timeout, std::uncaught_exceptions()});
        } catch (...) {
            thrown = std::current_exception();
            return Status::kNoMemory;
        }
        Exchange exchange{options, thrown};
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
        if (options.on_failure) {
            plain.on_failure = failure_trampoline;
            plain.on_failure_argument = made.state_.get();
        }
        const Status status = detail::from_c(coppice_group_create(context.native(), &plain, &made.handle_));
        if (status == Status::kOk) group = std::move(made);
        return status;
    }

    coppice_group_t* handle_ = nullptr;
    std::shared_ptr<State> state_;  // groups that are shrunk have it too
};

// A shrink or renewal under way. It must be gone, or have ended, before its group is left. One that is destroyed before it has ended goes on
// as after a timeout; a group that nobody has taken is left then.
class Shrinking {
  public:
    Shrinking() = default;
    Shrinking(Shrinking&& other) noexcept
        : place_(std::move(other.place_)),
          request_(std::move(other.request_)),
          made_(std::move(other.made_)),
          has_ended_(std::exchange(other.has_ended_, false)) {}
    Shrinking& operator=(Shrinking&& other) noexcept {
        Shrinking taken(std::move(other));
        std::swap(place_, taken.place_);
        std::swap(request_, taken.request_);
        std::swap(made_, taken.made_);
        std::swap(has_ended_, taken.has_ended_);
        return *this;
    }

    // Whether the group of the survivors is there, to be taken by wait(). Makes progress; throws when there will be none.
    bool test() {
        const Status status = try_test();
        if (status == Status::kInProgress) return false;
        detail::throw_unless_ok(status);
        return true;
    }
    Status try_test() noexcept { return has_ended_ ? Status::kOk : end(request_.try_test()); }

    // The group, once. kTimeout leaves the shrink under way: wait again, or let go of this object.
    Group wait(Timeout timeout = kNoTimeout) {
        Group group;
        detail::throw_unless_ok(try_wait(group, timeout));
        return group;
    }
    Status try_wait(Group& group, Timeout timeout = kNoTimeout) noexcept {
        const Status status = has_ended_ ? Status::kOk : end(request_.try_wait(timeout));
        if (status != Status::kOk) return status;
        group = std::move(made_);
        has_ended_ = false;
        return status;
    }

    // While it is under way, or its group has not been taken.
    explicit operator bool() const noexcept { return static_cast<bool>(request_) || has_ended_; }

  private:
    friend class Group;

    // Where the library stores the new group, and whose callback that has.
    struct Place {
        coppice_group_t* handle;
        std::shared_ptr<Group::State> state;
    };

    Status end(Status status) noexcept {
        if (status != Status::kOk) return status;
        has_ended_ = true;
        made_.handle_ = place_->handle;
        if (made_) made_.state_ = place_->state;
        request_ = Request();
        return status;
    }

    std::unique_ptr<Place> place_;  // outlives the request
    Request request_;
    Group made_;              // empty where this rank has left
    bool has_ended_ = false;  // and has not been taken
};

inline Shrinking Group::shrink_nb() {
    Shrinking shrinking;
    detail::throw_unless_ok(try_shrink_nb(shrinking));
    return shrinking;
}

inline Status Group::try_shrink_nb(Shrinking& shrinking) noexcept {
    return begin(shrinking, [this](coppice_group_t** next, coppice_request_t** request) {
        return coppice_group_shrink_nb(handle_, next, request);
    });
}

inline Shrinking Group::renew_nb(const RenewOptions& options) {
    Shrinking renewing;
    detail::throw_unless_ok(try_renew_nb(renewing, options));
    return renewing;
}

inline Status Group::try_renew_nb(Shrinking& renewing, const RenewOptions& options) noexcept {
    const coppice_renew_options_t plain = options.to_c();
    return begin(renewing, [this, &plain](coppice_group_t** next, coppice_request_t** request) {
        return coppice_group_renew_nb(handle_, &plain, next, request);
    });
}

template <class Begin>
Status Group::begin(Shrinking& shrinking, Begin&& begin) noexcept {
    Shrinking made;
    made.place_.reset(new (std::nothrow) Shrinking::Place{nullptr, state_});
    if (!made.place_) return Status::kNoMemory;
    coppice_request_t* request = nullptr;
    const Status status = detail::from_c(begin(&made.place_->handle, &request));
    if (status != Status::kOk) return status;
    made.request_ = Request(request);
    shrinking = std::move(made);
    return status;
}

}  // namespace v0
}  // namespace coppice
