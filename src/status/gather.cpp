#include "status/gather.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/clock.hpp"

namespace coppice::show {
namespace {

using status::ReadError;
using status::Trouble;
using File = std::pair<dev_t, ino_t>;

class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { close(number_); }
    int number() const { return number_; }

  private:
    int number_;
};

// By job, then by rank.
std::tuple<std::string, std::uint32_t, pid_t> order(const Seen& seen) {
    const auto& report = seen.page.report;
    return {seen.page.job, report.groups_count > 0 ? report.groups[0].rank : UINT32_MAX, seen.pid};
}

class Search {
  public:
    explicit Search(Bytes bytes) : bytes_(bytes) {}

    Everything run() {
        const std::vector<pid_t> pids = status::all_processes();
        for (const pid_t pid : pids)
            look_into(pid);
        found_.now_ns = now_ns();
        for (auto& [file, seen] : by_file_) {
            // Its context was destroyed: another process still has it open, or the owner is about to close it.
            if (seen.page.state == status::State::closed) continue;
            for (pid_t at = seen.ended ? 0 : seen.process.parent; at > 0;) {
                seen.ancestors.push_back(at);
                const auto next = status::look_at(at);
                at = next && seen.ancestors.size() < kMostAncestors ? next->parent : 0;
            }
            found_.pages.push_back(std::move(seen));
        }
        sort_pages(found_);
        return std::move(found_);
    }

  private:
    static constexpr std::size_t kMostAncestors = 64;

    void look_into(pid_t pid) {
        const auto places = status::pages_of(pid);
        if (!places) {
            if (places.error().trouble == Trouble::forbidden) ++found_.hidden;
            return;
        }
        for (const status::PagePlace& place : *places)
            take(place);
    }

    void take(const status::PagePlace& place) {
        const auto file = status::open_page(place);
        if (!file) return add_problem(place.holder, file.error());
        const Descriptor descriptor(*file);
        struct stat about {};
        if (fstat(descriptor.number(), &about) != 0) return;
        const File name{about.st_dev, about.st_ino};
        const auto known = by_file_.find(name);
        if (known != by_file_.end() && !known->second.ended) return;
        auto page = status::read_page(descriptor.number());
        if (!page) return add_problem(place.holder, page.error());
        std::string bytes;
        if (bytes_ == Bytes::kept) {
            auto copy = status::copy_page(descriptor.number());
            if (!copy) return add_problem(place.holder, copy.error());
            bytes = std::move(*copy);
        }
        const auto holder = status::look_at(place.holder);
        Seen seen{.page = std::move(*page), .pid = 0, .ended = true, .process = {}, .ancestors = {}};
        seen.pid = seen.page.pid;
        seen.bytes = std::move(bytes);
        if (holder && status::is_owner(seen.page, *holder)) {
            seen.pid = place.holder;
            seen.ended = false;
            seen.process = *holder;
        }
        by_file_.insert_or_assign(name, std::move(seen));
    }

    // A process that ends meanwhile is none.
    void add_problem(pid_t pid, const ReadError& error) {
        if (error.trouble != Trouble::gone) found_.problems.push_back({.pid = pid, .error = error});
    }

    Bytes bytes_;
    Everything found_;
    std::map<File, Seen> by_file_;
};

}  // namespace

Everything gather(Bytes bytes) {
    return Search(bytes).run();
}

void sort_pages(Everything& all) {
    std::ranges::sort(all.pages, {}, order);
}

std::string state_of(const Seen& seen) {
    if (seen.ended) return "ended";
    const status::Process& process = seen.process;
    if (process.state == 't' || (process.state == 'T' && process.tracer != 0))
        return process.tracer != 0 ? fmt::format("held by a debugger (pid {})", process.tracer) : "held by a debugger";
    switch (process.state) {
        case 'R':
            return "running";
        case 'S':
            return "sleeping";
        case 'D':
            return "waiting for a device";
        case 'T':
            return "stopped";
        case 'Z':
        case 'X':
            return "ended";
        default:
            return fmt::format("state {}", process.state);
    }
}

}  // namespace coppice::show
