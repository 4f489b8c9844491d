#include "perf/session.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace perf {

namespace {

constexpr std::uint64_t kNoticeLimit = 5'000'000'000;  // ns that a report waits for late notices of deaths
// ns after which a side that lives, but never holds this one for dead, is gone on without.
constexpr std::uint64_t kDoubtLimit = 10'000'000'000;
// ns for which a process whose death was noticed may still look alive.
constexpr std::uint64_t kDying = 500'000'000;
// ns between two calls while waiting for others, and while waiting for what the library knows; and between two looks at other processes.
// Calls that only ask make none.
constexpr std::uint64_t kHearEvery = 100'000'000;
constexpr std::uint64_t kAskEvery = 1'000'000;
constexpr std::uint64_t kLookEvery = 100'000;

struct Ticket {
    char path[MEASURE_PATH] = {};
    std::uint64_t nonce = 0;
};

coppice_group_options_t group_options(const GroupSettings& settings) {
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    const auto text = [](const std::string& value) { return value.empty() ? nullptr : value.c_str(); };
    options.tree = text(settings.tree);
    options.algorithm = text(settings.algorithm);
    options.correction = text(settings.correction);
    options.hierarchy = text(settings.hierarchy);
    options.agreement_tree = text(settings.agreement_tree);
    options.window = settings.window;
    return options;
}

// Neither gone nor a zombie. (A process may go between opening and reading; a stream would throw then.)
bool is_running(std::uint64_t pid) {
    std::FILE* const file = std::fopen(fmt::format("/proc/{}/stat", pid).c_str(), "re");
    if (file == nullptr) return false;
    std::string text(1024, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
    const char state = text[name_end + 2];
    return state != 'Z' && state != 'X';
}

}  // namespace

// What each rank tells the others beside its time stamps; of its own, behind the caller's part.
struct Session::Standing {
    std::uint64_t pid = 0;
    std::uint64_t silent = 0;                               // it will not hold anybody for dead any more
    std::uint64_t done = 0;                                 // it has come to its end
    std::uint64_t parted = 0;                               // which is that the others go on without it
    std::uint64_t holds_dead[MEASURE_MAX_RANKS / 64] = {};  // a bit for each rank
    std::uint64_t stop_at = 0;  // at rank 0's: the first operation that is not done any more; 0: not known yet
};

Session::Standing& Session::standing(std::uint32_t rank) const {
    return *reinterpret_cast<Standing*>(static_cast<char*>(measure_own(area(), rank)) + standing_at_);
}

Session::~Session() {
    if (group_ != nullptr) coppice_group_destroy(group_, 0);
    if (context_ != nullptr) coppice_context_destroy(context_);
}

std::optional<Failure> Session::open(const GroupSettings& settings) {
    timeout_ns_ = static_cast<std::uint64_t>(settings.timeout_s * 1e9);
    coppice_context_options_t context_options = COPPICE_CONTEXT_OPTIONS_INIT;
    if (settings.without_thread) context_options.progress_thread = -1;
    polls_ = settings.without_thread || has_no_thread();
    coppice_status_t status = coppice_context_create(&context_options, &context_);
    if (status != COPPICE_OK) return library_failure("context", status);
    coppice_group_options_t options = group_options(settings);
    options.on_failure = on_failure;
    options.on_failure_argument = this;
    status = coppice_group_create(context_, &options, &group_);
    if (status != COPPICE_OK) return library_failure("group", status);
    info_.struct_size = sizeof info_;
    status = coppice_group_query(group_, &info_);
    if (status != COPPICE_OK) return library_failure("group", status);
    if (info_.size > MEASURE_MAX_RANKS) {
        return Failure{kExitFailed, fmt::format("{} ranks; coppice-perf measures up to {}", info_.size,
                                                static_cast<int>(MEASURE_MAX_RANKS))};
    }
    learn_failures();
    return std::nullopt;
}

void Session::learn_failures() {
    std::vector<std::uint32_t> failed(info_.size);
    std::size_t count = 0;
    if (coppice_group_failed(group_, failed.data(), failed.size(), &count) != COPPICE_OK) return;
    for (std::size_t i = 0; i < count; ++i)
        mark_dead(failed[i]);
}

std::optional<Failure> Session::share(std::uint64_t iterations, std::uint64_t own_bytes) {
    Ticket ticket;
    measure_area_t* area = nullptr;
    standing_at_ = (own_bytes + alignof(Standing) - 1) / alignof(Standing) * alignof(Standing);
    own_bytes = standing_at_ + sizeof(Standing);
    std::uint32_t owner = 0;
    bool all = false;
    for (;; ++owner) {  // the lowest rank that lives until all have opened its memory
        if (rank() == owner) {
            area = measure_create(ranks(), iterations, own_bytes, ticket.path);
            if (area != nullptr) ticket.nonce = area->nonce;
        }
        // A ticket without a path tells the others that the owner has none, so that nobody waits for anybody.
        const coppice_status_t status = coppice_broadcast(group_, &ticket, sizeof ticket, owner, nullptr, timeout_ns_);
        const bool is_last = owner + 1 == ranks();
        if (status == COPPICE_ERR_ROOT_FAILED && !is_last) continue;
        if (status != COPPICE_OK) return library_failure("sharing memory for the time stamps", status);
        ticket.path[MEASURE_PATH - 1] = '\0';
        if (rank() != owner) area = measure_open(ticket.path, ticket.nonce, ranks(), iterations, own_bytes);
        if (ticket.nonce == 0) break;
        bool owner_lives = true;
        if (auto failure = share_with_all(area != nullptr, owner, all, owner_lives)) return failure;
        // An owner that died after it had agreed is found by the next agreement.
        if (!all && owner_lives) {
            if (auto failure = share_with_all(area != nullptr, owner, all, owner_lives)) return failure;
        }
        if (all || owner_lives || is_last) break;
        ticket = Ticket();
    }
    apart_ = info_.hosts > 1 && ticket.nonce != 0 && !all;
    if (apart_) area = measure_create(ranks(), iterations, own_bytes, nullptr);
    if (area == nullptr) {
        const double mebibytes =
            static_cast<double>(measure_area_bytes(ranks(), iterations, own_bytes)) / (1024.0 * 1024.0);
        return Failure{kExitFailed,
                       fmt::format("no {:.0f} MiB of shared memory with rank {} for the time stamps: ask for fewer "
                                   "iterations (-n), or run all ranks on one machine",
                                   mebibytes, owner)};
    }
    measure_clear_row(area, rank());
    crew_ = measure_join(area, rank());
    standing(rank()).pid = static_cast<std::uint64_t>(getpid());
    crew_.dead = gone_.data();
    crew_.idle = idle;
    crew_.idle_argument = this;
    if (apart_ && rank() == 0)
        fmt::print("# ranks on several machines, whose clocks differ: a time is the longest of all ranks' own calls\n");
    return barrier();
}

std::optional<Failure> Session::close() {
    if (area() != nullptr) __atomic_store_n(&standing(rank()).done, 1, __ATOMIC_RELEASE);
    coppice_status_t status = coppice_group_destroy(group_, timeout_ns_);
    group_ = nullptr;
    if (status != COPPICE_OK) return library_failure("leaving the group", status);
    status = coppice_context_destroy(context_);
    context_ = nullptr;
    if (status != COPPICE_OK) return library_failure("context", status);
    return std::nullopt;
}

std::optional<Failure> Session::barrier(const std::function<void()>& action) {
    if (apart_) return barrier_apart(action);
    if (auto failure = parted()) return failure;
    wait_deadline_ns_ = measure_now() + timeout_ns_;
    const auto run = [](void* argument) { (*static_cast<const std::function<void()>*>(argument))(); };
    void* argument = const_cast<void*>(static_cast<const void*>(&action));
    if (measure_barrier(&crew_, action ? +run : nullptr, argument) == 0) {
        together_ns_ = measure_now();
        return std::nullopt;
    }
    if (auto failure = parted()) return failure;
    if (idle_status_ != COPPICE_OK) return library_failure("waiting", idle_status_);
    return Failure{kExitFailed, fmt::format("nothing moved for {:.0f} s while waiting for {}",
                                            static_cast<double>(timeout_ns_) / 1e9, missing())};
}

std::optional<Failure> Session::wait_until(const char* what, const std::function<bool()>& condition) {
    wait_deadline_ns_ = measure_now() + timeout_ns_;
    while (!condition()) {
        if (idle(this) != 0) {
            if (auto failure = parted()) return failure;
            return Failure{kExitFailed,
                           fmt::format("waited {:.0f} s in vain for {}", static_cast<double>(timeout_ns_) / 1e9, what)};
        }
        sched_yield();
    }
    return std::nullopt;
}

std::optional<Failure> Session::wait_for_notices(const std::function<bool()>& known) {
    const std::uint64_t limit = measure_now() + kNoticeLimit;
    asks_ = true;
    auto failure = wait_until("notices", [&] { return (known() && knows_the_ended()) || measure_now() > limit; });
    asks_ = false;
    return failure;
}

// Of a rank that a barrier went on without because its process has ended.
bool Session::knows_the_ended() const {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank)
        if (is_gone(rank) && !is_dead(rank) && !has_ended(rank)) return false;
    return true;
}

