#include "perf/broadcast.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "perf/report.hpp"
#include "perf/session.hpp"

namespace perf {

namespace {

constexpr std::uint64_t kShareLimit = std::uint64_t{4} << 30;    // bytes of time stamps
constexpr std::uint64_t kLargestOfAll = std::uint64_t{8} << 20;  // -a, as in perftest
constexpr std::uint64_t kLeastRoom = 8192;                       // so that what is too long is seen
constexpr std::uint64_t kProgressEvery = 250'000'000;            // ns between two progress lines

class Run {
  public:
    Run(Session& session, const GroupSettings& group, const BroadcastSettings& settings)
        : session_(session), settings_(settings), group_(group) {}

    std::optional<Failure> check();
    std::optional<Failure> execute();
    bool clean() const { return clean_; }

  private:
    std::optional<Failure> bury_the_dead();
    std::optional<Failure> one_size(std::uint64_t bytes);
    std::optional<Failure> one_broadcast(std::uint64_t bytes, measure_stamp_t& stamp);
    std::optional<Failure> take_memory(std::uint64_t bytes);
    std::optional<Failure> count(coppice_status_t status, std::span<const std::byte> payload, std::uint64_t bytes);
    // Not inlined: bench/instructions.sh counts what runs in here.
    [[gnu::noinline]] coppice_status_t broadcast(std::uint64_t bytes, std::uint32_t root, std::size_t& received);
    coppice_status_t broadcast_view(std::uint64_t bytes, std::uint32_t root);
    enum class Counting : std::uint8_t { begins, ends };
    std::optional<Failure> count_sent(Counting when);
    std::optional<Failure> start_counting();
    std::optional<Failure> stop_counting();
    std::optional<Failure> wait_for_turn();
    std::optional<Failure> tell();
    void show_progress(std::uint64_t done, std::uint64_t all);
    std::vector<std::uint64_t> sizes() const;
    Tally& tally() { return Record(session_.area(), session_.rank()).tally(); }

