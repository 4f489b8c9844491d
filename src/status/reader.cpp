#include "status/reader.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/host.hpp"

namespace coppice::status {
namespace {

constexpr int kMostTries = 100;

template <class... Parts>
tl::unexpected<ReadError> trouble(Trouble what, fmt::format_string<Parts...> text, Parts&&... parts) {
    return tl::unexpected(ReadError{what, fmt::format(text, std::forward<Parts>(parts)...)});
}

bool read_all(int file, void* to, std::size_t bytes, std::size_t at) {
    auto* const begin = static_cast<std::byte*>(to);
    for (std::size_t have = 0; have < bytes;) {
        const ssize_t got = pread(file, begin + have, bytes - have, static_cast<off_t>(at + have));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        have += static_cast<std::size_t>(got);
    }
    return true;
}

// A word of the page, by itself: the kernel copies it whole.
std::optional<std::uint64_t> reports_of(int file) {
    std::uint64_t number = 0;
    if (!read_all(file, &number, sizeof number, offsetof(Header, reports))) return std::nullopt;
    return number;
}

// Up to the zero; control characters, which a terminal might obey, become dots.
template <std::size_t size>
std::string text_of(const Text<size>& text) {
    std::string clean(text.begin(), std::find(text.begin(), text.end(), '\0'));
    for (char& one : clean)
        if (static_cast<unsigned char>(one) < 0x20 || static_cast<unsigned char>(one) >= 0x7f) one = '.';
    return clean;
}

// Names that end with a space each. One that is no name of a host is left out: it may come to stand in a command.
template <std::size_t size>
std::vector<std::string> names_of(const Text<size>& text) {
    std::vector<std::string> names;
    std::string_view rest(text.data(), static_cast<std::size_t>(std::ranges::find(text, '\0') - text.begin()));
    for (std::size_t end = rest.find(' '); end != std::string_view::npos; end = rest.find(' ')) {
        if (is_host_name(rest.substr(0, end))) names.emplace_back(rest.substr(0, end));
        rest.remove_prefix(end + 1);
    }
    return names;
}

// Within bounds, whatever was there.
void tame(Report& report) {
    report.groups_count = std::min(report.groups_count, kMostGroups);
    report.operations_count = std::min(report.operations_count, kMostOperations);
    for (Group& group : report.groups) {
        group.slot = std::min(group.slot, kMostGroups - 1);
        if (group.standing > Standing::without_quorum) group.standing = Standing::member;
        set_text(group.transports, text_of(group.transports));
    }
    for (Operation& operation : report.operations) {
        if (operation.group != kNoGroup && operation.group >= report.groups_count) operation.group = kNoGroup;
        if (static_cast<std::uint32_t>(operation.kind) >= kKinds) operation.kind = Kind::none;
        operation.waits.count = std::min(operation.waits.count, kMostWaits);
        for (Wait& wait : operation.waits.ranks)
            if (static_cast<std::uint32_t>(wait.why) >= kWhys) wait.why = Why::none;
    }
}

tl::expected<void, ReadError> check(const Header& header, std::size_t bytes) {
    if (header.magic != kMagic) return trouble(Trouble::garbage, "it does not begin like a status page");
    if (header.version != kVersion) {
        return trouble(
            header.version > kVersion ? Trouble::newer : Trouble::older,
            "its version is {}, of library {}; this tool reads version {}: use that library's coppice-status",
            header.version, text_of(header.library), kVersion);
    }
    if (header.bytes != sizeof(Page) || bytes < sizeof(Page))
        return trouble(Trouble::garbage, "it says that it has {} bytes, has {}, and should have {}", header.bytes,
                       bytes, sizeof(Page));
    return {};
}

tl::unexpected<ReadError> failed(const std::string& what) {
    const int why = errno;
    const Trouble kind = why == EACCES || why == EPERM ? Trouble::forbidden : Trouble::gone;
    return trouble(kind, "{}: {}", what, std::strerror(why));
}

std::optional<pid_t> number_in(const char* name) {
    pid_t number = 0;
    const char* const end = name + std::strlen(name);
    const auto [at, error] = std::from_chars(name, end, number);
    return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

struct Close {
    void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, Close>;

// A link that the kernel shows for a descriptor.
bool names_a_page(int folder, const char* link) {
    char target[64];
    const ssize_t length = readlinkat(folder, link, target, sizeof target);
    if (length <= 0) return false;
    std::string_view text(target, static_cast<std::size_t>(length));
    constexpr std::string_view kPrefix = "/memfd:";
    constexpr std::string_view kName = kFileName;
    if (!text.starts_with(kPrefix)) return false;
    text.remove_prefix(kPrefix.size());
    return text.starts_with(kName) && (text.size() == kName.size() || text[kName.size()] == ' ');
}

}  // namespace

tl::expected<Snapshot, ReadError> read_page(int descriptor) {
    struct stat about {};
    if (fstat(descriptor, &about) != 0) return failed("fstat");
    const auto bytes = static_cast<std::size_t>(about.st_size);
    const auto page = std::make_unique<std::array<std::byte, sizeof(Page)>>();
    Header& header = *new (page->data()) Header;
    // Of another version only the beginning is like ours.
    const std::size_t beginning = std::min(bytes, sizeof(Header));
    if (beginning < offsetof(Header, job) || !read_all(descriptor, &header, beginning, 0))
        return trouble(Trouble::garbage, "it is too short for a status page: {} bytes", bytes);
    if (auto good = check(header, bytes); !good) return tl::unexpected(std::move(good.error()));

    Snapshot snapshot;
    for (int tries = 0; tries < kMostTries; ++tries) {
        const auto number = reports_of(descriptor);
        if (!number) return failed("read");
        const std::size_t place = offsetof(Page, places) + *number % 2 * sizeof(Report);
        if (!read_all(descriptor, &snapshot.report, sizeof(Report), place) ||
            !read_all(descriptor, &header, sizeof(Header), 0))
            return failed("read");
        if (reports_of(descriptor) != number) continue;
        if (snapshot.report.number != *number) return trouble(Trouble::garbage, "its last report is damaged");
        tame(snapshot.report);
        snapshot.pid = header.pid;
        snapshot.start_time = header.start_time;
        snapshot.library = text_of(header.library);
        snapshot.job = text_of(header.job);
        snapshot.host = text_of(header.host);
        snapshot.program = text_of(header.program);
        snapshot.made_ns = header.made_ns;
        const std::uint32_t state = header.state.read();
        snapshot.state = state <= static_cast<std::uint32_t>(State::closed) ? static_cast<State>(state) : State::none;
        snapshot.hosts = names_of(header.hosts);
        for (std::uint32_t slot = 0; slot < kMostGroups; ++slot)
            snapshot.entered[slot] = {header.entered[slot].broadcasts.get(), header.entered[slot].agreements.get()};
        return snapshot;
    }
    return trouble(Trouble::restless, "it was written anew each of the {} times that it was read", kMostTries);
}

tl::expected<std::string, ReadError> copy_page(int descriptor) {
    std::string copy(sizeof(Page), '\0');
    for (int tries = 0; tries < kMostTries; ++tries) {
        const auto before = reports_of(descriptor);
        if (!before || !read_all(descriptor, copy.data(), copy.size(), 0)) return failed("read");
        if (reports_of(descriptor) == before) return copy;
    }
    return trouble(Trouble::restless, "it was written anew each of the {} times that it was read", kMostTries);
}

tl::expected<std::vector<PagePlace>, ReadError> pages_of(pid_t holder) {
    const std::string path = fmt::format("/proc/{}/fd", holder);
    const Folder folder(opendir(path.c_str()));
    if (!folder) return failed(path);
    std::vector<PagePlace> places;
    while (const dirent* const entry = readdir(folder.get())) {
        const auto number = number_in(entry->d_name);
        if (number && names_a_page(dirfd(folder.get()), entry->d_name)) places.push_back({holder, *number});
    }
    return places;
}

bool is_page(const PagePlace& place) {
    return names_a_page(AT_FDCWD, fmt::format("/proc/{}/fd/{}", place.holder, place.number).c_str());
}

tl::expected<int, ReadError> open_page(const PagePlace& place) {
    const std::string path = fmt::format("/proc/{}/fd/{}", place.holder, place.number);
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return failed(path);
    return file;
}

std::optional<Process> look_at(pid_t pid) {
    const int file = open(fmt::format("/proc/{}/status", pid).c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    char buffer[4096];
    const ssize_t got = read(file, buffer, sizeof buffer);
    close(file);
    if (got <= 0) return std::nullopt;
    Process process;
    process.start_time = process_start_time(pid);
    std::string_view rest(buffer, static_cast<std::size_t>(got));
    const auto number = [](std::string_view text) {
        long value = 0;
        std::from_chars(text.data(), text.data() + text.size(), value);
        return value;
    };
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        const std::size_t colon = line.find(":\t");
        if (colon == std::string_view::npos) continue;
        const std::string_view key = line.substr(0, colon);
        std::string_view value = line.substr(colon + 2);
        if (key == "State" && !value.empty()) process.state = value[0];
        if (key == "PPid") process.parent = static_cast<pid_t>(number(value));
        if (key == "TracerPid") process.tracer = static_cast<pid_t>(number(value));
        if (key == "Uid") process.user = static_cast<uid_t>(number(value));
        if (key != "NSpid") continue;
        while (!value.empty()) {
            process.numbers.push_back(static_cast<pid_t>(number(value)));
            const std::size_t tab = value.find('\t');
            value.remove_prefix(tab == std::string_view::npos ? value.size() : tab + 1);
        }
    }
    return process;
}

bool is_page_closed(int descriptor) {
    std::uint32_t state = 0;
    return read_all(descriptor, &state, sizeof state, offsetof(Header, state)) &&
           state == static_cast<std::uint32_t>(State::closed);
}

bool is_owner(const Snapshot& page, const Process& holder) {
    const pid_t own = holder.numbers.empty() ? 0 : holder.numbers.back();
    return page.pid == own && page.start_time == holder.start_time;
}

std::vector<pid_t> all_processes() {
    std::vector<pid_t> pids;
    const Folder folder(opendir("/proc"));
    if (!folder) return pids;
    while (const dirent* const entry = readdir(folder.get()))
        if (const auto pid = number_in(entry->d_name)) pids.push_back(*pid);
    std::ranges::sort(pids);
    return pids;
}

}  // namespace coppice::status
