// A rank of the soak of agreements (agree.sh, which starts it under coppice-run and kills some of them): agreements of
// all sizes and depths, in one group after the other, each result checked here, and a digest of all of them for
// agree.sh to compare.
//
//   agree_rank --report DIR --seed N [--seconds S] [--agreements N] [--groups N] [--patience S]
//
// What all ranks have to do alike is drawn from the seed and the agreement's number; what each does on its own (pauses,
// the order in which it waits) from the seed and its rank. Writes DIR/RANK: lines of a name and a number, see Report.
// Exit code 0; 1 when something was wrong, lost or took longer than --patience: a line on stderr says what.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "coppice/coppice.h"

namespace {

constexpr std::uint64_t kMostRanks = 63;  // a bit for each in one word, and one to say that time is over
constexpr std::uint64_t kTimeOver = std::uint64_t{1} << 63;
constexpr std::uint64_t kDeepest = 8;  // agreements under way at once
constexpr std::uint64_t kMeasureEvery = 1024;
// Before this many agreements of a group memory may still grow to what its rings and sets need.
constexpr std::uint64_t kSettled = 2 * kMeasureEvery;

struct Options {
    std::string report;
    std::uint64_t seed = 1;
    double seconds = 0;
    std::uint64_t agreements = 0;
    std::uint64_t groups = 1;
    double patience = 60;
};

struct Report {
    std::uint64_t agreements = 0;
    std::uint64_t digest = 0;  // of value, failed set and status of all of them
    std::uint64_t groups = 0;
    std::uint64_t heap_growth = 0;  // bytes, at most, between two moments of a group without news of deaths
    std::uint64_t heap_leaked = 0;  // bytes, at most, from the end of the second group to that of a later one
    std::uint64_t descriptors_leaked = 0;
};

struct Trouble : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void must(coppice_status_t status, const std::string& what) {
    if (status == COPPICE_OK) return;
    throw Trouble(fmt::format("{}: {}: {}", what, coppice_status_string(status), coppice_last_error()));
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    return hash ^ (hash >> 29);
}

// What is allocated and not freed: exact, unlike resident memory.
std::uint64_t heap_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

std::uint64_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::uint64_t>(std::distance(begin(all), end(all)));
}

class Soak {
  public:
    explicit Soak(const Options& options)
        : options_(options), patience_ns_(static_cast<std::uint64_t>(options.patience * 1e9)) {}

    void run(coppice_context_t* context) {
        for (std::uint64_t group = 0; group < options_.groups; ++group) {
            must(coppice_group_create(context, nullptr, &group_), fmt::format("group {}", group));
            start_group(group);
            while (!over_)
                batch();
            must(coppice_group_destroy(group_, patience_ns_), fmt::format("leaving group {}", group));
            group_ = nullptr;
            end_group(group);
        }
    }
    const Report& report() const { return report_; }
    std::uint64_t rank() const { return info_.rank; }

  private:
    using Clock = std::chrono::steady_clock;

    struct Pending {
        std::array<std::uint64_t, COPPICE_MAX_AGREED / 8> value{};
        std::size_t bytes = 0;
        std::uint64_t number = 0;
        coppice_request_t* request = nullptr;
        coppice_status_t status = COPPICE_OK;
        std::vector<std::uint32_t> failed;  // agreed upon
    };

