#include "perf/views.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "coppice/coppice.h"
#include "perf/session.hpp"

namespace perf {
namespace {

constexpr std::size_t kMostSamples = 1024;
// What a process may have more than at first: of ranks that have just died, and for each other rank with which it has taken up since.
constexpr std::uint64_t kMostLeft = 8;
constexpr std::uint64_t kForEach = 4;
// Buffers of connections grow to their size in use; less than a KiB for each of ten thousand ranks that have been replaced.
constexpr std::uint64_t kMostHeapKib = 8192;
constexpr std::uint64_t kRoundsToSettle = 10;
constexpr std::uint64_t kLeftFor = 5'000'000'000;

// What all members have come to: newcomers get it from the eldest.
struct State {
    std::uint64_t rounds = 0;
    std::uint64_t sum = 0;  // of what was agreed upon
    std::uint64_t renewals = 0;
    std::uint64_t left_out = 0;  // ranks
    std::uint64_t newcomers = 0;
    std::uint64_t lost = 0;  // newcomers' states that did not arrive though the eldest lived
    std::uint64_t samples = 0;
    std::array<std::uint64_t, kMostSamples> sample_ns{};
};

std::uint64_t count_lines(const char* path) {
    std::ifstream file(path);
    std::uint64_t count = 0;
    for (std::string line; std::getline(file, line);)
        ++count;
    return count;
}

std::uint64_t count_descriptors() {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), ::closedir);
    std::uint64_t count = 0;
    while (directory && ::readdir(directory.get()) != nullptr)
        ++count;
    return count;
}

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// All that coppice-run was asked for; nothing was where it is not the launcher.
bool has_all_happened() {
    const std::uint64_t descriptor = number_in("COPPICE_RUN_DONE_FD", UINT32_MAX);
    if (descriptor > INT32_MAX) return true;
    pollfd one{static_cast<int>(descriptor), POLLIN, 0};
    return ::poll(&one, 1, 0) != 0;
}

std::uint64_t heap_kib() {
    const auto heap = ::mallinfo2();
    return (heap.uordblks + heap.hblkhd) / 1024;
}

struct Held {
    std::uint64_t descriptors = count_descriptors();
    std::uint64_t mappings = count_lines("/proc/self/maps");
    std::uint64_t heap = heap_kib();
};

class Views {
  public:
    Views(const GroupSettings& group, const ViewSettings& settings, bool measures_joins)
        : group_settings_(group),
          settings_(settings),
          measures_joins_(measures_joins),
          timeout_ns_(static_cast<std::uint64_t>(group.timeout_s * 1e9)) {}

    std::optional<Failure> open() {
        coppice_context_options_t options = COPPICE_CONTEXT_OPTIONS_INIT;
        called_ns_ = coppice::now_ns();
        if (const auto status = coppice_context_create(&options, &context_); status != COPPICE_OK)
            return library_failure("context", status);
        coppice_group_options_t how = COPPICE_GROUP_OPTIONS_INIT;
        const auto given = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
        how.tree = given(group_settings_.tree);
        how.correction = given(group_settings_.correction);
        how.hierarchy = given(group_settings_.hierarchy);
        how.algorithm = given(group_settings_.algorithm);
        how.window = group_settings_.window;
        if (const auto status = coppice_group_create(context_, &how, &group_); status != COPPICE_OK)
            return library_failure("group", status);
        look();
        is_newcomer_ = view_.epoch > 0;
        if (settings_.for_s > 0) end_ns_ = coppice::now_ns() + static_cast<std::uint64_t>(settings_.for_s * 1e9);
        expected_ = static_cast<std::uint32_t>(number_in("COPPICE_RUN_MEMBERS", 0));
        return is_newcomer_ ? settle(0) : std::nullopt;
    }

    std::optional<Failure> run() {
        for (;;) {
            // Folded from below and from above: all have the same exactly if both are.
            // A round more, which begins when the last one that was to die has.
            const bool wants_more = (state_.rounds < settings_.iterations && !is_over()) || !all_happened_;
            all_happened_ = has_all_happened();
            std::array<std::uint64_t, 3> value{state_.sum, ~state_.sum, wants_more ? 1U : 0U};
            bool all = false;
            if (auto failure = agree(value, all)) return failure;
            int pending = 0;
            if (const auto status = coppice_group_pending(group_, &pending); status != COPPICE_OK)
                return library_failure("pending", status);
            if (all) {
                divergent_ += value[0] != ~value[1];
                ++state_.rounds;
                if (auto failure = take_turn()) return failure;
                note_what_is_held();
                state_.sum = (state_.sum ^ state_.rounds) * UINT64_C(0x9e3779b97f4a7c15) + 1;
            }
            if (!all || pending != 0) {
                if (auto failure = renew(!all)) return failure;
            } else if (value[2] == 0 && view_.size >= expected_) {
                return std::nullopt;
            }
        }
    }

