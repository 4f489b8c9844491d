// The connections of the exchange: what arrives, and which processes end. Which processes connect is in server_listener.cpp, the
// exchange itself in server_exchange.cpp.
#include "bootstrap/server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "bootstrap/process_tree.hpp"

namespace coppice::bootstrap {
namespace {

// Of one call: its caller has other work, too.
constexpr int kMostRounds = 64;
// Answers that a rank has not read. An honest one asks once, at its deadline.
constexpr std::size_t kMostUnread = 16;
constexpr std::uint32_t kMaxGenerations = 1U << 20;

bool process_is_over(int pidfd) {
    pollfd entry{pidfd, POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

Server::Server(std::uint32_t size, std::optional<std::uint32_t> late)
    : size_(size),
      capacity_(size + late.value_or(0)),
      inside_(capacity_, 0),
      open_sockets_(std::size_t{capacity_} + 1, 0),
      pids_(capacity_, -1),
      ended_(size, false) {
    Circle& all = circles_[0];
    all.begun.resize(size, 0);
    for (std::uint32_t rank = 0; rank < size; ++rank)
        all.ranks.push_back(rank);
    if (late) lobby_.emplace(size, capacity_);
}

Server::~Server() {
    for (auto& [id, connection] : connections_) {
        if (connection.socket >= 0) ::close(connection.socket);
        if (connection.process >= 0) ::close(connection.process);
    }
    for (const auto& [id, parting] : partings_)
        ::close(parting.socket);
    for (const int descriptor : {poll_, listener_, timer_, handle_}) {
        if (descriptor >= 0) ::close(descriptor);
    }
}

Result<std::unique_ptr<Server>> Server::open(std::uint32_t size, std::optional<std::uint32_t> late) {
    const std::uint64_t numbers = std::uint64_t{size} + late.value_or(0);
    if (size == 0 || numbers > kMaxLauncherRanks) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "{} ranks: 1 … {} are possible", numbers, kMaxLauncherRanks);
    }
    std::unique_ptr<Server> server(new Server(size, late));
    server->poll_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (server->poll_ < 0) return fail(COPPICE_ERR_NO_RESOURCES, "epoll_create1: {}", std::strerror(errno));
    server->timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (server->timer_ < 0) return fail(COPPICE_ERR_NO_RESOURCES, "timerfd_create: {}", std::strerror(errno));
    if (auto ok = server->listen_somewhere(); !ok) return tl::unexpected(ok.error());
    server->watch(server->listener_, kListenerTag, EPOLLIN);
    server->watch(server->timer_, kTimerTag, EPOLLIN);
    return server;
}

void Server::watch(int descriptor, std::uint64_t tag, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    if (::epoll_ctl(poll_, EPOLL_CTL_ADD, descriptor, &event) != 0) {
        ::epoll_ctl(poll_, EPOLL_CTL_MOD, descriptor, &event);
    }
}

void Server::rank_started(std::uint32_t rank, pid_t pid) {
    pids_[rank] = pid;
    rank_of_pid_[pid] = rank;
}

void Server::late_started(std::uint32_t number, pid_t pid) {
    // A descendant of the process before may still have its connection: nothing that comes over it is the new one's.
    if (inside_[number] != 0) close_socket(inside_[number], State::dead);
    // The kernel gives numbers of processes out again: it may be that of another rank by now.
    if (const auto before = rank_of_pid_.find(pids_[number]); before != rank_of_pid_.end() && before->second == number)
        rank_of_pid_.erase(before);
    rank_started(number, pid);
    lobby_->started_late(number);
}

bool Server::is_late(std::uint32_t number) const {
    return number >= size_ || (lobby_ && lobby_->incarnation(number) > 0);
}

void Server::rank_ended(std::uint32_t rank) {
    if (lobby_) {
        lobby_->ended(rank);
        tell_those_inside();
    }
    if (rank >= size_ || ended_[rank]) return;
    ended_[rank] = true;
    ++ended_count_;
    std::vector<GenerationId> numbers;
    for (const auto& [number, generation] : generations_)
        numbers.push_back(number);
    for (const auto number : numbers)
        review(number);
}

bool Server::serve() {
    std::array<epoll_event, 64> events{};
    for (int round = 0; round < kMostRounds; ++round) {
        const int count = ::epoll_wait(poll_, events.data(), static_cast<int>(events.size()), 0);
        if (count <= 0) return false;
        for (int i = 0; i < count; ++i) {
            const auto& event = events[static_cast<std::size_t>(i)];
            if (event.data.u64 == kListenerTag) {
                accept_all();
                continue;
            }
            if (event.data.u64 == kTimerTag) {
                listen_again();
                continue;
            }
            const std::uint64_t id = event.data.u64 / 2;
            if (const auto parting = partings_.find(id); parting != partings_.end()) {
                if (!part(parting->second)) end_parting(id);
                continue;
            }
            const auto found = connections_.find(id);
            if (found == connections_.end()) continue;
            if (event.data.u64 == process_tag(id)) {
                process_ended(id);
                continue;
            }
            if ((event.events & EPOLLOUT) != 0) flush(id, found->second);
            if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_from(id);
        }
    }
    return true;
}

void Server::read_from(std::uint64_t id) {
    std::array<std::byte, 16384> chunk{};
    for (;;) {
        const auto found = connections_.find(id);
        if (found == connections_.end() || found->second.socket < 0) return;
        Connection& connection = found->second;
        const auto got = ::recv(connection.socket, chunk.data(), chunk.size(), MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) {
            // No farewell: the process is dying, was replaced by execve, or gave up. Its pidfd tells which.
            close_socket(id, State::closed);
            tell_those_inside();
            return;
        }
        append_bytes(connection.input, std::span(chunk.data(), static_cast<std::size_t>(got)));
        if (!parse(id, connection)) return;
    }
}

// False when the connection has ended; `connection` may be gone then.
bool Server::parse(std::uint64_t id, Connection& connection) {
    for (;;) {
        std::span<const std::byte> rest(connection.input);
        FrameHeader header;
        if (!take(rest, header)) return true;
        if (header.magic != kFrameMagic || header.length > most_of(connection, header.kind)) {
            drop_garbage(id, "this is not the protocol of coppice-run");
            return false;
        }
        if (header.version != kProtocolVersion) {
            refuse(id, connection,
                   fmt::format("it speaks version {} of the launcher's protocol, the launcher version {}: "
                               "use one build of "
                               "Coppice for both",
                               header.version, kProtocolVersion));
            return false;
        }
        if (rest.size() < header.length) return true;
        const std::vector<std::byte> body(rest.begin(), rest.begin() + header.length);
        connection.input.erase(connection.input.begin(),
                               connection.input.begin() + static_cast<std::ptrdiff_t>(sizeof header + header.length));
        if (!handle(id, connection, header.kind, body)) return false;
    }
}

bool Server::handle(std::uint64_t id, Connection& connection, FrameKind kind, std::span<const std::byte> body) {
    if (kind == FrameKind::handshake && connection.state == State::fresh) return handshake(id, connection, body);
    if (kind == FrameKind::enter && connection.state == State::fresh) return enter(id, connection, body);
    if (connection.state == State::inside) {
        if (!handle_inside(id, connection.rank, kind, body)) drop_garbage(id, "this frame is not allowed here");
        tell_those_inside();
        return connections_.contains(id);
    }
    if (connection.state == State::greeted) {
        if (kind == FrameKind::contribute && contribute(connection, body)) {
            review(connection.generation);
            return connections_.contains(id) && connections_.at(id).socket >= 0;
        }
        if (kind == FrameKind::query && body.size() == 4 && connection.output.size() < kMostUnread) {
            tell_missing(connection);
            return connection.socket >= 0;
        }
        if (kind == FrameKind::bye && body.empty()) {
            close_socket(id, State::left);
            return false;
        }
    }
    drop_garbage(id, "this frame is not allowed here");
    return false;
}

std::string Server::why_not(const Connection& connection, const HandshakeBody& handshake) const {
    if (handshake.byte_order != kByteOrderProbe || handshake.word_size != sizeof(void*)) {
        return fmt::format("its word size or byte order is another version's than the launcher's ({} against {} bytes)",
                           handshake.word_size, sizeof(void*));
    }
    if (handshake.size != size_) {
        return fmt::format("it believes in a job of {} ranks, this one has {}: was COPPICE_SIZE changed?",
                           handshake.size, size_);
    }
    if (handshake.rank >= size_) return fmt::format("rank {} is outside of 0…{}", handshake.rank, size_ - 1);
    if (is_late(handshake.rank)) return "it was started late: it can join a group, and make none with the others";
    if (connection.origin == handshake.rank || connection.origin == capacity_) return {};
    return fmt::format("its process {} belongs to rank {}, not {}: was COPPICE_RANK changed?", connection.pid,
                       connection.origin, handshake.rank);
}

// None for a process that does not descend from this one.
std::optional<std::uint32_t> Server::origin_of(pid_t pid) const {
    for (; pid > 1; pid = parent_of(pid)) {
        if (const auto found = rank_of_pid_.find(pid); found != rank_of_pid_.end()) return found->second;
        // An orphan of one of the ranks, adopted by the launcher: whose, cannot be told any more.
        if (pid == ::getpid()) return capacity_;
    }
    return std::nullopt;
}

bool Server::handshake(std::uint64_t id, Connection& connection, std::span<const std::byte> body) {
    HandshakeBody handshake;
    const bool is_whole = take(body, handshake);
    std::string objection = is_whole ? why_not(connection, handshake) : "";
    const auto number = is_whole && objection.empty() ? circle_of(body, handshake.rank) : std::optional(0U);
    if (!is_whole || !number) {
        drop_garbage(id, "this is no greeting");
        return false;
    }
    Circle& circle = circles_[*number];
    connection.place =
        static_cast<std::uint32_t>(std::ranges::find(circle.ranks, handshake.rank) - circle.ranks.begin());
    if (objection.empty() && circle.begun[connection.place] >= kMaxGenerations)
        objection = "it has connected too often";
    if (objection.empty() && connection.unwatched != 0)
        objection = fmt::format("the launcher cannot watch its process: {}", std::strerror(connection.unwatched));
    if (!objection.empty()) {
        ++counters_.strangers;
        forget_unused(*number);
        refuse(id, connection, objection);
        return false;
    }
    connection.state = State::greeted;
    connection.rank = handshake.rank;
    const std::uint32_t count = circle.begun[connection.place]++;
    connection.generation = GenerationId{*number} << 32U | count;
    contacted_ = true;
    if (tell_arrival_) tell_arrival_(handshake.rank, connection.pid);
    Generation& generation = generations_[connection.generation];
    if (generation.circle == nullptr) ++circle.kept;
    generation.circle = &circle;
    generation.members[handshake.rank] = id;
    std::vector<std::byte> welcome;
    append(welcome, WelcomeBody{count, lobby_ && *number == 0 ? 1U : 0U});
    queue(connection, std::make_shared<std::vector<std::byte>>(make_frame(FrameKind::welcome, welcome)));
    flush(id, connection);
    const int process = connections_.at(id).process;
    if (process >= 0) {
        watch(process, process_tag(id), EPOLLIN);
    } else {
        process_ended(id);
    }
    return connections_.contains(id) && connections_.at(id).socket >= 0;
}

void Server::process_ended(std::uint64_t id) {
    Connection& connection = connections_.at(id);
    if (connection.socket >= 0) read_from(id);  // what it said before its end still counts
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    if (found->second.state != State::left) close_socket(id, State::dead);
}

void Server::close_socket(std::uint64_t id, State state) {
    Connection& connection = connections_.at(id);
    if (connection.socket >= 0) {
        ::close(connection.socket);
        --open_sockets_[connection.origin];
    }
    if (connection.state == State::inside) {
        const std::uint32_t number = connection.rank;
        connections_.erase(id);
        inside_[number] = 0;
        lobby_->left(number);
        return;
    }
    connection.socket = -1;
    connection.output.clear();
    connection.written = connection.unsent = 0;
    connection.input.clear();
    connection.input.shrink_to_fit();
    if (connection.state == State::fresh) {
        if (connection.process >= 0) ::close(connection.process);
        connections_.erase(id);
        return;
    }
    if (state == State::closed && (connection.process < 0 || process_is_over(connection.process))) {
        state = State::dead;
    }
    if (connection.state != State::dead) connection.state = state;
    if (connection.state != State::closed && connection.process >= 0) {
        ::close(connection.process);  // nothing more to learn from it
        connection.process = -1;
    }
    const GenerationId number = connection.generation;
    Generation& generation = generations_[number];
    if (state == State::dead) ++generation.gone;
    review(number);
    retire(number);
}

void Server::refuse(std::uint64_t id, Connection& connection, const std::string& reason) {
    part_with(id, connection, make_frame(FrameKind::refused, reason.substr(0, kMaxRefusal)));
}

// Its connection ends with that frame.
void Server::part_with(std::uint64_t id, Connection& connection, std::span<const std::byte> last_frame) {
    // Of what waits it still gets the frame that has begun, so that it can tell where the last one begins.
    Parting parting{.socket = connection.socket, .origin = connection.origin, .rest = {}};
    if (connection.written > 0)
        append_bytes(parting.rest, std::span(*connection.output.front()).subspan(connection.written));
    append_bytes(parting.rest, last_frame);
    connection.socket = -1;
    close_socket(id, State::left);
    // It is not heard any more. What has come is dropped: unread, it would turn the close into a reset that destroys the text on its way.
    ::shutdown(parting.socket, SHUT_RD);
    std::array<std::byte, 4096> dropped{};
    while (::recv(parting.socket, dropped.data(), dropped.size(), MSG_DONTWAIT) > 0) {
    }
    const auto [kept, is_new] = partings_.emplace(id, std::move(parting));
    watch(kept->second.socket, socket_tag(id), EPOLLOUT);
    if (!part(kept->second)) end_parting(id);
}

// False: it has been told, or has gone. Nobody waits for it.
bool Server::part(Parting& parting) {
    while (!parting.rest.empty()) {
        const auto sent = ::send(parting.socket, parting.rest.data(), parting.rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN;
        parting.rest.erase(parting.rest.begin(), parting.rest.begin() + sent);
    }
    return false;
}

void Server::end_parting(std::uint64_t id) {
    const auto found = partings_.find(id);
    ::close(found->second.socket);
    --open_sockets_[found->second.origin];
    partings_.erase(found);
}

void Server::drop_garbage(std::uint64_t id, const char* reason) {
    ++counters_.garbage;
    refuse(id, connections_.at(id), reason);
}

void Server::queue(Connection& connection, Payload payload) {
    if (connection.socket < 0) return;
    connection.unsent += payload->size();
    connection.output.push_back(std::move(payload));
}

void Server::flush(std::uint64_t id, Connection& connection) {
    while (connection.socket >= 0 && !connection.output.empty()) {
        const auto& front = *connection.output.front();
        const auto sent = ::send(connection.socket, front.data() + connection.written,
                                 front.size() - connection.written, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) break;  // full: wait for room; broken: reading will find the end
        connection.written += static_cast<std::size_t>(sent);
        connection.unsent -= static_cast<std::size_t>(sent);
        if (connection.written == front.size()) {
            connection.output.pop_front();
            connection.written = 0;
        }
    }
    if (connection.socket < 0) return;
    const bool wanted = !connection.output.empty();
    if (wanted != connection.writable_wanted) {
        connection.writable_wanted = wanted;
        watch(connection.socket, socket_tag(id), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

}  // namespace coppice::bootstrap