    void start_group(std::uint64_t group) {
        info_.struct_size = sizeof info_;
        must(coppice_group_query(group_, &info_), "group");
        if (info_.size > kMostRanks) throw Trouble(fmt::format("{} ranks; at most {}", info_.size, kMostRanks));
        number_ = 0;
        over_ = false;
        heap_ = 0;
        measured_at_ = 0;
        acknowledged_ = 0;
        agreed_.clear();
        own_.seed(mix(mix(options_.seed, group), info_.rank));
        common_ = mix(options_.seed, group);
        end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                  options_.seconds / static_cast<double>(options_.groups)));
    }

    void end_group(std::uint64_t group) {
        ++report_.groups;
        const std::uint64_t heap = heap_bytes();
        const std::uint64_t descriptors = open_descriptors();
        // The first group opens what lasts for the process's life.
        if (group == 1) {
            heap_after_ = heap;
            descriptors_after_ = descriptors;
        } else if (group > 1) {
            report_.heap_leaked = std::max(report_.heap_leaked, heap > heap_after_ ? heap - heap_after_ : 0);
            report_.descriptors_leaked = std::max(
                report_.descriptors_leaked, descriptors > descriptors_after_ ? descriptors - descriptors_after_ : 0);
        }
    }

    bool own_chance(std::uint32_t one_in) { return own_() % one_in == 0; }

    // One agreement or several at once, as the common seed has it.
    void batch() {
        const std::uint64_t draw = mix(common_, number_);
        const std::uint64_t depth = draw % 4 == 0 ? 1 + (draw >> 8) % kDeepest : 1;
        if (own_chance(2000)) usleep(static_cast<useconds_t>(own_() % 2000));
        pending_.resize(depth);
        // What this rank has acknowledged by now counts for all of them.
        for (Pending& pending : pending_)
            start(pending, depth == 1);
        // Values stay where the library writes to; only the order of waiting is drawn.
        std::vector<std::size_t> order(depth);
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::shuffle(order, own_);
        for (const std::size_t i : order) {
            if (depth > 1) finish(pending_[i]);
        }
        for (const Pending& pending : pending_)
            judge(pending);
        if (own_chance(3)) acknowledge();
        measure();
        if (options_.agreements > 0 && number_ >= options_.agreements / options_.groups) over_ = true;
    }

    void start(Pending& pending, bool blocking) {
        const std::uint64_t draw = mix(~common_, number_);
        pending.number = number_++;
        pending.bytes = 8 * (draw % 8 == 0 ? 1 + (draw >> 8) % pending.value.size() : 2);
        pending.value.fill(0);
        pending.value[0] = std::uint64_t{1} << info_.rank;
        if (options_.seconds > 0 && Clock::now() >= end_) pending.value[0] |= kTimeOver;
        for (std::size_t i = 1; i < pending.bytes / 8; ++i)
            pending.value[i] = mix(draw, i);
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = COPPICE_OR;
        const auto what = [&] { return fmt::format("agreement {}", pending.number); };
        if (blocking) {
            pending.status = coppice_agree(group_, pending.value.data(), pending.bytes, &options, patience_ns_);
            if (pending.status != COPPICE_ERR_PEER_FAILED) must(pending.status, what());
            pending.failed = listed([&](std::uint32_t* ranks, std::size_t room, std::size_t* count) {
                return coppice_group_agreed(group_, ranks, room, count);
            });
            return;
        }
        const auto deadline = Clock::now() + std::chrono::nanoseconds(patience_ns_);
        coppice_status_t status = COPPICE_ERR_BUSY;
        while (status == COPPICE_ERR_BUSY) {
            if (Clock::now() > deadline) must(status, what());
            status = coppice_agree_nb(group_, pending.value.data(), pending.bytes, &options, &pending.request);
        }
        must(status, what());
    }

    // Ranks as the library lists them.
    template <class Ask>
    std::vector<std::uint32_t> listed(Ask&& ask) {
        std::vector<std::uint32_t> ranks(info_.size);
        std::size_t count = 0;
        must(ask(ranks.data(), ranks.size(), &count), "the failures");
        ranks.resize(count);
        return ranks;
    }

    void finish(Pending& pending) {
        pending.status = coppice_request_wait(pending.request, nullptr, patience_ns_);
        if (pending.status != COPPICE_ERR_PEER_FAILED)
            must(pending.status, fmt::format("agreement {}", pending.number));
        pending.failed = listed([&](std::uint32_t* ranks, std::size_t room, std::size_t* count) {
            return coppice_request_agreed(pending.request, ranks, room, count);
        });
        must(coppice_request_free(pending.request), "freeing a request");
        pending.request = nullptr;
    }

    // What is promised of every result by itself; that the survivors have the same is what the digest is for.
    void judge(const Pending& pending) {
        const std::vector<std::uint32_t>& failed = pending.failed;
        const coppice_status_t status = pending.status;
        const auto wrong = [&](const std::string& what) {
            return Trouble(fmt::format("agreement {}: {}", pending.number, what));
        };
        std::uint64_t dead = 0;
        for (const std::uint32_t rank : failed)
            dead |= std::uint64_t{1} << rank;
        const std::uint64_t all = (std::uint64_t{1} << info_.size) - 1;
        const std::uint64_t contributors = pending.value[0] & ~kTimeOver;
        if ((contributors & ~all) != 0) throw wrong("a contribution of nobody");
        if ((contributors | dead) != all) throw wrong("a contribution is missing and its rank has not failed");
        if ((dead >> info_.rank & 1) != 0) throw wrong("this rank is among the failed");
        if (!std::ranges::includes(failed, agreed_)) throw wrong("a rank that had failed is alive again");
        if (status == COPPICE_ERR_PEER_FAILED && failed.empty()) throw wrong("nobody failed, and yet it says so");
        if (status == COPPICE_OK && (dead & ~acknowledged_) != 0) throw wrong("a failure goes without being told");
        const std::uint64_t draw = mix(~common_, pending.number);
        for (std::size_t i = 1; i < pending.bytes / 8; ++i) {
            if (pending.value[i] != mix(draw, i)) throw wrong(fmt::format("word {} is not what all contributed", i));
        }
        if (failed.size() > agreed_.size()) heap_ = 0;  // sets of the dead may grow with them
        agreed_ = failed;
        over_ = over_ || (pending.value[0] & kTimeOver) != 0;
        std::uint64_t digest = mix(report_.digest, pending.number);
        digest = mix(mix(digest, pending.value[0]), static_cast<std::uint64_t>(status == COPPICE_OK));
        report_.digest = mix(digest, dead);
        ++report_.agreements;
    }

    // Of what is known by now, which differs from rank to rank.
    void acknowledge() {
        const std::vector<std::uint32_t> failed =
            listed([&](std::uint32_t* ranks, std::size_t room, std::size_t* count) {
                return coppice_group_failed(group_, ranks, room, count);
            });
        must(coppice_group_ack_failed(group_, failed.data(), failed.size()), "acknowledging failures");
        for (const std::uint32_t rank : failed)
            acknowledged_ |= std::uint64_t{1} << rank;
    }

    void measure() {
        if (number_ < kSettled || number_ < measured_at_ + kMeasureEvery) return;
        measured_at_ = number_;
        const std::uint64_t now = heap_bytes();
        if (heap_ == 0) {
            heap_ = now;
        } else if (now > heap_) {
            report_.heap_growth = std::max(report_.heap_growth, now - heap_);
        }
    }

    const Options& options_;
    std::uint64_t patience_ns_;
    coppice_group_t* group_ = nullptr;
    coppice_group_info_t info_{};
    Report report_;
    std::mt19937_64 own_;
    std::uint64_t common_ = 0;
    std::uint64_t number_ = 0;  // of the group's next agreement
    bool over_ = false;
    Clock::time_point end_;
    std::vector<Pending> pending_;
    std::vector<std::uint32_t> agreed_;  // by the last that was judged
    std::uint64_t acknowledged_ = 0;     // ranks, as bits
    std::uint64_t heap_ = 0;             // where growth is counted from; 0: from the next measure on
    std::uint64_t measured_at_ = 0;
    std::uint64_t heap_after_ = 0;
    std::uint64_t descriptors_after_ = 0;
};

