#include "perf/session.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace perf {

namespace {

constexpr std::uint64_t kNoticeLimit = 5'000'000'000;  // ns that a report waits for late notices of deaths

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

}  // namespace

Failure library_failure(const std::string& what, coppice_status_t status) {
    const bool usage =
        status == COPPICE_ERR_CONFIG || status == COPPICE_ERR_INVALID_ARGUMENT || status == COPPICE_ERR_OUT_OF_RANGE;
    return {usage ? kExitUsage : kExitFailed,
            fmt::format("{}: {}: {}", what, coppice_status_string(status), coppice_last_error())};
}

int complain(std::uint32_t rank, const Failure& failure) {
    fmt::print(stderr, "coppice-perf: rank {}: {}\n", rank, failure.message);
    return failure.exit_code;
}

int complain_unless_known(const Failure& failure) {
    const char* rank = std::getenv("COPPICE_RANK");
    if (failure.exit_code != kExitUsage || rank == nullptr || std::string_view(rank) == "0")
        fmt::print(stderr, "coppice-perf: {}\n", failure.message);
    return failure.exit_code;
}

Session::~Session() {
    if (group_ != nullptr) coppice_group_destroy(group_, 0);
    if (context_ != nullptr) coppice_context_destroy(context_);
}

std::optional<Failure> Session::open(const GroupSettings& settings) {
    timeout_ns_ = static_cast<std::uint64_t>(settings.timeout_s * 1e9);
    coppice_status_t status = coppice_context_create(nullptr, &context_);
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
    if (rank() == 0) {
        area = measure_create(ranks(), iterations, own_bytes, ticket.path);
        if (area != nullptr) ticket.nonce = area->nonce;
    }
    // A ticket without a path tells the others that rank 0 has none, so that nobody waits for anybody.
    const coppice_status_t status = coppice_broadcast(group_, &ticket, sizeof ticket, 0, nullptr, timeout_ns_);
    if (status != COPPICE_OK) return library_failure("sharing memory for the time stamps", status);
    ticket.path[MEASURE_PATH - 1] = '\0';
    if (rank() != 0) area = measure_open(ticket.path, ticket.nonce, ranks(), iterations, own_bytes);
    if (area == nullptr) {
        const double mebibytes =
            static_cast<double>(measure_area_bytes(ranks(), iterations, own_bytes)) / (1024.0 * 1024.0);
        return Failure{kExitFailed,
                       fmt::format("no {:.0f} MiB of shared memory with rank 0 for the time stamps: ask for fewer "
                                   "iterations (-n), or run all ranks on one machine",
                                   mebibytes)};
    }
    measure_clear_row(area, rank());
    crew_ = measure_join(area, rank());
    crew_.dead = dead_.data();
    crew_.idle = idle;
    crew_.idle_argument = this;
    return barrier();
}

std::optional<Failure> Session::close() {
    coppice_status_t status = coppice_group_destroy(group_, timeout_ns_);
    group_ = nullptr;
    if (status != COPPICE_OK) return library_failure("leaving the group", status);
    status = coppice_context_destroy(context_);
    context_ = nullptr;
    if (status != COPPICE_OK) return library_failure("context", status);
    return std::nullopt;
}

std::optional<Failure> Session::barrier(const std::function<void()>& action) {
    wait_deadline_ns_ = measure_now() + timeout_ns_;
    const auto run = [](void* argument) { (*static_cast<const std::function<void()>*>(argument))(); };
    void* argument = const_cast<void*>(static_cast<const void*>(&action));
    if (measure_barrier(&crew_, action ? +run : nullptr, argument) == 0) return std::nullopt;
    if (progress_status_ != COPPICE_OK) return library_failure("progress", progress_status_);
    return Failure{kExitFailed, fmt::format("nothing moved for {:.0f} s while waiting for {}",
                                            static_cast<double>(timeout_ns_) / 1e9, missing())};
}

std::optional<Failure> Session::wait_until(const char* what, const std::function<bool()>& condition) {
    wait_deadline_ns_ = measure_now() + timeout_ns_;
    while (!condition()) {
        if (idle(this) != 0) {
            return Failure{kExitFailed,
                           fmt::format("waited {:.0f} s in vain for {}", static_cast<double>(timeout_ns_) / 1e9, what)};
        }
        sched_yield();
    }
    return std::nullopt;
}

std::optional<Failure> Session::wait_for_notices(const std::function<bool()>& known) {
    const std::uint64_t limit = measure_now() + kNoticeLimit;
    return wait_until("notices", [&] { return known() || measure_now() > limit; });
}

void Session::mark_dead(std::uint32_t rank) {
    if (rank >= MEASURE_MAX_RANKS || is_dead(rank)) return;
    __atomic_store_n(&noticed_[rank], measure_now(), __ATOMIC_RELEASE);
    __atomic_store_n(&dead_[rank], std::uint8_t{1}, __ATOMIC_RELEASE);
}

void Session::on_failure(void* session, coppice_group_t*, std::uint32_t rank) {
    static_cast<Session*>(session)->mark_dead(rank);
}

int Session::idle(void* session) {
    auto& self = *static_cast<Session*>(session);
    self.progress_status_ = coppice_progress(self.context_);
    return self.progress_status_ != COPPICE_OK || measure_now() > self.wait_deadline_ns_;
}

std::string Session::missing() const {
    std::string names;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        if (is_dead(rank) || measure_has_arrived(&crew_, rank)) continue;
        names += fmt::format("{}{}", names.empty() ? "rank " : ", ", rank);
    }
    return names.empty() ? "the leader's word" : names;
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
