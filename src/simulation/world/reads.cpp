// One-sided reads over the far wire: the rank that is read from has no part in them, whatever it does, as long as it lives. What it has not exposed,
// or has withdrawn, ends the reader's connection to it, as over verbs.
#include <algorithm>
#include <cstring>

#include "simulation/world/network.hpp"

namespace coppice::world {

using transport::SendStatus;

namespace {

constexpr std::size_t kMostReads = 16;  // under way from one rank to all others

}  // namespace

transport::Exposure Port::expose(std::span<std::byte> memory) {
    clockwork_.act(rank_);
    const Within outside(nullptr);
    exposed_.push_back({next_key_, memory});
    return {.address = reinterpret_cast<std::uint64_t>(memory.data()), .key = next_key_++, .own_key = 0};
}

void Port::withdraw(const transport::Exposure& memory) {
    clockwork_.act(rank_);
    const Within outside(nullptr);
    std::erase_if(exposed_, [&memory](const Exposed& one) { return one.key == memory.key; });
}

SendStatus Port::read(std::uint32_t from, const transport::RemoteMemory& what, std::span<std::byte> into,
                      transport::Reads* reads) {
    clockwork_.act(rank_);
    const Within outside(nullptr);
    Peer& peer = peers_[from];
    if (!peer.added || peer.gone || peer.fenced) return SendStatus::failed;
    connect(from);
    if (!peer.open || reads_.size() >= kMostReads) return SendStatus::again;
    ++reads->under_way;
    ++counters_.reads;
    const std::uint64_t number = ++next_read_;
    reads_[number] = {.from = from, .what = what, .into = into, .reads = reads};
    const std::uint64_t jitter = clockwork_.fate().jitter_ns;
    const std::uint64_t passable = network_.passable_ns(rank_, from, clockwork_.now_ns());
    if (passable == kNever) return SendStatus::sent;  // until it is noticed
    peer.last_read_ns = std::max(passable + peer.latency_ns + clockwork_.draw(jitter), peer.last_read_ns);
    peer.last_landing_ns =
        std::max(peer.last_read_ns + peer.latency_ns + clockwork_.draw(jitter), peer.last_landing_ns);
    clockwork_.at(peer.last_read_ns, *this, kReadEvent | number);
    clockwork_.at(peer.last_landing_ns, *this, kReadEvent | number);
    return SendStatus::sent;
}

bool Port::may_be_read_by(std::uint32_t peer) const {
    return peers_[peer].open && !peers_[peer].gone && !peers_[peer].fenced;
}

// First it is read there, then it lands here.
void Port::read_happens(std::uint64_t number) {
    const auto found = reads_.find(number);
    if (found == reads_.end()) return;
    Read& read = found->second;
    if (!read.is_taken) return take_from_memory(read);
    std::memcpy(read.into.data(), read.bytes.data(), read.bytes.size());
    read.has_arrived = true;
    if (clockwork_.tell_traffic) tell_of_read(read);
}

void Port::take_from_memory(Read& read) {
    const Port& other = port_of(read.from);
    const auto holds = [&read](const Exposed& one) {
        const auto begin = reinterpret_cast<std::uint64_t>(one.memory.data());
        return one.key == read.what.key && read.what.address >= begin &&
               read.what.address + read.into.size() <= begin + one.memory.size();
    };
    const bool answers = other.there_ && !clockwork_.dead(read.from) && !other.peers_[rank_].fenced;
    const std::uint32_t from = read.from;
    if (answers && std::ranges::any_of(other.exposed_, holds)) {
        const auto* const memory = reinterpret_cast<const std::byte*>(read.what.address);
        read.bytes.assign(memory, memory + read.into.size());
        read.is_taken = true;
        return;
    }
    drop_reads(from);
    if (answers) lose(from, 0);
}

// They land no more.
void Port::drop_reads(std::uint32_t from) {
    const Within outside(nullptr);
    std::erase_if(reads_, [this, from](const auto& one) {
        if (one.second.from != from || one.second.has_arrived) return false;
        dropped_reads_.push_back(one.second.reads);
        return true;
    });
}

std::size_t Port::tell_of_reads() {
    const Within outside(nullptr);
    const std::size_t told = dropped_reads_.size();
    for (transport::Reads* const reads : dropped_reads_)
        --reads->under_way;
    dropped_reads_.clear();
    return told + std::erase_if(reads_, [](const auto& one) {
               if (!one.second.has_arrived) return false;
               --one.second.reads->under_way;
               ++one.second.reads->arrived;
               return true;
           });
}

}  // namespace coppice::world
