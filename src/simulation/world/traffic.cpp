// What is told of the traffic between ranks, for a reader of one run. Nothing here changes the run.
#include <fmt/format.h>

#include "simulation/world/host_board.hpp"
#include "simulation/world/message_name.hpp"
#include "simulation/world/network.hpp"

namespace coppice::world {

void Port::tell_of_message(std::uint32_t from, const Message& message) const {
    const Within outside(nullptr);
    const std::span<const std::byte> all = message.bytes;
    std::string what;
    switch (message.kind) {
        case Message::Kind::goodbye:
            what = "goodbye";
            break;
        case Message::Kind::fenced:
            what = "I take you for dead";
            break;
        case Message::Kind::data:
            what = describe_message(all.first(message.header), all.size() - message.header);
            break;
    }
    const bool is_refused = message.kind == Message::Kind::data && peers_[from].fenced;
    clockwork_.tell_traffic(fmt::format("{:>12} ns  rank {} to rank {}: {}{}", clockwork_.now_ns(), from, rank_, what,
                                        is_refused ? " (refused)" : ""));
}

void Port::tell_of_read(const Read& read) const {
    const Within outside(nullptr);
    clockwork_.tell_traffic(fmt::format("{:>12} ns  rank {} has read {} bytes of rank {}'s memory", clockwork_.now_ns(),
                                        rank_, read.bytes.size(), read.from));
}

void HostBoard::tell_stored(std::string_view what, std::uint64_t value) const {
    const Within outside(nullptr);
    network_.clockwork().tell_traffic(
        fmt::format("{:>12} ns  rank {} shows its host: {} {}", network_.clockwork().now_ns(), self_, what, value));
}

void HostBoard::tell_published(Sequence sequence, const Line& line) const {
    const Within outside(nullptr);
    network_.clockwork().tell_traffic(
        fmt::format("{:>12} ns  rank {} shows its host: broadcast {} of rank {}, {} bytes",
                    network_.clockwork().now_ns(), self_, sequence.value, line.root, line.length));
}

void HostBoard::tell_word(const shared::Published<std::uint64_t>& word, std::uint64_t value) const {
    const auto at = reinterpret_cast<const std::byte*>(&word) - own().regions();
    const std::string_view region = network_.regions().name_at(static_cast<std::size_t>(at));
    tell_stored(region.empty() ? "a word" : region, value);
}

}  // namespace coppice::world
