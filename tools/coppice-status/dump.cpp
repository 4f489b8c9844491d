#include "dump.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace coppice::show {
namespace {

using status::Trouble;

constexpr std::array<char, 8> kDumpMagic{'C', 'o', 'p', 'p', 'D', 'u', 'm', 'p'};
constexpr std::uint32_t kMostPages = 65536;
constexpr std::uint32_t kMostAncestors = 64;

struct DumpHeader {
    std::array<char, 8> magic = kDumpMagic;
    std::uint32_t version = status::kVersion;
    std::uint32_t pages = 0;
    std::uint64_t now_ns = 0;
    std::uint32_t hidden = 0;
    std::uint32_t page_bytes = sizeof(status::Page);
};

// Before each page; ancestors, a number each, and the page's bytes follow.
struct DumpEntry {
    std::int32_t pid = 0;
    std::int32_t parent = 0;
    std::int32_t tracer = 0;
    std::uint32_t ancestors = 0;
    char state = '?';
    std::uint8_t ended = 0;
    std::array<std::uint8_t, 6> unused{};
};

template <class Value>
void put(std::string& bytes, const Value& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class Value>
bool get(std::string_view& bytes, Value& value) {
    if (bytes.size() < sizeof value) return false;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return true;
}

// Reads it as any page is read: from a descriptor.
tl::expected<status::Snapshot, status::ReadError> read_copy(std::string_view page) {
    const int file = memfd_create("copy", MFD_CLOEXEC);
    if (file < 0) return tl::unexpected(status::ReadError{Trouble::gone, std::strerror(errno)});
    const bool written = pwrite(file, page.data(), page.size(), 0) == static_cast<ssize_t>(page.size());
    auto read = status::read_page(file);
    close(file);
    if (!written) return tl::unexpected(status::ReadError{Trouble::gone, "no memory for a copy"});
    return read;
}

void move_times(status::Snapshot& page, std::uint64_t shift_ns) {
    page.made_ns += shift_ns;
    page.report.written_ns += shift_ns;
    for (status::Operation& operation : page.report.operations)
        operation.since_ns += shift_ns;
}

}  // namespace

std::string dump(const Everything& all) {
    std::string bytes;
    put(bytes, DumpHeader{.pages = static_cast<std::uint32_t>(std::min<std::size_t>(all.pages.size(), kMostPages)),
                          .now_ns = all.now_ns,
                          .hidden = all.hidden});
    for (const Seen& seen : all.pages) {
        if (seen.bytes.size() != sizeof(status::Page)) continue;
        DumpEntry entry{.pid = seen.pid,
                        .parent = seen.process.parent,
                        .tracer = seen.process.tracer,
                        .ancestors = static_cast<std::uint32_t>(seen.ancestors.size()),
                        .state = seen.process.state,
                        .ended = static_cast<std::uint8_t>(seen.ended)};
        put(bytes, entry);
        for (const pid_t ancestor : seen.ancestors)
            put(bytes, static_cast<std::int32_t>(ancestor));
        bytes += seen.bytes;
    }
    return bytes;
}

bool take_dump(std::string_view bytes, const std::string& host, Everything& all) {
    DumpHeader header;
    if (!get(bytes, header) || header.magic != kDumpMagic || header.version != status::kVersion ||
        header.page_bytes != sizeof(status::Page) || header.pages > kMostPages)
        return false;
    std::vector<Seen> pages;
    std::vector<Problem> problems;
    while (!bytes.empty()) {
        DumpEntry entry;
        if (!get(bytes, entry) || entry.ancestors > kMostAncestors) return false;
        Seen seen;
        for (std::uint32_t i = 0; i < entry.ancestors; ++i) {
            std::int32_t ancestor = 0;
            if (!get(bytes, ancestor)) return false;
            seen.ancestors.push_back(ancestor);
        }
        if (bytes.size() < sizeof(status::Page)) return false;
        auto page = read_copy(bytes.substr(0, sizeof(status::Page)));
        bytes.remove_prefix(sizeof(status::Page));
        if (!page) {
            Problem& problem = problems.emplace_back();
            problem.pid = entry.pid;
            problem.error = std::move(page.error());
            problem.host = host;
            continue;
        }
        seen.page = std::move(*page);
        seen.pid = entry.pid;
        seen.ended = entry.ended != 0;
        seen.process.state = entry.state;
        seen.process.parent = entry.parent;
        seen.process.tracer = entry.tracer;
        seen.elsewhere = true;
        move_times(seen.page, all.now_ns - header.now_ns);
        pages.push_back(std::move(seen));
    }
    std::ranges::move(pages, std::back_inserter(all.pages));
    std::ranges::move(problems, std::back_inserter(all.problems));
    all.hidden += header.hidden;
    return true;
}

}  // namespace coppice::show
