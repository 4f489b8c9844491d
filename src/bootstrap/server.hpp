// The launcher's side of the exchange: a server on a Unix socket that gathers blobs among the ranks of one
// job.
//
// One thread, never blocks: watch poll_descriptor() for input and call serve(). Nothing of it is left
// anywhere when the process ends, however it ends: the socket's file is unlinked before the first rank
// starts, and ranks connect through /proc/<launcher>/fd/<n>.
//
// Only processes of the launcher's own user that descend from it are let in (SO_PEERCRED), each as the rank
// from which it descends; nothing is read of others, and they hold no connection. Everything received is bounded and
// checked, and so is what one rank can make the server keep; a connection that speaks garbage is dropped and counted.
// So what is exchanged needs no secret: the kernel vouches for both ends. docs/security.md says what each party can do.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "bootstrap/launcher_protocol.hpp"
#include "bootstrap/lobby.hpp"

namespace coppice::bootstrap {

class Server {
  public:
    // What a rank does not read of newcomers is kept up to here, and one frame more: then it has stopped, and is refused.
    static constexpr std::size_t kMostUnsent = 8UL * 1024 * 1024;

    struct Counters {
        std::uint64_t strangers = 0;  // refused: another user, not of this job, or another rank than they said
        std::uint64_t garbage = 0;    // dropped for breaking the protocol
    };

    // For a job of `size` ranks, 1 … kMaxLauncherRanks. To be called in the process that will serve. `late`: how many more numbers there are
    // for processes that are started late; none: nothing is started late, under no number.
    static Result<std::unique_ptr<Server>> open(std::uint32_t size, std::optional<std::uint32_t> late = std::nullopt);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // What goes into COPPICE_LAUNCHER.
    const std::string& path() const { return path_; }
    int poll_descriptor() const { return poll_; }
    // True: there is more to do already.
    bool serve();

    // The process that was started as `rank`; it or a descendant of it may call.
    void rank_started(std::uint32_t rank, pid_t pid);
    // Told of each process that begins to take part, and under which number, before it has been answered.
    void on_arrival(std::function<void(std::uint32_t, pid_t)> tell) { tell_arrival_ = std::move(tell); }
    // It has ended: a rank without a living connection is dead from now on.
    void rank_ended(std::uint32_t rank);
    // A process was started late as that number, which had none or one that has ended. It takes part in no exchange, and may join a group.
    void late_started(std::uint32_t number, pid_t pid);
    // Null: nothing is started late.
    const Lobby* lobby() const { return lobby_ ? &*lobby_ : nullptr; }

    // Some rank has connected; the first exchange among all has been answered.
    bool contacted() const { return contacted_; }
    bool gathered() const { return gathered_; }
    const Counters& counters() const { return counters_; }
    // Exchanges that somebody may still take part in.
    std::size_t generations_kept() const { return generations_.size(); }

  private:
    enum class State : std::uint8_t { fresh, greeted, closed, left, dead, inside };  // inside: the lobby
    using GenerationId = std::uint64_t;  // of a circle, and which one of its generations
    using Payload = std::shared_ptr<const std::vector<std::byte>>;

    struct Connection {
        State state = State::fresh;
        int socket = -1;
        int process = -1;   // pidfd of the caller, which is watched from handshake on
        int unwatched = 0;  // why there is none, though it lives
        pid_t pid = -1;
        std::uint32_t origin = 0;  // the rank from which the caller descends, capacity_ when that cannot be told
        std::uint32_t rank = 0;    // as it says
        GenerationId generation = 0;
        std::uint32_t place = 0;  // in the circle
        std::uint32_t round = 0;  // the next to contribute to, or the one waited for
        bool waiting = false;     // has contributed to `round` and has no answer yet
        bool writable_wanted = false;
        std::vector<std::byte> input;
        std::deque<Payload> output;
        std::size_t written = 0;  // of output.front()
        std::size_t unsent = 0;   // bytes, of all output
    };

    // One that has been refused, and has not read all yet: the rest of a frame, and why.
    struct Parting {
        int socket = -1;
        std::uint32_t origin = 0;
        std::vector<std::byte> rest;
    };

    struct Round {
        std::vector<std::vector<std::byte>> blobs;
        std::vector<bool> given;
        std::uint32_t contributions = 0;
    };

