#include "bootstrap/launcher.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "base/clock.hpp"
#include "bootstrap/choose.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
// How long a client waits for the launcher itself, beyond its own deadline: for the welcome, and for the names of the ranks that
// are missing. A launcher that lives answers at once, where the machine lets it run.
constexpr std::uint64_t kAnswerTime = 10'000 * kMillisecond;
constexpr std::size_t kReadChunk = 64UL * 1024;

Result<std::uint32_t> parse_number(const char* name, const char* text, std::uint32_t largest) {
    const std::string_view digits(text);
    std::uint32_t value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc{} || end != digits.data() + digits.size() || value > largest) {
        return fail(COPPICE_ERR_CONFIG,
                    "{}='{}' is not a number from 0 to {}: coppice-run sets it, do not set it by hand", name, text,
                    largest);
    }
    return value;
}

// Rounded up, so that a wait never ends before its deadline.
int milliseconds_until(std::uint64_t deadline_ns) {
    const std::uint64_t now = now_ns();
    if (now >= deadline_ns) return 0;
    return static_cast<int>(std::min<std::uint64_t>((deadline_ns - now + kMillisecond - 1) / kMillisecond, 60'000));
}

// True when ready, false at the deadline.
bool wait_ready(int descriptor, short events, std::uint64_t deadline_ns) {
    for (;;) {
        pollfd entry{descriptor, events, 0};
        if (::poll(&entry, 1, milliseconds_until(deadline_ns)) > 0) return true;
        if (now_ns() >= deadline_ns) return false;
    }
}

// The process that answers at the path must run as this process's own user. Another user's could read and change what
// the ranks tell each other.
bool is_of_this_user(int descriptor) {
    ucred server{};
    socklen_t length = sizeof server;
    return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &server, &length) == 0 && server.uid == ::geteuid();
}

Result<int> connect_to(const std::string& path, std::uint64_t deadline_ns) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        return fail(COPPICE_ERR_CONFIG, "COPPICE_LAUNCHER='{}' is too long for a socket's path ({} bytes at most)",
                    path, sizeof address.sun_path - 1);
    }
    path.copy(address.sun_path, path.size());
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) {
        return fail(COPPICE_ERR_NO_RESOURCES, "cannot make a socket to the launcher: {} (see `ulimit -n`)",
                    std::strerror(errno));
    }
    for (;;) {
        if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
            if (is_of_this_user(descriptor)) return descriptor;
            ::close(descriptor);
            return fail(
                COPPICE_ERR_BOOTSTRAP,
                "another user's process listens at COPPICE_LAUNCHER={}: run coppice-run and the ranks as one user",
                path);
        }
        const int reason = errno;
        // EAGAIN: the launcher's backlog is full, it has yet to accept the others.
        if (reason == EAGAIN && now_ns() < deadline_ns) {
            ::poll(nullptr, 0, 1);
            continue;
        }
        if (reason == EINTR) continue;
        ::close(descriptor);
        if (reason == ENOENT || reason == ECONNREFUSED) {
            return fail(
                COPPICE_ERR_BOOTSTRAP,
                "the launcher is gone: nobody listens at COPPICE_LAUNCHER={} ({}); start the program again with "
                "coppice-run",
                path, std::strerror(reason));
        }
        return fail(COPPICE_ERR_BOOTSTRAP, "cannot reach the launcher at COPPICE_LAUNCHER={}: {}", path,
                    std::strerror(reason));
    }
}

}  // namespace

Result<std::optional<LauncherEnvironment>> read_launcher_environment() {
    const char* rank = std::getenv("COPPICE_RANK");
    const char* size = std::getenv("COPPICE_SIZE");
    const char* path = std::getenv("COPPICE_LAUNCHER");
    if (rank == nullptr && size == nullptr && path == nullptr) return std::optional<LauncherEnvironment>{};
    const std::pair<const char*, const char*> variables[] = {
        {"COPPICE_RANK", rank}, {"COPPICE_SIZE", size}, {"COPPICE_LAUNCHER", path}};
    for (const auto& [name, value] : variables) {
        if (value == nullptr || *value == '\0') {
            return fail(COPPICE_ERR_CONFIG,
                        "{} is {} while other variables of the launcher are set: start the program with "
                        "coppice-run, or "
                        "unset COPPICE_RANK, COPPICE_SIZE and COPPICE_LAUNCHER",
                        name, value == nullptr ? "not set" : "empty");
        }
    }
    auto parsed_rank = parse_number("COPPICE_RANK", rank, kMaxLauncherRanks - 1);
    if (!parsed_rank) return tl::unexpected(parsed_rank.error());
    auto parsed_size = parse_number("COPPICE_SIZE", size, kMaxLauncherRanks);
    if (!parsed_size) return tl::unexpected(parsed_size.error());
    if (*parsed_rank >= *parsed_size) {
        return fail(COPPICE_ERR_CONFIG, "COPPICE_RANK={} is not below COPPICE_SIZE={}", *parsed_rank, *parsed_size);
    }
    return std::optional<LauncherEnvironment>(LauncherEnvironment{Rank(*parsed_rank), *parsed_size, path});
}