void write(const Options& options, std::uint64_t rank, const Report& report) {
    const std::string path = fmt::format("{}/{}", options.report, rank);
    std::ofstream file(path);
    file << fmt::format(
        "agreements {}\ndigest {:016x}\ngroups {}\nheap_growth {}\nheap_leaked {}\ndescriptors_leaked {}\n",
        report.agreements, report.digest, report.groups, report.heap_growth, report.heap_leaked,
        report.descriptors_leaked);
    file.close();
    if (!file) throw Trouble(fmt::format("cannot write {}", path));
}

void run(const Options& options) {
    coppice_context_t* context = nullptr;
    must(coppice_context_create(nullptr, &context), "context");
    Soak soak(options);
    soak.run(context);
    must(coppice_context_destroy(context), "context");
    write(options, soak.rank(), soak.report());
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("One rank of the soak of agreements; agree.sh starts it.", "agree_rank");
    app.add_option("--report", options.report, "directory for what each survivor reports")->required();
    app.add_option("--seed", options.seed, "of everything that is drawn")->capture_default_str();
    app.add_option("--seconds", options.seconds, "how long")->check(CLI::PositiveNumber);
    app.add_option("--agreements", options.agreements, "how many")->check(CLI::PositiveNumber);
    app.add_option("--groups", options.groups, "one after the other")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--patience", options.patience, "seconds after which a call counts as hung")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    try {
        app.parse(argc, argv);
        if (options.seconds == 0 && options.agreements == 0) throw CLI::RequiredError("--seconds or --agreements");
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    try {
        run(options);
        return 0;
    } catch (const std::exception& trouble) {
        const char* rank = std::getenv("COPPICE_RANK");
        fmt::print(stderr, "agree_rank: rank {}: {}\n", rank == nullptr ? "?" : rank, trouble.what());
        return 1;
    }
}
