#include "trace/recorder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/mix.hpp"
#include "base/process.hpp"

namespace coppice::trace {
namespace {

// Contexts of one process, and files that were left by one with the same number.
constexpr int kMostNames = 1000;

int thread_number() {
    thread_local const int number = gettid();
    return number;
}

// Text for a JSON string.
std::string plain(std::string_view text) {
    std::string kept;
    for (const char letter : text)
        if (letter >= ' ' && letter < 127 && letter != '"' && letter != '\\') kept += letter;
    return kept;
}

std::string first_line(const char* path) {
    std::array<char, 128> text{};
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return {};
    const ssize_t size = read(file, text.data(), text.size());
    close(file);
    const std::string_view read_text(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    return plain(read_text.substr(0, read_text.find('\n')));
}

// The same for processes whose CLOCK_MONOTONIC is the same: of one kernel, and of one time namespace.
std::string clock_name() {
    std::array<char, 64> time{};
    const ssize_t size = readlink("/proc/self/ns/time", time.data(), time.size());
    return fmt::format("{} {}", first_line("/proc/sys/kernel/random/boot_id"),
                       plain({time.data(), size > 0 ? static_cast<std::size_t>(size) : 0}));
}

std::string host_name() {
    std::array<char, 65> host{};
    gethostname(host.data(), host.size() - 1);
    return plain(host.data());
}

// Microseconds, as the format has it, with all nanoseconds.
struct Time {
    std::uint64_t ns;
};

// What an arrow from a root to those that have its payload goes by.
std::uint64_t arrow_of(const Operation& operation) {
    return mix(mix(std::uint64_t{operation.token} << 32 | operation.epoch) ^ operation.number);
}

}  // namespace
}  // namespace coppice::trace

template <>
struct fmt::formatter<coppice::trace::Time> {
    constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
    template <class Context>
    auto format(const coppice::trace::Time& time, Context& context) const {
        return fmt::format_to(context.out(), "{}.{:03}", time.ns / 1000, time.ns % 1000);
    }
};

namespace coppice::trace {

const char* name_of(status::Kind kind) {
    switch (kind) {
        case status::Kind::broadcast:
            return "broadcast";
        case status::Kind::agreement:
            return "agreement";
        case status::Kind::barrier:
            return "barrier";
        case status::Kind::renewal:
            return "renewal";
        case status::Kind::leaving:
            return "leaving";
        case status::Kind::creation:
            return "creation";
        case status::Kind::none:
            break;
    }
    return "operation";
}

// ------------------------------------------------------------------------------------------------------- the file ---

Result<std::unique_ptr<Recorder>> Recorder::make(const std::string& file, const Clock& clock) {
    const std::string host = host_name();
    std::string path;
    int descriptor = -1;
    for (int name = 1; descriptor < 0 && name <= kMostNames; ++name) {
        path = fmt::format("{}.{}.{}", file, host, getpid());
        if (name > 1) path += fmt::format(".{}", name);
        descriptor = process::open_own([&] { return open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); });
        if (descriptor < 0 && errno != EEXIST) break;
    }
    if (descriptor < 0) return fail(COPPICE_ERR_CONFIG, "COPPICE_TRACE: {}: {}", path, std::strerror(errno));
    std::unique_ptr<Recorder> recorder(new Recorder(clock, descriptor, path));
    if (!recorder->next_chunk()) {
        const int why = errno;
        unlink(path.c_str());
        return fail(COPPICE_ERR_CONFIG, "COPPICE_TRACE: {}: {}", path, std::strerror(why));
    }
    timespec real{};
    clock_gettime(CLOCK_REALTIME, &real);
    const auto real_ns =
        static_cast<std::uint64_t>(real.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(real.tv_nsec);
    recorder->append("[");
    recorder->append(
        fmt::format("\n{{\"ph\":\"M\",\"name\":\"coppice\",\"pid\":{},\"tid\":{},\"ts\":{},\"args\":{{\"format\":1,"
                    "\"host\":\"{}\",\"clock\":\"{}\","
                    "\"unix_us\":{}}}}}",
                    getpid(), thread_number(), Time{clock.now_ns()}, host, clock_name(), Time{real_ns}));
    return recorder;
}

Recorder::~Recorder() {
    if (process::in_forked_child()) {
        if (chunk_ != nullptr) munmap(chunk_, kChunk);
        return;
    }
    if (!stopped_) append("\n]\n");
    unmap();
    process::close_own(descriptor_);
}

// Written first, and not only made room for: a store to a page of a file that has no room for it ends the process.
bool Recorder::next_chunk() {
    static constexpr auto kSpaces = [] {
        std::array<char, 4096> spaces{};
        spaces.fill(' ');
        return spaces;
    }();
    const auto begin = static_cast<off_t>(chunks_ * kChunk);
    // Beyond it a write is answered by a signal.
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < (chunks_ + 1) * kChunk) {
        errno = EFBIG;
        return false;
    }
    for (std::size_t done = 0; done < kChunk;) {
        const ssize_t written = pwrite(descriptor_, kSpaces.data(), std::min(kSpaces.size(), kChunk - done),
                                       begin + static_cast<off_t>(done));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        done += static_cast<std::size_t>(written);
    }
    void* const memory = mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, begin);
    if (memory == MAP_FAILED) return false;
    if (chunk_ != nullptr) munmap(chunk_, kChunk);
    chunk_ = static_cast<char*>(memory);
    used_ = 0;
    ++chunks_;
    return true;
}

// What is behind the last record is cut off.
void Recorder::unmap() {
    if (chunk_ == nullptr) return;
    munmap(chunk_, kChunk);
    chunk_ = nullptr;
    if (ftruncate(descriptor_, static_cast<off_t>((chunks_ - 1) * kChunk + used_)) != 0)
        return;  // it ends with spaces, then
}

