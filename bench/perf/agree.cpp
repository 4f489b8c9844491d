#include "perf/agree.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/mix.hpp"
#include "perf/phases.hpp"
#include "perf/session.hpp"

namespace perf {

namespace {

constexpr std::uint64_t kShareLimit = std::uint64_t{4} << 30;  // bytes of time stamps and outcomes

// What one agreement said to one rank.
struct Outcome {
    std::uint64_t digest = 0;  // of the value, the failed set and the status
    std::uint32_t failed = 0;  // how many
    std::uint32_t ended = 0;   // 1 when the rest is there
};

// What one rank writes for the others to read.
struct Own {
    std::uint64_t last_sign = 0;     // CLOCK_MONOTONIC when it was last heard of
    std::uint64_t wrong_values = 0;  // that lack a contribution, or hold one of nobody

    static std::uint64_t bytes(std::uint64_t agreements) { return sizeof(Own) + agreements * sizeof(Outcome); }
    static Own& of(measure_area_t* area, std::uint32_t rank) { return *static_cast<Own*>(measure_own(area, rank)); }
    Outcome* outcomes() { return reinterpret_cast<Outcome*>(this + 1); }
};

enum class Phase : std::uint8_t { failure_free, detecting, stabilizing, post_failure };
constexpr const char* kPhases[] = {"failure-free", "detecting", "stabilizing", "post-failure"};

class AgreeRun {
  public:
    AgreeRun(Session& session, const GroupSettings& group, const AgreeSettings& settings)
        : session_(session), group_(group), settings_(settings), all_(settings.warmup + settings.iterations) {}

    std::optional<Failure> check() const;
    std::optional<Failure> execute();
    bool clean() const { return clean_; }

  private:
    std::optional<Failure> one_agreement(std::uint64_t number, measure_stamp_t& stamp);
    void fill(std::uint64_t number);
    void inspect(std::uint64_t number, coppice_status_t status, Outcome& outcome);
    std::optional<Failure> make_resident() const;
    void keep_quiet(std::uint64_t number) const;
    void report();
    std::vector<Phase> phases(std::uint32_t witness) const;
    void show_figures(const std::vector<Phase>& phases);
    void show_deaths(const std::vector<Phase>& phases);
    void count_disagreements();
    bool is_victim(std::uint32_t rank) const {
        return std::find(settings_.victims.begin(), settings_.victims.end(), rank) != settings_.victims.end();
    }

