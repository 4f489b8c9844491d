#include "transport/cpu_quota.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>

#include "base/host.hpp"

namespace coppice::transport {
namespace {

// A path that is put together in place. One that is too long is none.
class Path {
  public:
    void assign(std::string_view text) {
        length_ = 0;
        append(text);
    }
    void append(std::string_view text) {
        if (length_ + text.size() >= text_.size()) {
            fits_ = false;
            return;
        }
        std::memcpy(text_.data() + length_, text.data(), text.size());
        length_ += text.size();
        text_[length_] = '\0';
    }
    void shorten(std::size_t length) {
        length_ = length;
        text_[length_] = '\0';
    }
    std::size_t length() const { return length_; }
    std::string_view view() const { return {text_.data(), length_}; }
    const char* c_str() const { return text_.data(); }
    bool fits() const { return fits_; }

  private:
    std::array<char, 1024> text_{};
    std::size_t length_ = 0;
    bool fits_ = true;
};

std::string_view read_file(const char* path, std::span<char> into) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return {};
    const ssize_t bytes = read(file, into.data(), into.size());
    close(file);
    return {into.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
}

// The number that the text begins with; nothing for "max" and for −1, which mean that there is no quota.
std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return std::nullopt;
    return value;
}

struct Group {
    Path& directory;
    std::array<char, 2048> text;

    std::string_view read(std::string_view file) {
        const std::size_t length = directory.length();
        directory.append(file);
        const std::string_view read = directory.fits() ? read_file(directory.c_str(), text) : std::string_view();
        directory.shorten(length);
        return read;
    }

    std::optional<double> quota_2() {
        const std::string_view text_of_max = read("/cpu.max");
        const auto quota = number(text_of_max);
        const std::size_t space = text_of_max.find(' ');
        if (!quota || space == std::string_view::npos) return std::nullopt;
        const auto period = number(text_of_max.substr(space + 1));
        if (!period || *period == 0) return std::nullopt;
        return static_cast<double>(*quota) / static_cast<double>(*period);
    }
    std::optional<double> quota_1() {
        const auto quota = number(read("/cpu.cfs_quota_us"));
        if (!quota) return std::nullopt;
        const auto period = number(read("/cpu.cfs_period_us"));
        if (!period || *period == 0) return std::nullopt;
        return static_cast<double>(*quota) / static_cast<double>(*period);
    }
    std::uint64_t stops() {
        constexpr std::string_view kKey = "nr_throttled ";
        const std::string_view stat = read("/cpu.stat");
        const std::size_t at = stat.find(kKey);
        return at == std::string_view::npos ? 0 : number(stat.substr(at + kKey.size())).value_or(0);
    }
};

// The group at that place below `top`, and those above it.
void climb(std::string_view top, std::string_view place, std::optional<CpuQuota::Bound>& tightest) {
    Path directory;
    directory.assign(top);
    // Outside of what this process may see of the groups: the top is all there is.
    if (place.find("..") == std::string_view::npos && place != "/") directory.append(place);
    Group group{directory, {}};
    while (directory.fits()) {
        auto cores = group.quota_2();
        if (!cores) cores = group.quota_1();
        if (cores && (!tightest || *cores < tightest->cores)) tightest = CpuQuota::Bound{*cores, group.stops()};
        if (directory.length() <= top.size()) return;
        directory.shorten(std::max(top.size(), directory.view().rfind('/')));
    }
}

bool names_cpu(std::string_view controllers) {
    while (!controllers.empty()) {
        const std::size_t comma = std::min(controllers.find(','), controllers.size());
        if (controllers.substr(0, comma) == "cpu") return true;
        controllers.remove_prefix(std::min(comma + 1, controllers.size()));
    }
    return false;
}

}  // namespace

// Lines of number:controllers:place; version 2 has the number 0 and no controllers.
std::optional<CpuQuota::Bound> CpuQuota::bound() const {
    std::array<char, 4096> text;
    std::string_view rest = read_file(membership_.data(), text);
    std::optional<Bound> tightest;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const std::string_view place = line.substr(second + 1);
        Path top;
        top.assign(mount_);
        if (controllers.empty()) {
            climb(top.view(), place, tightest);
            top.append("/unified");
            climb(top.view(), place, tightest);
        } else if (names_cpu(controllers)) {
            top.append("/");
            top.append(controllers);
            climb(top.view(), place, tightest);
        }
    }
    return tightest;
}

bool CpuQuota::look(double cores) {
    const auto found = bound();
    const bool first = !std::exchange(looked_, true);
    const std::uint64_t before = std::exchange(stops_, found ? found->stops : 0);
    if (!found) {
        remembered_ = 0;
    } else if (first ? found->cores < cores : found->stops > before) {
        remembered_ = kRemembered;
    } else if (remembered_ > 0) {
        --remembered_;
    }
    return remembered_ > 0;
}

void look_at_quota(std::uint64_t now_ns) {
    static CpuQuota quota("/proc/self/cgroup", "/sys/fs/cgroup");
    static constinit shared::State<bool> looking;
    if (looking.exchange(true)) return;
    quota_limits.set(quota.look(own_cores()));
    next_quota_look_ns.set(now_ns + kLookEveryNs);
    looking.set(false);
}

}  // namespace coppice::transport
