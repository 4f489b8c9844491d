// The library calls heard() on a thread of its own. What it says is put where each listener's engine takes it, and a descriptor wakes that one.
#include "bootstrap/pmix_reports.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "bootstrap/pmix_caller.hpp"

namespace coppice::bootstrap::pmix {
namespace {

// A server that is asked to tell of events, and says nothing, is done without.
constexpr std::chrono::seconds kAnswerTime{2};
std::array kEvents{int{COPPICE_PMIX_PROC_ABORTED}, int{COPPICE_PMIX_PROC_REQUESTED_ABORT},
                   int{COPPICE_PMIX_PROC_TERM_WO_SYNC}, int{COPPICE_PMIX_PROC_KILLED_BY_CMD},
                   int{COPPICE_PMIX_PROC_ABORTED_BY_SIG}};

class Listener;

// Those of this process. The library's thread may come later than everything else of it: never destroyed.
struct Listeners {
    std::mutex mutex;  // not held while the library is called: its thread takes it
    std::vector<Listener*> all;
};
Listeners& listeners() {
    static auto* const one = new Listeners;
    return *one;
}

// The handler is registered while anybody listens.
struct Registration {
    std::mutex mutex;
    std::uint32_t users = 0;
    std::size_t reference = 0;
};
Registration& registration() {
    static auto* const one = new Registration;
    return *one;
}

class Listener final : public Reports {
  public:
    Listener(const Library& library, const Process& self, std::uint32_t size, int bell)
        : library_(library), self_(self), bell_(bell), told_(size, false) {}
    ~Listener() override;
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    int descriptor() const override { return bell_; }

    std::vector<Rank> take() override {
        std::uint64_t rung = 0;
        if (::read(bell_, &rung, sizeof rung) != sizeof rung) return {};
        const std::lock_guard lock(mutex_);
        return std::exchange(news_, {});
    }

    // On the library's thread. Whatever is said: events may come twice, and name what is none of this job's ranks.
    void note(const Process& process) {
        if (std::strncmp(process.nspace, self_.nspace, sizeof self_.nspace) != 0) return;
        if (process.rank == self_.rank || process.rank >= told_.size()) return;
        const std::lock_guard lock(mutex_);
        if (told_[process.rank]) return;
        news_.emplace_back(process.rank);
        told_[process.rank] = true;
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto rung = ::write(bell_, &one, sizeof one);
    }

    // Registers the handler, unless it is, and has this listener called.
    Result<void> begin();