void Session::mark_dead(std::uint32_t rank) {
    if (rank >= MEASURE_MAX_RANKS || is_dead(rank)) return;
    __atomic_store_n(&noticed_[rank], measure_now(), __ATOMIC_RELEASE);
    __atomic_store_n(&dead_[rank], std::uint8_t{1}, __ATOMIC_RELEASE);
    __atomic_fetch_add(&deaths_, 1, __ATOMIC_RELEASE);
}

void Session::on_failure(void* session, coppice_group_t*, std::uint32_t rank) {
    static_cast<Session*>(session)->mark_dead(rank);
}

// A rank that waits for the others makes no progress for the library, as little as a program that waits elsewhere does. It sees by
// itself which processes have ended. Of the deaths of others, which a network has cut off, it hears in a call that tells of what the
// library knows, and makes no progress. Where there is no thread that makes it, this rank owes it now and then.
int Session::idle(void* session) {
    auto& self = *static_cast<Session*>(session);
    const std::uint64_t now = measure_now();
    self.look_at_one(now);
    if (now - self.called_ns_ >= (self.asks_ ? kAskEvery : kHearEvery)) {
        self.called_ns_ = now;
        self.idle_status_ = self.asks_ || self.polls_ ? coppice_progress(self.context_) : self.hear();
    }
    self.judge();
    return self.parted_ || self.idle_status_ != COPPICE_OK || measure_now() > self.wait_deadline_ns_;
}