    // Ranks that exchange among themselves: all, or those of a list that some rank has given.
    struct Circle {
        std::vector<std::uint32_t> ranks;
        std::vector<std::uint32_t> begun;  // by place: generations
        std::uint32_t kept = 0;            // generations that are not over
    };

    // The n-th connections of a circle's ranks.
    struct Generation {
        const Circle* circle = nullptr;
        std::unordered_map<std::uint32_t, std::uint64_t> members;  // rank → connection id
        std::uint32_t round = 0;                                   // under way
        std::uint32_t gone = 0;                                    // members that are dead
        Round current;
    };

    // What an epoll tag means: the listener, the timer, a connection's socket, or its caller's pidfd.
    static constexpr std::uint64_t kListenerTag = 0;
    static constexpr std::uint64_t kTimerTag = 1;
    static constexpr std::uint64_t socket_tag(std::uint64_t id) { return id * 2; }
    static constexpr std::uint64_t process_tag(std::uint64_t id) { return id * 2 + 1; }

    Server(std::uint32_t size, std::optional<std::uint32_t> late);
    Result<void> listen_somewhere();
    void accept_all();
    bool has_room_for_one() const;
    void pause_listening();
    void listen_again();
    void read_from(std::uint64_t id);
    std::size_t most_of(const Connection& connection, FrameKind kind) const;
    bool parse(std::uint64_t id, Connection& connection);
    bool handle(std::uint64_t id, Connection& connection, FrameKind kind, std::span<const std::byte> body);
    bool handshake(std::uint64_t id, Connection& connection, std::span<const std::byte> body);
    bool enter(std::uint64_t id, Connection& connection, std::span<const std::byte> body);
    bool handle_inside(std::uint64_t id, std::uint32_t number, FrameKind kind, std::span<const std::byte> body);
    void tell_those_inside();
    bool is_late(std::uint32_t number) const;
    std::optional<std::uint32_t> origin_of(pid_t pid) const;
    std::string why_not(const Connection& connection, const HandshakeBody& handshake) const;
    bool contribute(Connection& connection, std::span<const std::byte> body);
    void tell_missing(Connection& connection);
    void process_ended(std::uint64_t id);
    void close_socket(std::uint64_t id, State state);
    void refuse(std::uint64_t id, Connection& connection, const std::string& reason);
    void part_with(std::uint64_t id, Connection& connection, std::span<const std::byte> last_frame);
    static bool part(Parting& parting);
    void end_parting(std::uint64_t id);
    void drop_garbage(std::uint64_t id, const char* reason);
    void queue(Connection& connection, Payload payload);
    void flush(std::uint64_t id, Connection& connection);
    std::optional<std::uint32_t> circle_of(std::span<const std::byte> list, std::uint32_t rank);
    void forget_unused(std::uint32_t circle);
    void review(GenerationId number);
    void retire(GenerationId number);
    void answer(GenerationId number, Generation& generation);
    bool is_dead(const Generation& generation, std::uint32_t rank) const;
    bool has_left(const Generation& generation, std::uint32_t rank) const;
    void watch(int descriptor, std::uint64_t tag, std::uint32_t events);

    std::uint32_t size_;
    std::uint32_t capacity_;  // numbers
    std::optional<Lobby> lobby_;
    std::vector<std::uint64_t> inside_;  // by number: the connection that is in the lobby; 0: none
    std::string path_;
    int poll_ = -1;
    int listener_ = -1;
    int timer_ = -1;   // until the listener is looked at again
    int handle_ = -1;  // O_PATH descriptor of the unlinked socket file
    std::uint64_t next_id_ = 1;
    std::uint32_t ended_count_ = 0;
    std::vector<std::uint32_t> open_sockets_;  // by origin
    std::function<void(std::uint32_t, pid_t)> tell_arrival_;
    bool contacted_ = false;
    bool gathered_ = false;
    Counters counters_;
    std::vector<pid_t> pids_;
    std::vector<bool> ended_;
    std::map<std::uint32_t, Circle> circles_;  // 0: all ranks. One of some ranks is kept as long as a generation of it
    std::map<std::vector<std::uint32_t>, std::uint32_t> circle_numbers_;  // by the list
    std::uint32_t next_circle_ = 1;
    std::unordered_map<pid_t, std::uint32_t> rank_of_pid_;
    std::unordered_map<std::uint64_t, Connection> connections_;
    std::unordered_map<std::uint64_t, Parting> partings_;
    std::map<GenerationId, Generation> generations_;
};

}  // namespace coppice::bootstrap