    Session& session_;
    const GroupSettings& group_;
    const AgreeSettings& settings_;
    std::uint64_t all_;           // with those before the measured ones
    std::uint64_t measured_ = 0;  // how many there were
    std::vector<unsigned char> value_;
    std::vector<std::uint32_t> failed_;
    nlohmann::json json_;
    bool clean_ = true;
};

std::optional<Failure> AgreeRun::check() const {
    const auto usage = [](std::string message) { return Failure{kExitUsage, std::move(message)}; };
    if (settings_.bytes == 0 || settings_.bytes > COPPICE_MAX_AGREED) {
        return usage(fmt::format("-s {}: an agreement carries 1 to {} bytes", settings_.bytes, COPPICE_MAX_AGREED));
    }
    for (const std::uint32_t rank : settings_.victims) {
        if (rank >= session_.ranks()) {
            return usage(fmt::format("--victims {}: there are {} ranks", rank, session_.ranks()));
        }
    }
    if (!settings_.victims.empty() && settings_.at >= settings_.iterations) {
        return usage(fmt::format("--at {}: there are {} measured agreements", settings_.at, settings_.iterations));
    }
    const char* const bound = std::getenv("COPPICE_DETECTION_BOUND");
    if (settings_.silent && (bound == nullptr || std::string_view(bound) == "0")) {
        return usage("--silent: nobody notices silence without COPPICE_DETECTION_BOUND");
    }
    const std::uint64_t most = kShareLimit / (sizeof(measure_stamp_t) + sizeof(Outcome)) / session_.ranks();
    if (all_ > most) return usage(fmt::format("-n {}: at {} ranks at most {} fit", all_, session_.ranks(), most));
    return std::nullopt;
}

// Private memory that the kernel takes apart when this process dies.
std::optional<Failure> AgreeRun::make_resident() const {
    if (settings_.resident == 0) return std::nullopt;
    void* memory = mmap(nullptr, settings_.resident, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return Failure{kExitUsage, fmt::format("--resident {}: {}", settings_.resident, std::strerror(errno))};
    }
    madvise(memory, settings_.resident, MADV_NOHUGEPAGE);  // as of an application that has grown bit by bit
    std::memset(memory, 1, settings_.resident);
    return std::nullopt;
}

// Under OR: each rank sets a bit that moves from one agreement to the next, so that a stale result shows.
void AgreeRun::fill(std::uint64_t number) {
    std::fill(value_.begin(), value_.end(), static_cast<unsigned char>(0));
    const std::uint64_t bit = (session_.rank() + number) % (value_.size() * 8);
    value_[bit / 8] = static_cast<unsigned char>(1U << (bit % 8));
}

void AgreeRun::inspect(std::uint64_t number, coppice_status_t status, Outcome& outcome) {
    std::size_t count = 0;
    coppice_group_agreed(session_.group(), failed_.data(), failed_.size(), &count);
    const std::vector<std::uint32_t> failed(failed_.begin(), failed_.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<unsigned char> needed(value_.size()), possible(value_.size());
    for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
        const std::uint64_t bit = (rank + number) % (value_.size() * 8);
        const auto mask = static_cast<unsigned char>(1U << (bit % 8));
        possible[bit / 8] |= mask;
        if (!std::binary_search(failed.begin(), failed.end(), rank)) needed[bit / 8] |= mask;
    }
    bool right = true;
    std::uint64_t digest = coppice::mix(0, static_cast<std::uint64_t>(status == COPPICE_OK));
    for (std::size_t i = 0; i < value_.size(); ++i) {
        right = right && (value_[i] & needed[i]) == needed[i] && (value_[i] & ~possible[i]) == 0;
        digest = coppice::mix(digest, value_[i]);
    }
    for (const std::uint32_t rank : failed)
        digest = coppice::mix(digest, rank);
    if (!right) ++Own::of(session_.area(), session_.rank()).wrong_values;
    outcome.digest = digest;
    outcome.failed = static_cast<std::uint32_t>(count);
    outcome.ended = 1;
    if (status == COPPICE_ERR_PEER_FAILED) coppice_group_ack_failed(session_.group(), failed.data(), failed.size());
}

// As a host that is lost: no connection breaks, and nothing is heard. Until all others go on without the victims.
void AgreeRun::keep_quiet(std::uint64_t number) const {
    const std::uint64_t until = measure_now() + session_.timeout_ns();
    const auto goes_on = [&](std::uint32_t rank) {
        return is_victim(rank) || Own::of(session_.area(), rank).outcomes()[number].ended != 0;
    };
    for (std::uint32_t rank = 0; rank < session_.ranks() && measure_now() < until;) {
        if (goes_on(rank)) {
            ++rank;
        } else {
            usleep(1000);
        }
    }
}

std::optional<Failure> AgreeRun::one_agreement(std::uint64_t number, measure_stamp_t& stamp) {
    Own& own = Own::of(session_.area(), session_.rank());
    fill(number);
    if (!settings_.back_to_back) {
        if (auto failure = session_.barrier()) return failure;
    }
    stamp.start = measure_now();
    own.last_sign = stamp.start;
    if (number == settings_.warmup + settings_.at && is_victim(session_.rank())) {
        if (settings_.silent) {
            session_.fall_silent();
            keep_quiet(number);
        }
        while (true)
            kill(getpid(), SIGKILL);
    }
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_OR;
    const coppice_status_t status =
        coppice_agree(session_.group(), value_.data(), value_.size(), &options, session_.timeout_ns());
    stamp.end = measure_now();
    own.last_sign = stamp.end;
    if (status != COPPICE_OK && status != COPPICE_ERR_PEER_FAILED) {
        return library_failure(fmt::format("agreement {}", number), status);
    }
    inspect(number, status, own.outcomes()[number]);
    return std::nullopt;
}

std::optional<Failure> AgreeRun::execute() {
    if (auto failure = session_.share(settings_.iterations, Own::bytes(all_))) return failure;
    if (session_.is_apart() && settings_.silent)
        return Failure{kExitUsage, "--silent: victims see by common memory when the others go on without them"};
    if (auto failure = make_resident()) return failure;
    std::fill_n(Own::of(session_.area(), session_.rank()).outcomes(), all_, Outcome{});
    value_.resize(settings_.bytes);
    failed_.resize(session_.ranks());
    const Rounds rounds{
        .warmup = settings_.warmup,
        .count = all_,
        .for_s = settings_.for_s,
        .done =
            [this](std::uint64_t count) {
                all_ = count;
                measured_ = count - settings_.warmup;
            },
        .once = [this](std::uint64_t number, measure_stamp_t& stamp) { return one_agreement(number, stamp); },
        .has_ended =
            [this](std::uint32_t rank) { return Own::of(session_.area(), rank).outcomes()[all_ - 1].ended != 0; },
        .report =
            [this] {
                report();
                return json_;
            },
        .file = settings_.json_file,
    };
    auto failure = measure_rounds(session_, rounds);
    clean_ = clean_ && Own::of(session_.area(), session_.rank()).wrong_values == 0;
    return failure;
}

// An agreement detects a failure when its failed set is larger than the one before; the next one stabilizes.
std::vector<Phase> AgreeRun::phases(std::uint32_t witness) const {
    const Outcome* outcomes = Own::of(session_.area(), witness).outcomes();
    std::vector<Phase> all(measured_, Phase::failure_free);
    std::uint32_t known = settings_.warmup == 0 ? 0 : outcomes[settings_.warmup - 1].failed;
    for (std::uint64_t i = 0; i < measured_; ++i) {
        const std::uint32_t failed = outcomes[settings_.warmup + i].failed;
        if (failed > known) {
            all[i] = Phase::detecting;
        } else if (i > 0 && all[i - 1] == Phase::detecting) {
            all[i] = Phase::stabilizing;
        } else if (failed > 0) {
            all[i] = Phase::post_failure;
        }
        known = failed;
    }
    return all;
}

void AgreeRun::show_figures(const std::vector<Phase>& phases) {
    fmt::print("{}\n", MEASURE_HEADINGS);
    for (const Phase phase : {Phase::failure_free, Phase::detecting, Phase::stabilizing, Phase::post_failure}) {
        std::vector<std::uint64_t> which;
        for (std::uint64_t i = 0; i < measured_; ++i) {
            if (phases[i] == phase) which.push_back(i);
        }
        auto figures =
            show_phase(session_, kPhases[static_cast<std::size_t>(phase)], "agreements", settings_.bytes, which);
        if (!figures.is_null()) json_["phases"].push_back(std::move(figures));
    }
}

// A victim of a launcher can't say when it was killed: its last sign of life is a lower bound, and the delay printed an
// upper one. A victim of --victims has noted the moment.
void AgreeRun::show_deaths(const std::vector<Phase>& phases) {
    const Outcome* mine = Own::of(session_.area(), session_.rank()).outcomes() + settings_.warmup;
    for (std::uint64_t i = 0; i < measured_; ++i) {
        if (phases[i] != Phase::detecting) continue;
        std::uint64_t end = 0, sign = 0;
        std::string names;
        bool cut_off = false;
        for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
            if (!session_.is_dead(rank)) end = std::max(end, measure_row(session_.area(), rank)[i].end);
        }
        for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
            if (!session_.is_dead(rank)) continue;
            if (session_.is_cut_off(rank)) {
                // It has gone on by itself: this was the first agreement that told it something else.
                const Outcome* others = Own::of(session_.area(), rank).outcomes() + settings_.warmup;
                if (others[i].digest == mine[i].digest || (i > 0 && others[i - 1].digest != mine[i - 1].digest))
                    continue;
                sign = std::max(sign, i > 0 ? measure_row(session_.area(), rank)[i - 1].end : 0);
                names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
                cut_off = true;
                continue;
            }
            // A rank that died here has taken part in everything up to now, and in nothing after.
            const Outcome* outcomes = Own::of(session_.area(), rank).outcomes() + settings_.warmup;
            if (outcomes[i].ended != 0 || (i > 1 && outcomes[i - 2].ended == 0)) continue;
            sign = std::max(sign, Own::of(session_.area(), rank).last_sign);
            names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
        }
        if (sign == 0) continue;
        const double delay = end > sign ? static_cast<double>(end - sign) / 1e3 : 0;
        fmt::print("agreement {}: {} of {} {}; {:.0f} us from {} to the return of the last survivor\n", i, names,
                   session_.ranks(), cut_off ? "cut off" : "died", delay,
                   settings_.victims.empty() ? "the last sign of life"
                   : settings_.silent        ? "the last that was heard"
                                             : "the death");
        json_["deaths"].push_back({{"agreement", i}, {"ranks", names}, {"us_to_last_return", delay}});
    }
}