// Failure callbacks that are due run in any call.
coppice_status_t Session::hear() {
    coppice_group_counts_t counts{};
    counts.struct_size = sizeof counts;
    return coppice_group_count(group_, &counts);
}

// One rank after the other is looked at, whether its process has ended.
void Session::look_at_one(std::uint64_t now) {
    if (area() == nullptr || apart_ || now - looked_ns_ < kLookEvery) return;
    looked_ns_ = now;
    looked_at_ = (looked_at_ + 1) % ranks();
    if (is_gone(looked_at_) || standing(looked_at_).pid == 0 || is_running(standing(looked_at_).pid)) return;
    ended_[looked_at_] = 1;
    __atomic_store_n(&gone_[looked_at_], std::uint8_t{1}, __ATOMIC_RELEASE);
}

bool Session::holds_dead(std::uint32_t witness, std::uint32_t rank) const {
    return (__atomic_load_n(&standing(witness).holds_dead[rank / 64], __ATOMIC_ACQUIRE) >> (rank % 64) & 1) != 0;
}

bool Session::has_ended(std::uint32_t rank) const {
    return __atomic_load_n(&standing(rank).done, __ATOMIC_ACQUIRE) != 0;
}

// Of the ranks that are dead to us, or to which we are dead: one that lives, or has come to its end.
bool Session::is_other_side(std::uint32_t rank) const {
    if (!is_dead(rank) && !holds_dead(rank, this->rank())) return false;
    const Standing& other = standing(rank);
    const bool lives = __atomic_load_n(&other.silent, __ATOMIC_ACQUIRE) == 0 && is_running(other.pid);
    return lives || has_ended(rank);  // looked at last: it may come to its end meanwhile
}