    Session& session_;
    const BroadcastSettings& settings_;
    const GroupSettings& group_;
    Schedule schedule_;
    std::optional<Report> report_;
    std::vector<std::byte> buffer_;
    std::byte* payload_ = nullptr;          // to be sent: in buffer_, or of the library's memory
    coppice_request_t* request_ = nullptr;  // holds the view until it has been checked
    std::span<const std::byte> view_;
    coppice_group_counts_t counts_{};  // where counting began
    std::uint64_t sequence_ = 0;
    std::uint64_t start_ns_ = 0;
    std::uint64_t shown_ns_ = 0;
    bool clean_ = true;
};

// Everything about the options that needs the group to be known.
std::optional<Failure> Run::check() {
    const auto usage = [](std::string message) { return Failure{kExitUsage, std::move(message)}; };
    schedule_.ranks = session_.ranks();
    schedule_.rotate = settings_.root == "rotate";
    if (!schedule_.rotate) {
        const char* end = settings_.root.data() + settings_.root.size();
        const auto [stop, error] = std::from_chars(settings_.root.data(), end, schedule_.root);
        if (error != std::errc() || stop != end || schedule_.root >= session_.ranks()) {
            return usage(fmt::format("--root {}: a rank from 0 to {} or \"rotate\" is wanted", settings_.root,
                                     session_.ranks() - 1));
        }
    }
    if (settings_.bytes > session_.info().max_payload) {
        return usage(
            fmt::format("-s {}: the largest payload is {} bytes", settings_.bytes, session_.info().max_payload));
    }
    for (const std::uint32_t rank : settings_.dead) {
        if (rank >= session_.ranks())
            return usage(fmt::format("--dead {}: there are {} ranks", rank, session_.ranks()));
        if (!schedule_.rotate && rank == schedule_.root) return usage(fmt::format("--dead {}: it is the root", rank));
    }
    if (settings_.iterations > kShareLimit / sizeof(measure_stamp_t) / session_.ranks()) {
        return usage(fmt::format("-n {}: at {} ranks at most {} fit", settings_.iterations, session_.ranks(),
                                 kShareLimit / sizeof(measure_stamp_t) / session_.ranks()));
    }
    return std::nullopt;
}

std::vector<std::uint64_t> Run::sizes() const {
    if (!settings_.all_sizes) return {settings_.bytes};
    std::vector<std::uint64_t> all;
    for (std::uint64_t bytes = 1; bytes <= kLargestOfAll; bytes *= 2)
        all.push_back(bytes);
    return all;
}

std::optional<Failure> Run::bury_the_dead() {
    const auto& dead = settings_.dead;
    if (std::find(dead.begin(), dead.end(), session_.rank()) != dead.end()) kill(getpid(), SIGKILL);
    return session_.wait_until("the death of the ranks of --dead", [&] {
        return std::all_of(dead.begin(), dead.end(), [this](std::uint32_t rank) { return session_.is_dead(rank); });
    });
}

std::optional<Failure> Run::execute() {
    if (auto failure = session_.share(settings_.iterations, Record::bytes(session_.ranks()))) return failure;
    if (session_.is_apart() && settings_.staggered)
        return Failure{kExitUsage,
                       "--staggered: ranks take turns by memory that those of several machines do not have"};
    if (auto failure = bury_the_dead()) return failure;
    buffer_.resize(std::max(settings_.all_sizes ? kLargestOfAll : settings_.bytes, kLeastRoom));
    report_.emplace(session_, group_, settings_, schedule_);
    if (auto failure = session_.barrier([this] { report_->headings(); })) return failure;
    start_ns_ = measure_now();
    for (const std::uint64_t bytes : sizes()) {
        if (auto failure = one_size(bytes)) return failure;
    }
    return tell();
}

std::optional<Failure> Run::one_size(std::uint64_t bytes) {
    const std::uint64_t first = sequence_ + settings_.warmup, all = settings_.warmup + settings_.iterations;
    measure_clear_row(session_.area(), session_.rank());
    measure_stamp_t* row = measure_row(session_.area(), session_.rank());
    if (auto failure = session_.barrier()) return failure;
    if (auto failure = count_sent(Counting::begins)) return failure;
    std::uint64_t begun_ns = measure_now();
    std::uint64_t i = 0;
    session_.limit(0);
    // A root may be a window ahead of the others.
    for (; i < all && !session_.over(sequence_, session_.info().window); ++i) {
        measure_stamp_t stamp{};
        if (i == settings_.warmup) {
            if (auto failure = start_counting()) return failure;
            begun_ns = measure_now();
            session_.limit(settings_.for_s);
        }
        if (auto failure = one_broadcast(bytes, stamp)) return failure;
        if (auto failure = session_.parted()) return failure;
        if (i >= settings_.warmup) row[i - settings_.warmup] = stamp;
        if (i % 256 == 255) show_progress(i, all);
    }
    const std::uint64_t elapsed_ns = measure_now() - begun_ns;
    const std::uint64_t measured = i - settings_.warmup;
    // By then the last corrections are out.
    if (auto failure = session_.barrier()) return failure;
    if (auto failure = count_sent(Counting::ends)) return failure;
    const auto show = [&] {
        report_->size_done(bytes, first, measured, elapsed_ns);
        session_.forget_limit();
    };
    if (auto failure = session_.barrier(show)) return failure;
    if (!settings_.count) return std::nullopt;
    if (auto failure = stop_counting()) return failure;
    return session_.barrier([&] { report_->counts_done(); });
}

// Between two barriers: what is counted belongs to the broadcasts measured, and to all of them.
std::optional<Failure> Run::start_counting() {
    if (!settings_.count) return std::nullopt;
    if (auto failure = session_.barrier()) return failure;
    counts_ = {};
    counts_.struct_size = sizeof counts_;
    const coppice_status_t status = coppice_group_count(session_.group(), &counts_);
    if (status != COPPICE_OK) return library_failure("counting", status);
    return session_.barrier();
}

std::optional<Failure> Run::stop_counting() {
    coppice_group_counts_t now{};
    now.struct_size = sizeof now;
    const coppice_status_t status = coppice_group_count(session_.group(), &now);
    if (status != COPPICE_OK) return library_failure("counting", status);
    coppice_group_counts_t& mine = tally().counts;
    mine = now;
    for (const auto field : {&coppice_group_counts_t::sends,          &coppice_group_counts_t::writes,
                             &coppice_group_counts_t::received,       &coppice_group_counts_t::doorbells,
                             &coppice_group_counts_t::work_requests,  &coppice_group_counts_t::signalled,
                             &coppice_group_counts_t::probes,         &coppice_group_counts_t::busy_polls,
                             &coppice_group_counts_t::copies,         &coppice_group_counts_t::registrations,
                             &coppice_group_counts_t::takeovers,      &coppice_group_counts_t::thread_rounds,
                             &coppice_group_counts_t::thread_events,  &coppice_group_counts_t::chunks,
                             &coppice_group_counts_t::chunks_sent,    &coppice_group_counts_t::chunks_again,
                             &coppice_group_counts_t::chunks_damaged, &coppice_group_counts_t::chunks_read,
                             &coppice_group_counts_t::reads,          &coppice_group_counts_t::unregistered})
        mine.*field -= counts_.*field;
    return std::nullopt;
}

// Adds to the tally what is sent between the two calls.
std::optional<Failure> Run::count_sent(Counting when) {
    coppice_group_counts_t now{};
    now.struct_size = sizeof now;
    const coppice_status_t status = coppice_group_count(session_.group(), &now);
    if (status != COPPICE_OK) return library_failure("counting", status);
    const std::array<std::uint64_t, kCrossed.size()> sent{now.sent_in_host, now.sent_in_leaf, now.sent_in_pod,
                                                          now.sent_beyond};
    for (std::size_t level = 0; level < sent.size(); ++level)
        tally().sent[level] += when == Counting::ends ? sent[level] : 0 - sent[level];
    return std::nullopt;
}

std::optional<Failure> Run::one_broadcast(std::uint64_t bytes, measure_stamp_t& stamp) {
    const std::uint32_t root = schedule_.root_of(sequence_);
    if (root == session_.rank()) {
        if (auto failure = take_memory(bytes)) return failure;
        if (settings_.rewrites) std::fill_n(payload_, bytes, static_cast<std::byte>(sequence_));
        if (settings_.verify) fill_payload({payload_, bytes}, sequence_, root);
    }
    if (!settings_.back_to_back) {
        if (auto failure = session_.barrier()) return failure;
    }
    if (settings_.staggered) {
        if (auto failure = wait_for_turn()) return failure;
    }
    std::size_t received = bytes;
    stamp.start = measure_now();
    const coppice_status_t status = settings_.view ? broadcast_view(bytes, root) : broadcast(bytes, root, received);
    const std::uint64_t end = measure_now();
    if (status == COPPICE_OK) stamp.end = end;
    const std::byte* const copy = payload_ != nullptr ? payload_ : buffer_.data();
    const auto payload = settings_.view ? view_ : std::span(copy, std::min(received, buffer_.size()));
    auto failure = count(status, payload, bytes);
    coppice_request_free(request_);
    request_ = nullptr;
    if (payload_ != nullptr && payload_ != buffer_.data()) coppice_memory_free(session_.group(), payload_);
    payload_ = nullptr;
    ++sequence_;
    Tally& mine = tally();
    mine.last_sign = end;
    __atomic_store_n(&mine.finished, sequence_, __ATOMIC_RELEASE);
    return failure;
}

std::optional<Failure> Run::take_memory(std::uint64_t bytes) {
    payload_ = buffer_.data();
    if (!settings_.allocated || bytes == 0) return std::nullopt;
    void* memory = nullptr;
    const coppice_status_t status = coppice_memory_allocate(session_.group(), bytes, &memory);
    if (status != COPPICE_OK) return library_failure(fmt::format("memory for {} bytes", bytes), status);
    payload_ = static_cast<std::byte*>(memory);
    return std::nullopt;
}

coppice_status_t Run::broadcast(std::uint64_t bytes, std::uint32_t root, std::size_t& received) {
    const bool sends = root == session_.rank();
    return coppice_broadcast(session_.group(), sends ? payload_ : buffer_.data(), sends ? bytes : buffer_.size(), root,
                             &received, session_.timeout_ns());
}

coppice_status_t Run::broadcast_view(std::uint64_t bytes, std::uint32_t root) {
    const std::uint64_t deadline = measure_now() + session_.timeout_ns();
    coppice_status_t status = COPPICE_ERR_BUSY;
    while (true) {
        status = coppice_broadcast_view_nb(session_.group(), payload_, bytes, root, &request_);
        if (status != COPPICE_ERR_BUSY || measure_now() > deadline) break;
        sched_yield();
    }
    if (status != COPPICE_OK) return status;
    status = coppice_request_wait(request_, nullptr, session_.timeout_ns());
    if (status != COPPICE_OK) return status;
    const void* memory = nullptr;
    std::size_t size = 0;
    status = coppice_request_view(request_, &memory, &size);
    view_ = {static_cast<const std::byte*>(memory), size};
    return status;
}

// Sorts one broadcast's end into the tally. A Failure when this rank can't go on.
std::optional<Failure> Run::count(coppice_status_t status, std::span<const std::byte> payload, std::uint64_t bytes) {
    Tally& mine = tally();
    const std::uint32_t root = schedule_.root_of(sequence_);
    switch (status) {
        case COPPICE_OK:
            break;
        case COPPICE_ERR_ROOT_FAILED:
            session_.learn_failures();
            ++(session_.is_dead(root) ? mine.root_failed : mine.lost);
            return std::nullopt;
        case COPPICE_ERR_PEER_FAILED:
            ++mine.lost;
            return std::nullopt;
        default:
            return library_failure(fmt::format("broadcast {} (root {}, {} bytes)", sequence_, root, bytes), status);
    }
    ++mine.deliveries;
    if (!settings_.verify) return std::nullopt;
    const Verdict verdict = check_payload(payload, bytes, sequence_, schedule_);
    mine.duplicate += verdict == Verdict::earlier;
    mine.lost += verdict == Verdict::later;
    mine.corrupt += verdict == Verdict::corrupt;
    // So that a buffer which is not written at all does not pass for the last payload's second delivery.
    if (root != session_.rank() && !settings_.view) std::fill_n(buffer_.begin(), bytes, std::byte{0xee});
    return std::nullopt;
}

// Staggered: ranks call one after the other, the root first, so that nobody ever waits inside the library.
std::optional<Failure> Run::wait_for_turn() {
    const std::uint32_t root = schedule_.root_of(sequence_);
    if (session_.rank() == root) return std::nullopt;
    const std::uint32_t before = (session_.rank() + session_.ranks() - 1) % session_.ranks();
    const Record predecessor(session_.area(), before);
    const auto ready = [&] {
        return __atomic_load_n(&predecessor.tally().finished, __ATOMIC_ACQUIRE) > sequence_ || session_.is_gone(before);
    };
    for (int polls = 0; polls < 1'000'000 && !ready(); ++polls)
        sched_yield();
    return session_.wait_until("the rank before", ready);
}

// Everybody writes down whose death it knows; then waits a little until it knows of all that anybody knows of.
std::optional<Failure> Run::tell() {
    const auto write_down = [this] {
        for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
            __atomic_store_n(&Record(session_.area(), session_.rank()).noticed(rank), session_.noticed(rank),
                             __ATOMIC_RELEASE);
        }
    };
    const auto knows_all = [this] {
        for (std::uint32_t witness = 0; witness < session_.ranks(); ++witness) {
            for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
                const Record record(session_.area(), witness);
                if (__atomic_load_n(&record.noticed(rank), __ATOMIC_ACQUIRE) != 0 && !session_.is_dead(rank))
                    return false;
            }
        }
        return true;
    };
    write_down();
    if (auto failure = session_.barrier()) return failure;
    auto failure = session_.wait_for_notices(knows_all);
    if (failure) return failure;
    write_down();
    if (shown_ns_ != 0) fmt::print(stderr, "\r{:60}\r", "");
    std::optional<Failure> trouble;
    failure = session_.barrier([&] {
        report_->summary(start_ns_);
        clean_ = report_->clean();
        if (!settings_.json_file.empty()) trouble = report_->write_json();
    });
    const Tally& mine = tally();
    clean_ = clean_ && mine.lost == 0 && mine.corrupt == 0 && mine.duplicate == 0;
    return failure ? failure : trouble;
}

void Run::show_progress(std::uint64_t done, std::uint64_t all) {
    const std::uint64_t now = measure_now();
    if (now - std::max(shown_ns_, start_ns_) < kProgressEvery || isatty(STDERR_FILENO) == 0) return;
    std::uint32_t dead = 0;
    for (std::uint32_t rank = 0; rank < session_.ranks(); ++rank) {
        if (session_.is_dead(rank)) {
            ++dead;
        } else if (rank < session_.rank() && dead == rank) {
            return;  // a lower rank lives: it shows
        }
    }
    shown_ns_ = now;
    fmt::print(stderr, "\r{} of {} broadcasts, {} ranks dead ", done, all, dead);
    std::fflush(stderr);
}

}  // namespace

int run_broadcast(const GroupSettings& group, const BroadcastSettings& settings) {
    return measure_in_session<Run>(group, settings);
}

}  // namespace perf
