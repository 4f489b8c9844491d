#include "bootstrap/pmi_connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/clock.hpp"
#include "bootstrap/launcher_protocol.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::size_t kLongestLine = 64UL * 1024;
// Of the values that both launchers take.
constexpr std::size_t kLargestValue = 800;
constexpr std::size_t kSmallestValue = 64;
constexpr std::uint64_t kGoodbye = 1'000'000'000;

bool write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        // Not ::write: the end of the launcher is no signal. Where it is no socket, it is a pipe.
        auto written = ::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL);
        if (written < 0 && errno == ENOTSOCK) written = ::write(descriptor, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

bool append_hex(std::vector<std::byte>& bytes, std::string_view text) {
    for (; text.size() >= 2; text.remove_prefix(2)) {
        unsigned value = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + 2, value, 16);
        if (code != std::errc() || end != text.data() + 2) return false;
        bytes.push_back(static_cast<std::byte>(value));
    }
    return text.empty();
}

}  // namespace

std::string_view pmi_word(std::string_view line, std::string_view name) {
    while (!line.empty()) {
        const std::size_t space = line.find(' ');
        const std::string_view word = line.substr(0, space);
        const std::size_t equals = word.find('=');
        if (equals != std::string_view::npos && word.substr(0, equals) == name) return word.substr(equals + 1);
        if (space == std::string_view::npos) break;
        line.remove_prefix(space + 1);
    }
    return {};
}

bool take_pmi_value(std::string_view text, std::vector<std::byte>& bytes, std::uint32_t& total) {
    std::vector<std::byte> head;
    const std::size_t before = bytes.size();
    if (text.size() < kPmiTotalDigits || !append_hex(head, text.substr(0, kPmiTotalDigits)) ||
        !append_hex(bytes, text.substr(kPmiTotalDigits)))
        return false;
    std::span<const std::byte> rest = head;
    if (!take(rest, total) || total > kMaxBlob + 1024 || bytes.size() > total) return false;
    return bytes.size() > before || bytes.size() == total;
}

tl::unexpected<Error> PmiConnection::broken(std::string_view how) {
    broken_ = true;
    return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: {}", rank_, how);
}

Result<std::string> PmiConnection::read_line(std::uint64_t deadline_ns) {
    for (;;) {
        if (const std::size_t end = input_.find('\n'); end != std::string::npos) {
            std::string line = input_.substr(0, end);
            input_.erase(0, end + 1);
            return line;
        }
        if (input_.size() > kLongestLine) return broken("the launcher sends no lines of PMI");
        const std::uint64_t now = now_ns();
        const std::uint64_t left_ms = deadline_ns > now ? (deadline_ns - now) / 1'000'000 + 1 : 0;
        pollfd entry{descriptor_, POLLIN, 0};
        const int ready = ::poll(&entry, 1, static_cast<int>(std::min<std::uint64_t>(left_ms, 60'000)));
        if (ready == 0 && now_ns() >= deadline_ns) {
            return broken(
                "not all ranks showed up before the deadline, and PMI does not say which: look for one that does not "
                "make this group, or has ended");
        }
        if (ready <= 0) continue;
        std::array<char, 4096> chunk{};
        const auto got = ::read(descriptor_, chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return broken(fmt::format("PMI_FD={} can't be read ({}): it is not the launcher's any more", descriptor_,
                                      std::strerror(errno)));
        if (got == 0) return broken("the launcher has ended its connection (PMI_FD); start the program again");
        input_.append(chunk.data(), static_cast<std::size_t>(got));
    }
}

Result<std::string> PmiConnection::ask(std::string_view request, std::string_view command, std::uint64_t deadline_ns) {
    if (broken_) return broken("an earlier exchange with the launcher failed");
    if (!write_all(descriptor_, fmt::format("{}\n", request))) {
        return broken(fmt::format("the launcher takes nothing at PMI_FD={} ({}): is it gone?", descriptor_,
                                  std::strerror(errno)));
    }
    auto line = read_line(deadline_ns);
    if (line && pmi_word(*line, "cmd") != command)
        return broken(fmt::format("the launcher answered \"{}\" where PMI wants {}", line->substr(0, 80), command));
    return line;
}

Result<std::string> PmiConnection::demand(std::string_view request, std::string_view command,
                                          std::uint64_t deadline_ns) {
    auto line = ask(request, command, deadline_ns);
    if (!line) return line;
    const std::string_view code = pmi_word(*line, "rc");
    if (!code.empty() && code != "0") return broken(fmt::format("the launcher refuses: \"{}\"", line->substr(0, 80)));
    return line;
}

Result<void> PmiConnection::shake_hands(std::uint64_t deadline_ns) {
    if (auto agreed = demand("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline_ns); !agreed)
        return tl::unexpected(std::move(agreed.error()));
    auto most = demand("cmd=get_maxes", "maxes", deadline_ns);
    if (!most) return tl::unexpected(std::move(most.error()));
    const std::string_view digits = pmi_word(*most, "vallen_max");
    std::from_chars(digits.data(), digits.data() + digits.size(), largest_value_);
    if (largest_value_ < kSmallestValue) return broken("the launcher's PMI does not say how long a value may be");
    largest_value_ = std::min(largest_value_ - 1, kLargestValue);
    auto space = demand("cmd=get_my_kvsname", "my_kvsname", deadline_ns);
    if (!space) return tl::unexpected(std::move(space.error()));
    space_ = pmi_word(*space, "kvsname");
    return {};
}

void PmiConnection::say_goodbye() {
    if (broken_ || space_.empty()) return;
    [[maybe_unused]] const auto answer = ask("cmd=finalize", "finalize_ack", now_ns() + kGoodbye);
    broken_ = true;
}

}  // namespace coppice::bootstrap