    // Told by the eldest.
    int finish() {
        Held now;
        const std::uint64_t leaked = count_leaks(now);
        std::array<std::uint64_t, 2> worst{divergent_, leaked};
        bool all = false;
        if (const auto failure = agree(worst, all)) return complain(rank_, *failure);
        const bool is_eldest = rank_ == view_.eldest;
        const bool is_clean = worst[0] == 0 && state_.lost == 0 && worst[1] == 0;
        if (is_eldest) tell(worst[0], worst[1], now);
        if (const auto status = coppice_group_destroy(group_, timeout_ns_); status != COPPICE_OK)
            return complain(rank_, library_failure("destroy", status));
        coppice_context_destroy(context_);
        return is_clean ? kExitOk : kExitFailed;
    }

    std::uint32_t rank() const { return rank_; }

  private:
    // Those that were there at the start have the time; newcomers leave it to them.
    bool is_over() const { return settings_.for_s > 0 && (is_newcomer_ || coppice::now_ns() >= end_ns_); }

    void look() {
        view_ = {};
        view_.struct_size = sizeof view_;
        coppice_group_view(group_, &view_, nullptr, 0);
        coppice_group_info_t info{};
        info.struct_size = sizeof info;
        coppice_group_query(group_, &info);
        rank_ = info.rank;
    }

    template <std::size_t count>
    std::optional<Failure> agree(std::array<std::uint64_t, count>& value, bool& all) {
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_MAX;
        options.type = COPPICE_UINT64;
        const auto status = coppice_agree(group_, value.data(), sizeof value, &options, timeout_ns_);
        all = status == COPPICE_OK;
        if (status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED) return std::nullopt;
        return library_failure(fmt::format("agreement in round {}", state_.rounds), status);
    }

    std::optional<Failure> renew(bool after_deaths) {
        const std::uint64_t begin = coppice::now_ns();
        coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
        options.most = expected_;
        coppice_group_t* next = nullptr;
        if (const auto status = coppice_group_renew(group_, &options, &next, timeout_ns_); status != COPPICE_OK)
            return library_failure("renewal", status);
        const std::uint64_t took = coppice::now_ns() - begin;
        const std::uint32_t before = view_.size;
        if (const auto status = coppice_group_destroy(group_, timeout_ns_); status != COPPICE_OK)
            return library_failure("leaving the old group", status);
        group_ = next;
        look();
        ++state_.renewals;
        state_.left_out += before - (view_.size - view_.newcomers);
        state_.newcomers += view_.newcomers;
        return settle(after_deaths ? took : 0);
    }

    // Each rank of a new group is root once: it begins to use what carries messages to other hosts, as it might later, when it leads its own.
    std::optional<Failure> take_turn() {
        if (rounds_here_ >= view_.size) return std::nullopt;
        std::uint64_t nothing = 0;
        const auto status = coppice_broadcast(group_, &nothing, sizeof nothing,
                                              static_cast<std::uint32_t>(rounds_here_), nullptr, timeout_ns_);
        if (status == COPPICE_OK || has_died(status)) return std::nullopt;
        return library_failure(fmt::format("broadcast in round {}", state_.rounds), status);
    }

    static bool has_died(coppice_status_t status) {
        return status == COPPICE_ERR_ROOT_FAILED || status == COPPICE_ERR_PEER_FAILED;
    }

    // Of a group that is as large as never before, once its ranks have taken up with each other.
    void note_what_is_held() {
        const std::uint64_t settled = std::max<std::uint64_t>(kRoundsToSettle, view_.size);
        if (++rounds_here_ != settled || view_.size <= largest_) return;
        largest_ = view_.size;
        held_ = Held();
    }

