#include "perf/shrink.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "perf/phases.hpp"
#include "perf/session.hpp"

namespace perf {

namespace {

constexpr std::uint64_t kShareLimit = std::uint64_t{4} << 30;  // bytes of time stamps and sizes

// What one rank writes for the others to read: the group that each shrink gave it.
struct Made {
    std::uint32_t size = 0;  // 0: none
    std::uint32_t place = 0;
};

Made* made_by(measure_area_t* area, std::uint32_t rank) {
    return static_cast<Made*>(measure_own(area, rank));
}

class ShrinkRun {
  public:
    ShrinkRun(Session& session, const GroupSettings& /*group*/, const ShrinkSettings& settings)
        : session_(session), settings_(settings), all_(settings.warmup + settings.iterations) {}
    ~ShrinkRun() {
        if (group_ != nullptr) coppice_group_destroy(group_, 0);
    }
    ShrinkRun(const ShrinkRun&) = delete;
    ShrinkRun& operator=(const ShrinkRun&) = delete;

    std::optional<Failure> check() const;
    std::optional<Failure> execute();
    bool clean() const { return clean_; }

  private:
    coppice_group_t* current() const { return group_ != nullptr ? group_ : session_.group(); }
    std::optional<Failure> one_shrink(std::uint64_t number, measure_stamp_t& stamp);
    std::optional<Failure> lose_victims();
    void report();
    void show_figures();
    void compare();