Result<std::unique_ptr<LauncherBootstrap>> LauncherBootstrap::create(const LauncherEnvironment& environment,
                                                                     std::uint64_t deadline_ns) {
    if (environment.size == 0 || environment.size > kMaxLauncherRanks || environment.rank.value >= environment.size) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "rank {} of {} is not a rank of a launcher's job (at most {} ranks)",
                    environment.rank.value, environment.size, kMaxLauncherRanks);
    }
    auto descriptor = connect_to(environment.socket_path, deadline_ns);
    if (!descriptor) return tl::unexpected(descriptor.error());
    std::unique_ptr<LauncherBootstrap> made(new LauncherBootstrap(environment, *descriptor));
    if (auto greeted = made->shake_hands(deadline_ns); !greeted) return tl::unexpected(greeted.error());
    return made;
}

LauncherBootstrap::~LauncherBootstrap() {
    // Says that this rank leaves on purpose: without it the launcher waits whether the process is about to
    // die.
    const auto frame = make_frame(FrameKind::bye, std::string_view{});
    [[maybe_unused]] const auto sent = ::send(descriptor_, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::close(descriptor_);
}

Result<void> LauncherBootstrap::shake_hands(std::uint64_t deadline_ns) {
    deadline_ns = std::max(deadline_ns, now_ns() + kAnswerTime);
    std::vector<std::byte> body;
    append(body, HandshakeBody{environment_.rank.value, environment_.size});
    if (auto sent = send_all(make_frame(FrameKind::handshake, body), deadline_ns); !sent) return sent;
    auto answer = receive_frame(deadline_ns);
    if (!answer) return tl::unexpected(answer.error());
    if (!*answer) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher did not answer rank {}: is it stopped?",
                    environment_.rank.value);
    }
    if ((*answer)->kind != FrameKind::welcome) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher at {} does not speak Coppice's protocol",
                    environment_.socket_path);
    }
    return {};
}

Error LauncherBootstrap::launcher_died() const {
    return Error{COPPICE_ERR_BOOTSTRAP,
                 fmt::format("the launcher (coppice-run, at {}) died during the exchange of rank {}; start the program "
                             "again",
                             environment_.socket_path, environment_.rank.value)};
}

Result<void> LauncherBootstrap::send_all(std::span<const std::byte> bytes, std::uint64_t deadline_ns) {
    while (!bytes.empty()) {
        const auto sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN) {
            if (!wait_ready(descriptor_, POLLOUT, deadline_ns)) {
                return fail(COPPICE_ERR_BOOTSTRAP,
                            "the launcher takes no data from rank {} before the deadline: is it stopped?",
                            environment_.rank.value);
            }
        } else if (errno == EPIPE || errno == ECONNRESET) {
            // A refusal may wait to be read; receive_frame() finds that, or the end.
            return {};
        } else if (errno != EINTR) {
            return fail(COPPICE_ERR_BOOTSTRAP, "rank {} cannot send to the launcher: {}", environment_.rank.value,
                        std::strerror(errno));
        }
    }
    return {};
}

Result<std::optional<LauncherBootstrap::Frame>> LauncherBootstrap::parse_frame() {
    std::span<const std::byte> rest(input_);
    FrameHeader header;
    if (!take(rest, header)) return std::optional<Frame>{};
    const bool refused =
        header.magic == kFrameMagic && header.kind == FrameKind::refused && header.length <= kMaxRefusal;
    if (header.magic != kFrameMagic || header.length > max_gathered_bytes(environment_.size) ||
        (header.version != kProtocolVersion && !refused)) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher at {} sent what is not Coppice's protocol (version {})",
                    environment_.socket_path, kProtocolVersion);
    }
    if (rest.size() < header.length) return std::optional<Frame>{};
    if (refused) {
        const std::string reason(reinterpret_cast<const char*>(rest.data()), header.length);
        const bool mismatch = header.version != kProtocolVersion || reason.find("version") != std::string::npos;
        return fail(mismatch ? COPPICE_ERR_MISMATCH : COPPICE_ERR_BOOTSTRAP, "the launcher refuses rank {}: {}",
                    environment_.rank.value, reason);
    }
    Frame frame{header.kind, {rest.begin(), rest.begin() + header.length}};
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(sizeof header + header.length));
    return std::optional<Frame>(std::move(frame));
}

Result<std::optional<LauncherBootstrap::Frame>> LauncherBootstrap::receive_frame(std::uint64_t deadline_ns) {
    for (;;) {
        auto frame = parse_frame();
        if (!frame || *frame) return frame;
        const std::size_t before = input_.size();
        input_.resize(before + kReadChunk);
        const auto got = ::recv(descriptor_, input_.data() + before, kReadChunk, MSG_DONTWAIT);
        const int reason = got < 0 ? errno : 0;
        input_.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
        if (got == 0 || reason == ECONNRESET || reason == EPIPE) return tl::unexpected(launcher_died());
        if (reason == EAGAIN && !wait_ready(descriptor_, POLLIN, deadline_ns)) return std::optional<Frame>{};
        if (reason != 0 && reason != EAGAIN && reason != EINTR) {
            return fail(COPPICE_ERR_BOOTSTRAP, "rank {} cannot hear the launcher: {}", environment_.rank.value,
                        std::strerror(reason));
        }
    }
}

