// The exchange itself: what ranks give in a round, when it can be answered, and with what. Connections are in server.cpp.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bootstrap/server.hpp"

namespace coppice::bootstrap {

bool Server::contribute(Connection& connection, std::span<const std::byte> body) {
    std::uint32_t round = 0;
    if (!take(body, round) || body.size() > kMaxBlob || round != connection.round || connection.waiting) return false;
    Generation& generation = generations_[connection.generation];
    if (round != generation.round) return false;
    Round& current = generation.current;
    current.blobs.resize(generation.circle->ranks.size());
    current.given.resize(generation.circle->ranks.size(), false);
    current.blobs[connection.place].assign(body.begin(), body.end());
    current.given[connection.place] = true;
    ++current.contributions;
    connection.waiting = true;
    return true;
}

bool Server::is_dead(const Generation& generation, std::uint32_t rank) const {
    const auto member = generation.members.find(rank);
    if (member == generation.members.end()) return ended_[rank];
    return connections_.at(member->second).state == State::dead;
}

// A rank that lives, has been in this exchange, and will never contribute to it again.
bool Server::has_left(const Generation& generation, std::uint32_t rank) const {
    const auto member = generation.members.find(rank);
    return member != generation.members.end() && connections_.at(member->second).state == State::left;
}

// Of the ranks that a greeting lists, all when it lists none; none for what is no such list.
std::optional<std::uint32_t> Server::circle_of(std::span<const std::byte> list, std::uint32_t rank) {
    if (list.empty()) return 0;
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t one = 0; take(list, one);)
        ranks.push_back(one);
    std::vector<std::uint32_t> sorted(ranks);
    std::ranges::sort(sorted);
    if (!list.empty() || sorted.back() >= size_ || std::ranges::adjacent_find(sorted) != sorted.end() ||
        !std::ranges::binary_search(sorted, rank))
        return std::nullopt;
    const auto [found, is_new] = circle_numbers_.try_emplace(ranks, next_circle_);
    if (is_new) {
        Circle& circle = circles_[next_circle_++];
        circle.begun.resize(ranks.size(), 0);
        circle.ranks = std::move(ranks);
    }
    return found->second;
}

// Where no generation is left, all that live have begun as many of them, so the list may begin anew.
void Server::forget_unused(std::uint32_t circle) {
    const auto found = circles_.find(circle);
    if (circle == 0 || found->second.kept > 0) return;
    circle_numbers_.erase(found->second.ranks);
    circles_.erase(found);
}

// Looks whether the generation's round can be answered now.
void Server::review(GenerationId number) {
    const auto found = generations_.find(number);
    if (found == generations_.end()) return;
    Generation& generation = found->second;
    Round& current = generation.current;
    if (current.contributions == 0) return;
    bool complete = true;
    const std::vector<std::uint32_t>& ranks = generation.circle->ranks;
    for (std::size_t place = 0; place < ranks.size(); ++place) {
        const std::uint32_t rank = ranks[place];
        if (current.given[place]) continue;
        if (has_left(generation, rank)) {
            std::vector<std::byte> body;
            append(body, generation.round);
            append(body, rank);
            const auto frame = std::make_shared<std::vector<std::byte>>(make_frame(FrameKind::left, body));
            std::vector<std::uint64_t> ids;
            for (const auto& [member, id] : generation.members)
                ids.push_back(id);
            for (const auto id : ids) {
                Connection& connection = connections_.at(id);
                if (!connection.waiting) continue;
                connection.waiting = false;
                connection.round = UINT32_MAX;  // this exchange is over for it; whatever else it says is garbage
                queue(connection, frame);
                flush(id, connection);
            }
            return;
        }
        if (!is_dead(generation, rank)) {
            // Most reviews end here early, as ranks tend to arrive in order of their numbers.
            complete = false;
            if (current.contributions + generation.gone + ended_count_ < ranks.size()) return;
        }
    }
    if (complete) answer(number, generation);
}

void Server::answer(GenerationId number, Generation& generation) {
    std::vector<std::byte> body;
    append(body, generation.round);
    for (const auto& blob : generation.current.blobs) {
        append(body, static_cast<std::uint32_t>(blob.size()));
        append_bytes(body, blob);
    }
    const auto frame = std::make_shared<std::vector<std::byte>>(make_frame(FrameKind::gathered, body));
    generation.current = Round{};
    ++generation.round;
    if (number == 0) gathered_ = true;
    std::vector<std::uint64_t> ids;
    for (const auto& [rank, id] : generation.members)
        ids.push_back(id);
    // First all states, then the sending: a flush may find a connection broken and review this generation
    // again.
    for (const auto id : ids) {
        Connection& connection = connections_.at(id);
        if (!connection.waiting) continue;
        connection.waiting = false;
        connection.round = generation.round;
        queue(connection, frame);
    }
    for (const auto id : ids)
        flush(id, connections_.at(id));
}

void Server::tell_missing(Connection& connection) {
    const Generation& generation = generations_[connection.generation];
    std::vector<std::byte> body;
    append(body, connection.round);
    const std::vector<std::uint32_t>& ranks = generation.circle->ranks;
    for (std::size_t place = 0; place < ranks.size(); ++place) {
        const std::uint32_t rank = ranks[place];
        const bool given = !generation.current.given.empty() && generation.current.given[place];
        if (given || is_dead(generation, rank)) continue;
        const bool connected = generation.members.contains(rank);
        append(body, MissingEntry{rank, connected ? MissingState::connected : MissingState::never_called});
    }
    const std::uint64_t id = generation.members.at(connection.rank);
    queue(connection, std::make_shared<std::vector<std::byte>>(make_frame(FrameKind::missing, body)));
    flush(id, connection);
}

// A generation that everybody has left or died in is over; so is its memory.
void Server::retire(GenerationId number) {
    const auto found = generations_.find(number);
    if (found == generations_.end()) return;
    const Generation& generation = found->second;
    for (const std::uint32_t rank : generation.circle->ranks) {
        if (!is_dead(generation, rank) && !has_left(generation, rank)) return;
    }
    for (const auto& [rank, member] : generation.members)
        connections_.erase(member);
    generations_.erase(found);
    const auto circle = static_cast<std::uint32_t>(number >> 32U);
    --circles_[circle].kept;
    forget_unused(circle);
}

}  // namespace coppice::bootstrap