void Recorder::stop(const char* why) {
    stopped_ = true;
    unmap();
    std::fprintf(stderr, "coppice: the trace %s ends here: %s\n", path_.c_str(), why);
}

void Recorder::append(std::string_view text) {
    while (!text.empty() && !stopped_) {
        if (used_ == kChunk) {
            if (chunks_ * kChunk >= kMostBytes) return stop("it is as long as one may be");
            if (!next_chunk()) return stop(std::strerror(errno));
        }
        const std::size_t now = std::min(text.size(), kChunk - used_);
        std::memcpy(chunk_ + used_, text.data(), now);
        used_ += now;
        text.remove_prefix(now);
    }
}

template <class... Arguments>
void Recorder::record(std::string_view format, const Arguments&... arguments) {
    if (stopped_ || process::in_forked_child()) return;
    std::array<char, kLongest> text;
    const auto written = fmt::vformat_to_n(text.data(), text.size(), format, fmt::make_format_args(arguments...));
    append({text.data(), std::min(written.size, text.size())});
}

// -------------------------------------------------------------------------------------------------------- records ---

void Recorder::is_rank(std::uint32_t rank, std::uint32_t size, const Operation& group) {
    record(
        ",\n{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"tid\":{},\"ts\":{},\"args\":{{\"name\":\"rank {} of "
        "{}\",\"rank\":{},"
        "\"group\":\"{:08x}.{}\"}}}}",
        getpid(), thread_number(), Time{now_ns()}, rank, size, rank, group.token, group.epoch);
}

void Recorder::call_begins(std::string_view name, const Operation& operation, std::size_t bytes) {
    if (operation.kind == status::Kind::broadcast) {
        record(
            ",\n{{\"ph\":\"B\",\"name\":\"{}\",\"cat\":\"call\",\"pid\":{},\"tid\":{},\"ts\":{},\"args\":{{\"of\":"
            "\"broadcast\","
            "\"group\":\"{:08x}.{}\",\"number\":{},\"root\":{},\"bytes\":{}}}}}",
            name, getpid(), thread_number(), Time{now_ns()}, operation.token, operation.epoch, operation.number,
            operation.root, bytes);
    } else {
        record(
            ",\n{{\"ph\":\"B\",\"name\":\"{}\",\"cat\":\"call\",\"pid\":{},\"tid\":{},\"ts\":{},\"args\":{{\"of\":\"{}"
            "\","
            "\"group\":\"{:08x}.{}\",\"number\":{}}}}}",
            name, getpid(), thread_number(), Time{now_ns()}, name_of(operation.kind), operation.token, operation.epoch,
            operation.number);
    }
}

void Recorder::call_ends(const Operation& operation, int status) {
    record(
        ",\n{{\"ph\":\"E\",\"pid\":{},\"tid\":{},\"ts\":{},\"args\":{{\"of\":\"{}\",\"group\":\"{:08x}.{}\",\"number\":"
        "{},\"status\":{}}}}}",
        getpid(), thread_number(), Time{now_ns()}, name_of(operation.kind), operation.token, operation.epoch,
        operation.number, status);
}

void Recorder::request_begins(const Operation& operation, std::size_t bytes, std::uint64_t at_ns) {
    record(
        ",\n{{\"ph\":\"b\",\"name\":\"{0}\",\"cat\":\"request\",\"id2\":{{\"local\":\"{4:08x}.{5}-{0}-{6}\"}},\"pid\":{"
        "1},\"tid\":{2},\"ts\":{3},"
        "\"args\":{{\"of\":\"{0}\",\"group\":\"{4:08x}.{5}\",\"number\":{6},\"root\":{7},\"bytes\":{8}}}}}",
        name_of(operation.kind), getpid(), thread_number(), Time{at_ns}, operation.token, operation.epoch,
        operation.number, operation.root, bytes);
}

void Recorder::request_ends(const Operation& operation, int status) {
    record(
        ",\n{{\"ph\":\"e\",\"name\":\"{0}\",\"cat\":\"request\",\"id2\":{{\"local\":\"{4:08x}.{5}-{0}-{6}\"}},\"pid\":{"
        "1},\"tid\":{2},\"ts\":{3},"
        "\"args\":{{\"of\":\"{0}\",\"group\":\"{4:08x}.{5}\",\"number\":{6},\"status\":{7}}}}}",
        name_of(operation.kind), getpid(), thread_number(), Time{now_ns()}, operation.token, operation.epoch,
        operation.number, status);
}

void Recorder::payload(const Operation& operation, std::size_t bytes, bool is_root) {
    record(
        ",\n{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"payload\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":0,\"bind_id\":"
        "\"0x{:x}\",\"{}\":true,"
        "\"args\":{{\"of\":\"broadcast\",\"group\":\"{:08x}.{}\",\"number\":{},\"root\":{},\"bytes\":{}}}}}",
        is_root ? "payload given" : "payload here", getpid(), thread_number(), Time{now_ns()}, arrow_of(operation),
        is_root ? "flow_out" : "flow_in", operation.token, operation.epoch, operation.number, operation.root, bytes);
}

void Recorder::member(std::string_view what, const Operation& group, std::uint32_t rank) {
    record(
        ",\n{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"rank {0} {1}\",\"cat\":\"member\",\"pid\":{2},\"tid\":{3},\"ts\":{4},"
        "\"args\":{{\"group\":\"{5:08x}.{6}\",\"rank\":{0},\"what\":\"{1}\"}}}}",
        rank, what, getpid(), thread_number(), Time{now_ns()}, group.token, group.epoch);
}

}  // namespace coppice::trace