// Goes on without those that it was told are dead, unless that is for them to do.
void Session::judge() {
    if (parted_ || apart_ || area() == nullptr) return;
    const std::uint32_t deaths = __atomic_load_n(&deaths_, __ATOMIC_ACQUIRE);
    bool news = deaths != judged_;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        if (is_dead(rank)) {
            __atomic_fetch_or(&standing(this->rank()).holds_dead[rank / 64], std::uint64_t{1} << (rank % 64),
                              __ATOMIC_RELEASE);
        }
        news = news || holds_dead(rank, this->rank());
    }
    if (!news) return;
    std::vector<std::uint32_t> ours, others;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        if (is_other_side(rank)) {
            others.push_back(rank);
        } else if (!is_dead(rank)) {
            ours.push_back(rank);
        }
    }
    const std::uint64_t now = measure_now();
    if (doubt_ns_ == 0) doubt_ns_ = now;
    const auto all = [](const std::vector<std::uint32_t>& ranks, const auto& holds) {
        return std::all_of(ranks.begin(), ranks.end(), holds);
    };
    // Notices come one by one: our side is only known when all of it see the same others.
    const bool clear = all(ours, [&](std::uint32_t rank) {
        return all(others, [&](std::uint32_t other) { return rank == this->rank() || holds_dead(rank, other); });
    });
    if (!others.empty() && (ours.size() < others.size() || (ours.size() == others.size() && ours[0] > others[0]))) {
        const auto is_taken_for_dead = [&](std::uint32_t rank) {
            return std::any_of(others.begin(), others.end(),
                               [&](std::uint32_t other) { return holds_dead(other, rank); });
        };
        // The others' notices come one by one, too: a rank of ours is one that they hold for dead.
        const bool all_known = all(ours, [&](std::uint32_t rank) {
            return is_taken_for_dead(rank) || has_ended(rank) || !is_running(standing(rank).pid);
        });
        parted_ = is_taken_for_dead(this->rank()) && (all_known || now >= doubt_ns_ + kDoubtLimit);
        if (parted_ || now < doubt_ns_ + kDoubtLimit) return;
    }
    if (!clear && now < doubt_ns_ + kDoubtLimit) return;
    // A process that dies is known to be dead a moment before it stops running.
    const bool may_be_dying = std::any_of(others.begin(), others.end(), [&](std::uint32_t other) {
        return is_dead(other) && !has_ended(other) && now < noticed(other) + kDying;
    });
    if (may_be_dying || deaths == judged_) return;
    doubt_ns_ = 0;
    judged_ = deaths;
    for (const std::uint32_t rank : others)
        cut_off_[rank] = 1;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank)
        __atomic_store_n(&gone_[rank], static_cast<std::uint8_t>(is_dead(rank) || ended_[rank] != 0), __ATOMIC_RELEASE);
}

