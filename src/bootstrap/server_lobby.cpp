// The server's part of what newcomers and members say to each other by way of the launcher: lobby.hpp judges, this carries.
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "bootstrap/server.hpp"

namespace coppice::bootstrap {

bool Server::enter(std::uint64_t id, Connection& connection, std::span<const std::byte> body) {
    EnterBody said;
    if (!take(body, said) || !body.empty()) {
        drop_garbage(id, "this is no greeting");
        return false;
    }
    std::string objection;
    if (said.byte_order != kByteOrderProbe || said.word_size != sizeof(void*)) {
        objection = "its word size or byte order is another version's than the launcher's";
    } else if (!lobby_) {
        objection = "nothing joins in this job: start it with --respawn, --spares or --join";
    } else if (said.number >= capacity_) {
        objection = fmt::format("rank {} is outside of 0…{}", said.number, capacity_ - 1);
    } else if (connection.origin != said.number) {
        objection = fmt::format("its process {} is not that of rank {}: was COPPICE_RANK changed?", connection.pid,
                                said.number);
    } else {
        objection = lobby_->enter(said.number, said.is_newcomer != 0);
    }
    if (!objection.empty()) {
        ++counters_.strangers;
        refuse(id, connection, objection);
        return false;
    }
    connection.state = State::inside;
    if (connection.process >= 0) ::close(std::exchange(connection.process, -1));  // the socket's end is this one's
    connection.rank = said.number;
    inside_[said.number] = id;
    contacted_ = true;
    if (tell_arrival_) tell_arrival_(said.number, connection.pid);
    tell_those_inside();
    return connections_.contains(id);
}

// False for what breaks the protocol.
bool Server::handle_inside(std::uint64_t id, std::uint32_t number, FrameKind kind, std::span<const std::byte> body) {
    if (kind == FrameKind::bye && body.empty()) {
        close_socket(id, State::left);
        return true;
    }
    return lobby_->hear(number, kind, body);
}

// The longest body that it may send.
std::size_t Server::most_of(const Connection& connection, FrameKind kind) const {
    const bool is_formed = connection.state == State::inside && kind == FrameKind::formed;
    return is_formed ? max_formed_bytes(capacity_) : kMaxBlob + sizeof(HandshakeBody);
}

void Server::tell_those_inside() {
    while (lobby_) {
        const auto send = lobby_->next();
        if (!send) return;
        const std::uint64_t id = inside_[send->to];
        const auto found = connections_.find(id);
        if (id == 0 || found == connections_.end()) continue;
        Connection& connection = found->second;
        if (send->is_last) {
            part_with(id, connection, *send->frame);
            continue;
        }
        queue(connection, send->frame);
        flush(id, connection);
        if (connection.unsent > kMostUnsent + max_formed_bytes(capacity_)) {
            // To the lobby it has left: nobody waits for it any more.
            refuse(id, connection,
                   fmt::format(
                       "it does not read what is said of newcomers: {} bytes wait for it, and the launcher keeps {}",
                       connection.unsent, kMostUnsent));
        }
    }
}

}  // namespace coppice::bootstrap