void AgreeRun::count_disagreements() {
    std::uint64_t disagreed = 0, lost = 0, wrong = 0, survivors = 0;
    for (std::uint64_t number = 0; number < all_; ++number) {
        const Outcome* first = nullptr;
        bool same = true;
        for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
            if (session_.is_dead(rank)) continue;
            const Outcome& outcome = Own::of(session_.area(), rank).outcomes()[number];
            lost += outcome.ended == 0;
            if (first == nullptr) first = &outcome;
            same = same && outcome.digest == first->digest && outcome.failed == first->failed;
        }
        disagreed += !same;
    }
    for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
        if (session_.is_dead(rank)) continue;
        ++survivors;
        wrong += Own::of(session_.area(), rank).wrong_values;
    }
    fmt::print("{}\n", session_.losses([](std::uint32_t) { return true; }));
    fmt::print("{} agreements at {} survivors, value, failed set and status of each compared\n", all_, survivors);
    fmt::print("disagreed {} wrong {} lost {}\n", disagreed, wrong, lost);
    clean_ = disagreed == 0 && wrong == 0 && lost == 0;
    json_["survivors"] = survivors;
    json_["disagreed"] = disagreed;
    json_["wrong"] = wrong;
    json_["lost"] = lost;
}

// By the lowest survivor.
void AgreeRun::report() {
    json_ = {{"benchmark", "agree"},
             {"version", coppice_version()},
             {"ranks", session_.ranks()},
             {"positions", session_.info().hosts},
             {"bytes", settings_.bytes},
             {"tree", group_.agreement_tree.empty() ? "auto" : group_.agreement_tree},
             {"resident", settings_.resident},
             {"back_to_back", settings_.back_to_back},
             {"unit", "us"},
             {"phases", nlohmann::json::array()},
             {"deaths", nlohmann::json::array()}};
    fmt::print("# coppice {} agreement: {} ranks, {} positions{}{}{}{}\n", coppice_version(), session_.ranks(),
               session_.info().hosts, group_.hierarchy.empty() ? "" : ", hierarchy ", group_.hierarchy,
               group_.agreement_tree.empty() ? "" : ", tree ", group_.agreement_tree);
    fmt::print("# the last rank's call -> the last survivor has returned\n");
    const std::vector<Phase> all = phases(session_.rank());
    show_figures(all);
    show_deaths(all);
    count_disagreements();
    std::fflush(stdout);
}

}  // namespace

int run_agree(const GroupSettings& group, const AgreeSettings& settings) {
    // A victim that falls silent is outside of the library, and no thread may beat for it meanwhile.
    GroupSettings own = group;
    const char* const rank = std::getenv("COPPICE_RANK");
    own.without_thread = settings.silent && rank != nullptr &&
                         std::ranges::find(settings.victims, std::strtoul(rank, nullptr, 10)) != settings.victims.end();
    return measure_in_session<AgreeRun>(own, settings);
}

}  // namespace perf