    Session& session_;
    const ShrinkSettings& settings_;
    std::uint64_t all_;                 // with those before the measured ones
    std::uint64_t measured_ = 0;        // how many there were
    coppice_group_t* group_ = nullptr;  // the newest; null: the session's
    nlohmann::json json_;
    bool clean_ = true;
};

std::optional<Failure> ShrinkRun::check() const {
    const auto usage = [](std::string message) { return Failure{kExitUsage, std::move(message)}; };
    for (const std::uint32_t rank : settings_.victims) {
        if (rank >= session_.ranks()) {
            return usage(fmt::format("--victims {}: there are {} ranks", rank, session_.ranks()));
        }
    }
    const std::uint64_t most = kShareLimit / (sizeof(measure_stamp_t) + sizeof(Made)) / session_.ranks();
    if (all_ > most) return usage(fmt::format("-n {}: at {} ranks at most {} fit", all_, session_.ranks(), most));
    return std::nullopt;
}

// An agreement finds them out: what is measured afterwards is the shrink alone.
std::optional<Failure> ShrinkRun::lose_victims() {
    if (std::ranges::count(settings_.victims, session_.rank()) > 0) {
        while (true)
            kill(getpid(), SIGKILL);
    }
    if (settings_.victims.empty()) return std::nullopt;
    std::uint64_t value = 0;
    const coppice_status_t status = coppice_agree(current(), &value, sizeof value, nullptr, session_.timeout_ns());
    if (status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED) return std::nullopt;
    return library_failure("the agreement that finds the victims", status);
}

std::optional<Failure> ShrinkRun::one_shrink(std::uint64_t number, measure_stamp_t& stamp) {
    if (number == settings_.warmup + settings_.at) {
        if (auto failure = lose_victims()) return failure;
    }
    if (auto failure = session_.barrier()) return failure;
    coppice_group_t* next = nullptr;
    stamp.start = measure_now();
    coppice_status_t status = coppice_group_shrink(current(), &next, session_.timeout_ns());
    stamp.end = measure_now();
    if (status != COPPICE_OK) return library_failure(fmt::format("shrink {}", number), status);
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    status = coppice_group_query(next, &info);
    if (status != COPPICE_OK) return library_failure("group", status);
    made_by(session_.area(), session_.rank())[number] = {info.size, info.rank};
    // The session's own group stays: it tells the barrier of deaths.
    coppice_group_t* const old = std::exchange(group_, next);
    if (old != nullptr) status = coppice_group_destroy(old, session_.timeout_ns());
    if (status != COPPICE_OK) return library_failure("leaving the group that was shrunk", status);
    return std::nullopt;
}

std::optional<Failure> ShrinkRun::execute() {
    if (auto failure = session_.share(settings_.iterations, all_ * sizeof(Made))) return failure;
    std::fill_n(made_by(session_.area(), session_.rank()), all_, Made{});
    const Rounds rounds{
        .warmup = settings_.warmup,
        .count = all_,
        .for_s = settings_.for_s,
        .done =
            [this](std::uint64_t count) {
                all_ = count;
                measured_ = count - settings_.warmup;
            },
        .once = [this](std::uint64_t number, measure_stamp_t& stamp) { return one_shrink(number, stamp); },
        .has_ended = [this](std::uint32_t rank) { return made_by(session_.area(), rank)[all_ - 1].size != 0; },
        .report =
            [this] {
                report();
                return json_;
            },
        .file = settings_.json_file,
    };
    if (auto failure = measure_rounds(session_, rounds)) return failure;
    const coppice_status_t status = coppice_group_destroy(std::exchange(group_, nullptr), session_.timeout_ns());
    if (status != COPPICE_OK) return library_failure("leaving the last group", status);
    return std::nullopt;
}

// A shrink leaves somebody out when its group is smaller than the one before.
void ShrinkRun::show_figures() {
    const Made* const made = made_by(session_.area(), session_.rank());
    enum Phase : std::uint8_t { failure_free, after_death, post_failure };
    constexpr const char* kNames[] = {"failure-free", "after-death", "post-failure"};
    std::vector<std::uint64_t> which[3];
    std::uint32_t size = settings_.warmup == 0 ? session_.ranks() : made[settings_.warmup - 1].size;
    for (std::uint64_t i = 0; i < measured_; ++i) {
        const std::uint32_t now = made[settings_.warmup + i].size;
        const Phase phase = now < size ? after_death : now < session_.ranks() ? post_failure : failure_free;
        which[phase].push_back(i);
        size = now;
    }
    fmt::print("{}\n", MEASURE_HEADINGS);
    for (const Phase phase : {failure_free, after_death, post_failure}) {
        auto figures = show_phase(session_, kNames[phase], "shrinks", 0, which[phase]);
        if (!figures.is_null()) json_["phases"].push_back(std::move(figures));
    }
}

// Survivors are in groups of one size, in the order of their ranks.
void ShrinkRun::compare() {
    std::uint64_t disagreed = 0, survivors = 0;
    for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank)
        survivors += session_.is_dead(rank) ? 0 : 1;
    for (std::uint64_t number = 0; number < all_; ++number) {
        Made before;
        bool same = true;
        for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
            if (session_.is_dead(rank)) continue;
            const Made mine = made_by(session_.area(), rank)[number];
            same = same && mine.size >= survivors && mine.place < mine.size;
            same = same && (before.size == 0 || (mine.size == before.size && mine.place > before.place));
            before = mine;
        }
        disagreed += !same;
    }
    fmt::print("{}\n", session_.losses([](std::uint32_t) { return true; }));
    fmt::print("{} shrinks at {} survivors, size and order of each group compared\n", all_, survivors);
    fmt::print("disagreed {}\n", disagreed);
    clean_ = disagreed == 0;
    json_["survivors"] = survivors;
    json_["disagreed"] = disagreed;
}

// By the lowest survivor.
void ShrinkRun::report() {
    json_ = {{"benchmark", "shrink"},
             {"version", coppice_version()},
             {"ranks", session_.ranks()},
             {"positions", session_.info().hosts},
             {"unit", "us"},
             {"phases", nlohmann::json::array()}};
    fmt::print("# coppice {} shrink: {} ranks, {} positions\n", coppice_version(), session_.ranks(),
               session_.info().hosts);
    fmt::print("# the last rank's call -> the last survivor has the new group\n");
    show_figures();
    compare();
    std::fflush(stdout);
}

}  // namespace

int run_shrink(const GroupSettings& group, const ShrinkSettings& settings) {
    return measure_in_session<ShrinkRun>(group, settings);
}

}  // namespace perf