  private:
    const Library library_;
    const Process self_;
    const int bell_;  // eventfd
    bool begun_ = false;
    std::mutex mutex_;
    std::vector<Rank> news_;
    std::vector<bool> told_;  // by rank
};

void note_all(const Info& info) {
    const Value& value = info.value;
    const Process* processes = nullptr;
    std::size_t count = 0;
    if (std::strncmp(info.key, COPPICE_PMIX_AFFECTED_PROC, sizeof info.key) == 0 && value.type == COPPICE_PMIX_PROC) {
        processes = value.data.process;
        count = 1;
    } else if (std::strncmp(info.key, COPPICE_PMIX_AFFECTED_PROCS, sizeof info.key) == 0 &&
               value.type == COPPICE_PMIX_DATA_ARRAY && value.data.array != nullptr &&
               value.data.array->type == COPPICE_PMIX_PROC) {
        processes = static_cast<const Process*>(value.data.array->items);
        count = value.data.array->size;
    }
    if (processes == nullptr) return;
    Listeners& here = listeners();
    const std::lock_guard lock(here.mutex);
    for (std::size_t i = 0; i < count; ++i)
        for (Listener* const one : here.all)
            one->note(processes[i]);
}

// Called from within foreign code: nothing may be thrown through it. Others that listen in this process, as an MPI, are to hear of it, too.
void heard(std::size_t /*reference*/, int /*event*/, const Process* /*source*/, Info* infos, std::size_t count,
           Info* /*results*/, std::size_t /*result_count*/, coppice_pmix_handled_fn handled, void* argument) {
    try {
        for (std::size_t i = 0; i < count; ++i)
            note_all(infos[i]);
    } catch (const std::bad_alloc&) {
        // The death is found out otherwise, or told again.
    }
    if (handled != nullptr) handled(COPPICE_PMIX_NO_ACTION_TAKEN, nullptr, 0, nullptr, nullptr, argument);
}

// To a registration. It may come after its caller has given up.
struct Answer {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    int status = 0;
    std::size_t reference = 0;
};

void answered(int status, std::size_t reference, void* argument) {
    const std::unique_ptr<std::shared_ptr<Answer>> owned(static_cast<std::shared_ptr<Answer>*>(argument));
    Answer& answer = **owned;
    const std::lock_guard lock(answer.mutex);
    answer.done = true;
    answer.status = status;
    answer.reference = reference;
    answer.changed.notify_all();
}

Result<std::size_t> register_handler(const Library& library) {
    const auto answer = std::make_shared<Answer>();
    auto argument = std::make_unique<std::shared_ptr<Answer>>(answer);
    const int asked =
        library.register_handler(kEvents.data(), kEvents.size(), nullptr, 0, heard, answered, argument.get());
    if (asked != COPPICE_PMIX_SUCCESS)
        return fail(COPPICE_ERR_BOOTSTRAP, "PMIx takes no handler of events: {}", library.error(asked));
    [[maybe_unused]] const auto given_away = argument.release();
    std::unique_lock lock(answer->mutex);
    if (!answer->changed.wait_for(lock, kAnswerTime, [&] { return answer->done; }))
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher's server of PMIx does not answer whether it tells of deaths");
    if (answer->status == COPPICE_PMIX_SUCCESS) return answer->reference;
    return fail(COPPICE_ERR_BOOTSTRAP, "the launcher's server of PMIx does not tell of deaths: {}",
                library.error(answer->status));
}

Result<void> Listener::begin() {
    Registration& one = registration();
    const std::lock_guard lock(one.mutex);
    if (one.users == 0) {
        const auto reference = register_handler(library_);
        if (!reference) return tl::unexpected(reference.error());
        one.reference = *reference;
    }
    const std::lock_guard list_lock(listeners().mutex);
    listeners().all.push_back(this);
    ++one.users;
    begun_ = true;
    return {};
}

// Of one session; `begun`: with a listener.
void end_session(const Library& library, bool begun) {
    if (begun) {
        Registration& one = registration();
        const std::lock_guard lock(one.mutex);
        if (--one.users == 0)
            library.deregister_handler(
                one.reference, [](int, void*) {}, nullptr);
    }
    library.finalize(nullptr, 0);
}

// Both calls may hang. A session that can't be ended because an earlier call hangs is left to the process's end.
void end_session_in_time(const Library& library, bool begun) try {
    if (Caller::is_this_thread()) return end_session(library, begun);
    const auto end = [library, begun] { end_session(library, begun); };
    const auto caller = Caller::start(now_ns() + Caller::kLeast, end);
    if (caller) return (*caller)->goodbye(now_ns() + Caller::kLeast);
    if (caller.error().status == COPPICE_ERR_NO_RESOURCES) end_session(library, begun);
} catch (const std::bad_alloc&) {
    end_session(library, begun);
}

Listener::~Listener() {
    {
        const std::lock_guard lock(listeners().mutex);
        std::erase(listeners().all, this);
    }
    end_session_in_time(library_, begun_);
    process::close_own(bell_);
}

}  // namespace

Result<std::unique_ptr<Reports>> listen(const Library& library, const Process& self, std::uint32_t size) {
    if (library.register_handler == nullptr) return fail(COPPICE_ERR_BOOTSTRAP, "{} has no events", library.version());
    const int bell = process::open_own([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
    if (bell < 0) return fail(COPPICE_ERR_BOOTSTRAP, "no descriptor to be woken by: {}", std::strerror(errno));
    Process again{};
    if (const int status = library.init(&again, nullptr, 0); status != COPPICE_PMIX_SUCCESS) {
        process::close_own(bell);
        return fail(COPPICE_ERR_BOOTSTRAP, "PMIx keeps no session: {}", library.error(status));
    }
    auto made = std::make_unique<Listener>(library, self, size, bell);
    if (auto begun = made->begin(); !begun) return tl::unexpected(std::move(begun.error()));
    return std::unique_ptr<Reports>(std::move(made));
}

}  // namespace coppice::bootstrap::pmix