    // The eldest brings the state, all agree that they have it, and how long it took the last one of them.
    std::optional<Failure> settle(std::uint64_t renewal_ns) {
        struct {
            State state;
            std::uint64_t expected;
        } told{state_, expected_};
        const auto status = coppice_broadcast(group_, &told, sizeof told, view_.eldest, nullptr, timeout_ns_);
        if (status != COPPICE_OK && !has_died(status)) return library_failure("the state of the eldest", status);
        const bool has_it = status == COPPICE_OK;
        if (has_it) {
            state_ = told.state;
            expected_ = static_cast<std::uint32_t>(told.expected);
        }
        const bool joins = is_newcomer_ && !has_agreed_;
        std::array<std::uint64_t, 3> value{has_it ? 0U : 1U, renewal_ns, joins ? coppice::now_ns() - called_ns_ : 0};
        bool all = false;
        if (auto failure = agree(value, all)) return failure;
        has_agreed_ = true;
        const std::uint64_t sample = value[measures_joins_ ? 2 : 1];
        if (sample > 0) state_.sample_ns[state_.samples++ % kMostSamples] = sample;
        if (all && value[0] != 0) ++state_.lost;  // nobody has died
        if (!all || value[0] != 0) return renew(!all);
        rounds_here_ = 0;
        return std::nullopt;
    }

    // Descriptors, mappings and KiB of heap beyond those that this process had when the group first was as large as ever.
    std::uint64_t count_leaks(Held& now) const {
        const std::uint64_t until = coppice::now_ns() + kLeftFor;
        for (;;) {
            now = Held();
            const std::uint64_t allowed = kMostLeft + kForEach * view_.size;
            const auto beyond = [](std::uint64_t after, std::uint64_t before, std::uint64_t most) {
                return after > before + most ? after - before : 0;
            };
            const std::uint64_t leaked = beyond(now.descriptors, held_.descriptors, allowed) +
                                         beyond(now.mappings, held_.mappings, allowed) +
                                         beyond(now.heap, held_.heap, kMostHeapKib);
            if (leaked == 0 || largest_ == 0 || view_.size < largest_) return 0;
            if (coppice::now_ns() > until) {
                fmt::print(stderr,
                           "coppice-perf: rank {} had {} descriptors, {} mappings and {} KiB of heap when the group "
                           "first was as large, and has {}, {} and {}\n",
                           rank_, held_.descriptors, held_.mappings, held_.heap, now.descriptors, now.mappings,
                           now.heap);
                return leaked;
            }
            if (has_no_thread()) coppice_progress(context_);
            std::this_thread::yield();
        }
    }

    void tell(std::uint64_t divergent, std::uint64_t leaked, const Held& now) const {
        std::vector<std::uint64_t> times(state_.sample_ns.begin(),
                                         state_.sample_ns.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(
                                                                        state_.samples, kMostSamples)));
        std::ranges::sort(times);
        fmt::print("# {} of {} ranks: {} rounds, {} renewals, {} left out, {} newcomers\n",
                   measures_joins_ ? "join" : "stabilize", view_.size, state_.rounds, state_.renewals, state_.left_out,
                   state_.newcomers);
        if (!times.empty()) {
            const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e3; };
            fmt::print("#{} t_min[us] t_typical[us] t_max[us]\n{} {:.1f} {:.1f} {:.1f}\n",
                       measures_joins_ ? "joins" : "renewals", times.size(), us(times.front()),
                       us(times[times.size() / 2]), us(times.back()));
        }
        fmt::print(
            "# the eldest, at first and at last: {} and {} descriptors, {} and {} mappings, {} and {} KiB of heap\n",
            held_.descriptors, now.descriptors, held_.mappings, now.mappings, held_.heap, now.heap);
        fmt::print("divergent {} lost {} hung 0 leaked {}\n", divergent, state_.lost, leaked);
    }

    const GroupSettings& group_settings_;
    const ViewSettings& settings_;
    bool measures_joins_;
    std::uint64_t timeout_ns_;
    coppice_context_t* context_ = nullptr;
    coppice_group_t* group_ = nullptr;
    coppice_view_t view_{};
    std::uint32_t rank_ = 0;
    bool is_newcomer_ = false;
    bool has_agreed_ = false;
    std::uint32_t expected_ = 0;  // members at the end, and at most; 0: any number
    std::uint64_t called_ns_ = 0;
    std::uint64_t end_ns_ = 0;
    bool all_happened_ = false;  // what was asked of the launcher
    std::uint64_t divergent_ = 0;
    std::uint64_t rounds_here_ = 0;  // in this view
    std::uint32_t largest_ = 0;
    Held held_;
    State state_;
};

}  // namespace

int run_views(const GroupSettings& group, const ViewSettings& settings, const char* what) {
    Views views(group, settings, std::string_view(what) == "join");
    for (const auto step : {&Views::open, &Views::run}) {
        if (const auto failure = (views.*step)()) {
            const bool has_hung = failure->message.find("COPPICE_ERR_TIMEOUT") != std::string::npos;
            if (has_hung) fmt::print("divergent 0 lost 0 hung 1 leaked 0\n");
            return complain(views.rank(), *failure);
        }
    }
    return views.finish();
}

}  // namespace perf
