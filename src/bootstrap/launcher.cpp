#include "bootstrap/launcher.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
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
constexpr std::uint32_t kMostNamed = 16;

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

// As the launcher lists them: the first ones by name.
std::string names_of_missing(std::span<const std::byte> list) {
    std::uint32_t round = 0;
    MissingEntry entry;
    std::uint32_t listed = 0;
    std::string names;
    if (!take(list, round)) return "the launcher does not say who";
    while (take(list, entry)) {
        if (++listed > kMostNamed) continue;
        names += fmt::format(
            "{}rank {} ({})", names.empty() ? "" : ", ", entry.rank,
            entry.state == MissingState::connected ? "connected, but did not take part" : "alive, but never called");
    }
    if (listed > kMostNamed) names += fmt::format(" and {} more", listed - kMostNamed);
    return names;
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
    const char* incarnation = std::getenv("COPPICE_INCARNATION");
    auto parsed_size = parse_number("COPPICE_SIZE", size, kMaxLauncherRanks);
    if (!parsed_size) return tl::unexpected(parsed_size.error());
    std::optional<std::uint32_t> parsed_incarnation;
    if (incarnation != nullptr) {
        auto parsed = parse_number("COPPICE_INCARNATION", incarnation, UINT32_MAX);
        if (!parsed) return tl::unexpected(parsed.error());
        parsed_incarnation = *parsed;
    }
    if (*parsed_rank >= *parsed_size && !parsed_incarnation) {
        return fail(COPPICE_ERR_CONFIG, "COPPICE_RANK={} is not below COPPICE_SIZE={}", *parsed_rank, *parsed_size);
    }
    return std::optional<LauncherEnvironment>(
        LauncherEnvironment{Rank(*parsed_rank), *parsed_size, path, parsed_incarnation});
}

Result<std::unique_ptr<LauncherBootstrap>> LauncherBootstrap::create(const LauncherEnvironment& environment,
                                                                     std::uint64_t deadline_ns,
                                                                     std::span<const std::uint32_t> ranks) {
    if (environment.size == 0 || environment.size > kMaxLauncherRanks || environment.rank.value >= environment.size) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "rank {} of {} is not a rank of a launcher's job (at most {} ranks)",
                    environment.rank.value, environment.size, kMaxLauncherRanks);
    }
    auto subset = Subset::of(ranks, environment.rank, environment.size);
    if (!subset) return tl::unexpected(subset.error());
    auto connection = LauncherConnection::open(environment.socket_path, environment.rank,
                                               max_gathered_bytes(environment.size), deadline_ns);
    if (!connection) return tl::unexpected(connection.error());
    std::unique_ptr<LauncherBootstrap> made(
        new LauncherBootstrap(environment, std::move(*subset), std::move(*connection)));
    if (auto greeted = made->shake_hands(deadline_ns); !greeted) return tl::unexpected(greeted.error());
    return made;
}

Result<std::unique_ptr<Admission>> LauncherBootstrap::admission(std::uint64_t deadline_ns) {
    if (!admits_) return std::unique_ptr<Admission>();
    return LauncherAdmission::enter(environment_, deadline_ns);
}

LauncherBootstrap::~LauncherBootstrap() {
    // Says that this rank leaves on purpose: without it the launcher waits whether the process is about to
    // die.
    const auto frame = make_frame(FrameKind::bye, std::string_view{});
    [[maybe_unused]] const auto sent =
        ::send(connection_->descriptor(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Result<void> LauncherBootstrap::shake_hands(std::uint64_t deadline_ns) {
    deadline_ns = std::max(deadline_ns, now_ns() + kAnswerTime);
    std::vector<std::byte> body;
    append(body, HandshakeBody{environment_.rank.value, environment_.size});
    append_bytes(body, std::as_bytes(subset_.ranks()));
    if (auto sent = connection_->send_all(make_frame(FrameKind::handshake, body), deadline_ns); !sent) return sent;
    auto answer = connection_->receive_frame(deadline_ns);
    if (!answer) return tl::unexpected(answer.error());
    if (!*answer) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher did not answer rank {}: is it stopped?",
                    environment_.rank.value);
    }
    if ((*answer)->kind != FrameKind::welcome) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher at {} does not speak Coppice's protocol",
                    environment_.socket_path);
    }
    std::span<const std::byte> rest((*answer)->body);
    WelcomeBody welcome;
    if (!take(rest, welcome))
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher greets rank {} with too little", environment_.rank.value);
    admits_ = welcome.admits != 0 && welcome.generation == 0;
    return {};
}

Result<std::vector<std::vector<std::byte>>> LauncherBootstrap::unpack(std::span<const std::byte> body) const {
    std::vector<std::vector<std::byte>> result(size());
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

// The answer to what this rank has given, as long as the launcher has none: then the error of the deadline that passed, with the ranks
// that it still waits for.
Result<LauncherFrame> LauncherBootstrap::answer(std::uint64_t deadline_ns) {
    auto frame = connection_->receive_frame(deadline_ns);
    if (!frame) return tl::unexpected(frame.error());
    if (*frame) return std::move(**frame);
    std::vector<std::byte> body;
    append(body, round_);
    const std::uint64_t until = now_ns() + kAnswerTime;
    if (auto sent = connection_->send_all(make_frame(FrameKind::query, body), until); !sent)
        return tl::unexpected(sent.error());
    // The answer may have been on its way. To all others it is given as well, so late is better than never.
    std::optional<LauncherFrame> late;
    for (;;) {
        frame = connection_->receive_frame(until);
        if (!frame) return tl::unexpected(frame.error());
        if (!*frame) {
            return fail(COPPICE_ERR_BOOTSTRAP,
                        "rank {}: the exchange did not end before the deadline and the launcher does not say which "
                        "ranks are missing: is "
                        "it stopped?",
                        environment_.rank.value);
        }
        if ((*frame)->kind == FrameKind::missing) break;
        late = std::move(*frame);
    }
    if (late) return std::move(*late);
    return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: not all ranks showed up before the deadline; missing: {}",
                environment_.rank.value, names_of_missing((*frame)->body));
}

Result<std::vector<std::vector<std::byte>>> LauncherBootstrap::exchange(std::span<const std::byte> mine,
                                                                        std::uint64_t deadline_ns) {
    std::vector<std::byte> body;
    append(body, round_);
    append_bytes(body, mine);
    if (auto sent = connection_->send_all(make_frame(FrameKind::contribute, body), deadline_ns); !sent) {
        return tl::unexpected(sent.error());
    }
    const auto frame = answer(deadline_ns);
    if (!frame) return tl::unexpected(frame.error());
    std::span<const std::byte> rest(frame->body);
    std::uint32_t round = 0;
    std::uint32_t leaver = 0;
    if (!take(rest, round) || round != round_) {
        return fail(COPPICE_ERR_BOOTSTRAP, "the launcher answered rank {} about another round",
                    environment_.rank.value);
    }
    if (frame->kind == FrameKind::left && take(rest, leaver)) {
        return fail(COPPICE_ERR_BOOTSTRAP,
                    "rank {} is alive but has left the exchange, so rank {} would wait in vain: look for the "
                    "error that "
                    "rank {} met",
                    leaver, environment_.rank.value, leaver);
    }
    if (frame->kind != FrameKind::gathered) {
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