Result<std::vector<std::vector<std::byte>>> LauncherBootstrap::unpack(std::span<const std::byte> body) const {
    std::vector<std::vector<std::byte>> result(environment_.size);
    for (auto& entry : result) {
        std::uint32_t length = 0;
        if (!take(body, length) || length > kMaxBlob || length > body.size()) {
            return fail(COPPICE_ERR_BOOTSTRAP, "the launcher's answer to rank {} is cut short",
                        environment_.rank.value);
        }
        entry.assign(body.begin(), body.begin() + length);
        body = body.subspan(length);
    }
    if (!body.empty()) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher's answer to rank {} has bytes left over",
                    environment_.rank.value);
    }
    return result;
}

// The error of a deadline that passed: asks the launcher which ranks it still waits for.
Error LauncherBootstrap::who_is_missing() {
    const std::uint64_t until = now_ns() + kAnswerTime;
    std::vector<std::byte> body;
    append(body, round_);
    std::string names;
    if (auto sent = send_all(make_frame(FrameKind::query, body), until); !sent) return sent.error();
    for (;;) {
        auto frame = receive_frame(until);
        if (!frame) return frame.error();
        if (!*frame) {
            return Error{COPPICE_ERR_BOOTSTRAP,
                         fmt::format("rank {}: the exchange did not end before the deadline and the launcher does not "
                                     "say which ranks are missing: is it stopped?",
                                     environment_.rank.value)};
        }
        if ((*frame)->kind != FrameKind::missing) continue;  // the result itself may still have been on its way
        std::span<const std::byte> rest((*frame)->body);
        std::uint32_t round = 0;
        MissingEntry entry;
        std::uint32_t listed = 0;
        if (!take(rest, round)) continue;
        while (take(rest, entry)) {
            if (++listed > 16) continue;
            names += fmt::format("{}rank {} ({})", names.empty() ? "" : ", ", entry.rank,
                                 entry.state == MissingState::connected ? "connected, but did not take part"
                                                                        : "alive, but never called");
        }
        if (listed > 16) names += fmt::format(" and {} more", listed - 16);
        break;
    }
    if (names.empty()) names = "nobody any more: the answer came too late, allow more time";
    return Error{COPPICE_ERR_BOOTSTRAP, fmt::format("rank {}: not all ranks showed up before the deadline; missing: {}",
                                                    environment_.rank.value, names)};
}

Result<std::vector<std::vector<std::byte>>> LauncherBootstrap::exchange(std::span<const std::byte> mine,
                                                                        std::uint64_t deadline_ns) {
    std::vector<std::byte> body;
    append(body, round_);
    append_bytes(body, mine);
    if (auto sent = send_all(make_frame(FrameKind::contribute, body), deadline_ns); !sent) {
        return tl::unexpected(sent.error());
    }
    auto frame = receive_frame(deadline_ns);
    if (!frame) return tl::unexpected(frame.error());
    if (!*frame) return tl::unexpected(who_is_missing());
    std::span<const std::byte> rest((*frame)->body);
    std::uint32_t round = 0;
    std::uint32_t leaver = 0;
    if (!take(rest, round) || round != round_) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher answered rank {} about another round",
                    environment_.rank.value);
    }
    if ((*frame)->kind == FrameKind::left && take(rest, leaver)) {
        return fail(COPPICE_ERR_BOOTSTRAP,
                    "rank {} is alive but has left the exchange, so rank {} would wait in vain: look for the "
                    "error that "
                    "rank {} met",
                    leaver, environment_.rank.value, leaver);
    }
    if ((*frame)->kind != FrameKind::gathered) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher gave rank {} an unexpected answer", environment_.rank.value);
    }
    ++round_;
    return unpack(rest);
}

Result<std::vector<std::vector<std::byte>>> LauncherBootstrap::allgather(std::span<const std::byte> mine,
                                                                         std::uint64_t deadline_ns) {
    if (broken_) {
        return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: an earlier exchange of this group failed",
                    environment_.rank.value);
    }
    if (mine.size() > kMaxBlob) {
        return fail(COPPICE_ERR_TOO_LARGE, "rank {} offers {} bytes to the exchange; {} are allowed",
                    environment_.rank.value, mine.size(), kMaxBlob);
    }
    try {
        auto result = exchange(mine, deadline_ns);
        broken_ = !result;
        return result;
    } catch (const std::bad_alloc&) {
        broken_ = true;
        return fail(COPPICE_ERR_NO_MEMORY, "rank {}: no memory for the exchange among {} ranks",
                    environment_.rank.value, environment_.size);
    }
}

}  // namespace coppice::bootstrap
