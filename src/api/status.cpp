#include "api/api.hpp"

#include <array>
#include <mutex>

#include "engine/collectives/agreement/agreements.hpp"

namespace {

// A thread's objects end before those of the program: a group that is destroyed by a static destructor comes later.
thread_local bool last_error_is_gone = false;

struct LastError {
    LastError() = default;
    LastError(const LastError&) = delete;
    LastError& operator=(const LastError&) = delete;
    ~LastError() { last_error_is_gone = true; }

    std::string sentence;
    // Of an agreement, until its sentence is made.
    coppice::Sequence agreement;
    std::shared_ptr<const coppice::protocol::FailedSet> failed;
};

// This thread's; null when the thread is about to end.
LastError* last_error() {
    if (last_error_is_gone) return nullptr;
    thread_local LastError error;
    return &error;
}

}  // namespace

namespace coppice::api {

coppice_status_t remember(coppice_status_t status, std::string message) noexcept {
    if (LastError* const error = last_error()) {
        error->sentence = std::move(message);
        error->failed.reset();
    }
    return status;
}

coppice_status_t remember_unacknowledged(const engine::Request& agreement) noexcept {
    if (LastError* const error = last_error()) {
        error->agreement = agreement.sequence;
        error->failed = agreement.agreed;
    }
    return agreement.status;
}

coppice_status_t null_argument(const char* call, const char* argument) noexcept {
    return caught(
        [&] { return remember(COPPICE_ERR_INVALID_ARGUMENT, fmt::format("{}: {} is NULL", call, argument)); });
}

coppice_status_t no_group(const char* call, const coppice_group* group) noexcept {
    if (group == nullptr) return null_argument(call, "group");
    return caught(
        [&] { return remember(COPPICE_ERR_INVALID_ARGUMENT, fmt::format("{}: this group has been destroyed", call)); });
}

coppice_status_t no_request(const char* call, const coppice_request_t* request) noexcept {
    if (request == nullptr) return null_argument(call, "request");
    return caught(
        [&] { return remember(COPPICE_ERR_INVALID_ARGUMENT, fmt::format("{}: this request has been freed", call)); });
}

coppice_status_t refuse(Callers callers) noexcept {
    if (process::in_forked_child()) {
        return caught([] {
            return remember(
                COPPICE_ERR_FORKED,
                fmt::format("this process was forked from process {}, to which the contexts and groups belong: "
                            "nothing of Coppice can be used here; fork before coppice_context_create, or execute "
                            "another program",
                            process::forked_from()));
        });
    }
    if (callers == Callers::kNoCallbacks && process::in_callback()) {
        return caught([] {
            return remember(COPPICE_ERR_BUSY,
                            "a callback may not call the library (a failure callback may call coppice_group_failed)");
        });
    }
    return COPPICE_OK;
}

void bury(coppice_group* group) {
    constexpr std::size_t kKept = 256;
    static std::mutex mutex;
    static std::array<std::unique_ptr<coppice_group>, kKept> graves;
    static std::size_t next = 0;
    group->context = nullptr;
    const std::scoped_lock lock(mutex);
    graves[next].reset(group);
    next = (next + 1) % kKept;
}

}  // namespace coppice::api

extern "C" {

const char* coppice_last_error(void) {
    LastError* const error = last_error();
    if (error == nullptr) return "this thread has ended: its errors are gone";
    if (error->failed) {
        (void)coppice::api::caught([error] {
            const auto failed = std::exchange(error->failed, nullptr);
            error->sentence = coppice::engine::not_acknowledged(error->agreement, *failed);
            return COPPICE_OK;
        });
    }
    return error->sentence.c_str();
}

const char* coppice_version(void) {
    return COPPICE_VERSION;
}

const char* coppice_status_string(coppice_status_t status) {
    switch (status) {
        case COPPICE_OK:
            return "success";
        case COPPICE_IN_PROGRESS:
            return "the operation is still under way";
        case COPPICE_ERR_INVALID_ARGUMENT:
            return "an argument is not valid";
        case COPPICE_ERR_OUT_OF_RANGE:
            return "a rank, root or size is out of range";
        case COPPICE_ERR_TOO_LARGE:
            return "the payload is larger than one broadcast carries";
        case COPPICE_ERR_TRUNCATED:
            return "the payload is larger than the receive buffer";
        case COPPICE_ERR_TIMEOUT:
            return "the deadline has passed";
        case COPPICE_ERR_ROOT_FAILED:
            return "the root failed and no survivor has its payload";
        case COPPICE_ERR_PEER_FAILED:
            return "a rank failed that was needed";
        case COPPICE_ERR_FENCED:
            return "this rank was taken for dead by the others";
        case COPPICE_ERR_REVOKED:
            return "the group was revoked";
        case COPPICE_ERR_MISMATCH:
            return "ranks disagree about version, settings or arguments";
        case COPPICE_ERR_NO_MEMORY:
            return "out of memory";
        case COPPICE_ERR_NO_RESOURCES:
            return "a resource of the system is exhausted";
        case COPPICE_ERR_NO_TRANSPORT:
            return "no allowed transport reaches a rank";
        case COPPICE_ERR_BOOTSTRAP:
            return "the ranks did not find each other";
        case COPPICE_ERR_BUSY:
            return "the object is in use or the window is full";
        case COPPICE_ERR_CONFIG:
            return "a setting does not parse";
        case COPPICE_ERR_INTERNAL:
            return "internal error";
        case COPPICE_ERR_FORKED:
            return "this process is a forked child";
        case COPPICE_ERR_NO_QUORUM:
            return "too few ranks can be reached to go on without the others";
    }
    return "not a status of Coppice";
}

}  // extern "C"