std::optional<Failure> Session::parted() {
    if (apart_) return parted_apart();
    judge();
    if (!parted_) return std::nullopt;
    __atomic_store_n(&standing(rank()).parted, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&standing(rank()).done, 1, __ATOMIC_RELEASE);
    std::string names;
    std::uint64_t noticed_ns = UINT64_MAX;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        if (is_dead(rank)) noticed_ns = std::min(noticed_ns, noticed(rank));
        // One of our own side that has given up before us looks dead, too.
        const bool has_parted = __atomic_load_n(&standing(rank).parted, __ATOMIC_ACQUIRE) != 0;
        if (is_other_side(rank) && !has_parted) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
    }
    if (noticed_ns == UINT64_MAX) noticed_ns = measure_now();
    const double since = noticed_ns > together_ns_ ? static_cast<double>(noticed_ns - together_ns_) / 1e9 : 0;
    return Failure{kExitCutOff,
                   fmt::format("cut off from rank {}, whose side goes on without this one; noticed {:.1f} s "
                               "after the last barrier",
                               names, since)};
}

void Session::fall_silent() {
    __atomic_store_n(&standing(rank()).silent, 1, __ATOMIC_RELEASE);
}

std::string Session::losses(const std::function<bool(std::uint32_t)>& died_in_run) const {
    std::uint32_t died = 0, cut_off = 0;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        if (!is_dead(rank) || !died_in_run(rank)) continue;
        ++(is_cut_off(rank) ? cut_off : died);
    }
    if (cut_off == 0) return fmt::format("{} of {} ranks died", died, ranks());
    return fmt::format("{} of {} ranks died, {} lost: cut off, and still alive", died, ranks(), cut_off);
}

void Session::limit(double seconds) {
    is_over_ = false;
    end_ns_ = seconds > 0 ? measure_now() + static_cast<std::uint64_t>(seconds * 1e9) : 0;
}

bool Session::over(std::uint64_t number, std::uint64_t ahead) {
    if (end_ns_ == 0) return false;
    if (apart_) return over_apart(number);
    // The rank that first finds that time is over names an operation that none can have started yet.
    std::uint64_t& stop_at = standing(0).stop_at;
    std::uint64_t stop = __atomic_load_n(&stop_at, __ATOMIC_ACQUIRE);
    if (stop == 0 && measure_now() >= end_ns_) {
        const std::uint64_t wish = number + ahead + 1;
        if (__atomic_compare_exchange_n(&stop_at, &stop, wish, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) stop = wish;
    }
    return stop != 0 && number >= stop;
}

void Session::forget_limit() {
    __atomic_store_n(&standing(0).stop_at, 0, __ATOMIC_RELEASE);
}

std::string Session::missing() const {
    std::string names;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        if (is_dead(rank) || measure_has_arrived(&crew_, rank)) continue;
        names += fmt::format("{}{}", names.empty() ? "rank " : ", ", rank);
    }
    return names.empty() ? "the leader's word" : names;
}

bool has_no_thread() {
    const char* const thread = std::getenv("COPPICE_PROGRESS_THREAD");
    return thread != nullptr && std::string_view(thread) == "0";
}

std::optional<Failure> check_settings(const GroupSettings& settings) {
    coppice_context_options_t context_options = COPPICE_CONTEXT_OPTIONS_INIT;
    context_options.transports = "shm";
    coppice_context_t* context = nullptr;
    coppice_status_t status = coppice_context_create(&context_options, &context);
    if (status != COPPICE_OK) return library_failure("context", status);
    coppice_group_options_t options = group_options(settings);
    options.size = 1;
    options.exchange = [](void*, const void* mine, std::size_t bytes, void* all) {
        std::memcpy(all, mine, bytes);
        return 0;
    };
    coppice_group_t* group = nullptr;
    status = coppice_group_create(context, &options, &group);
    std::optional<Failure> failure;
    if (status != COPPICE_OK) failure = library_failure("group", status);
    if (group != nullptr) coppice_group_destroy(group, 1'000'000'000);
    coppice_context_destroy(context);
    return failure;
}

}  // namespace perf
