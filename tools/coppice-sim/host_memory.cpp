#include "host_memory.hpp"

#include <algorithm>

namespace coppice::sim {
namespace {

using Bytes = engine::Contributions::Bytes;

}  // namespace

void Caches::fetch(std::uint32_t rank, Holders& holders) {
    if (holders[rank]) return;
    if (holders.any()) {
        bool in_domain = false;
        bool in_socket = false;
        for (std::uint32_t other = 0; other < places_.size() && !in_domain; ++other) {
            if (!holders[other]) continue;
            in_domain = places_[other].domain == places_[rank].domain;
            in_socket = in_socket || places_[other].socket == places_[rank].socket;
        }
        ++(in_domain ? moved_.within_domain : in_socket ? moved_.within_socket : moved_.across_sockets);
        ++fetched_[rank];
    }
    holders.set(rank);
}

void Caches::read(std::uint32_t rank, std::uint32_t owner, std::size_t at, std::size_t bytes) {
    for (std::size_t line = at / kLine; line <= (at + bytes - 1) / kLine; ++line)
        fetch(rank, holders(owner, line));
}

void Caches::write(std::uint32_t rank, std::size_t at, std::size_t bytes) {
    for (std::size_t line = at / kLine; line <= (at + bytes - 1) / kLine; ++line) {
        Holders& its = holders(rank, line);
        fetch(rank, its);
        its.reset();
        its.set(rank);
    }
}

std::uint64_t Caches::most_fetched() const {
    return fetched_.empty() ? 0 : *std::ranges::max_element(fetched_);
}

void Caches::start_counting() {
    moved_ = {};
    std::ranges::fill(fetched_, 0);
}

SharedRegions::SharedRegions(std::uint32_t ranks, std::uint32_t lines) {
    const transport::Region region = engine::Contributions::host_region(ranks, lines);
    declared_ = transport::Regions({&region, 1});
    stride_ = declared_.bytes();
    memory_.resize(stride_ * ranks);
}

void CountedContributions::publish(std::uint64_t sequence, const protocol::Contribution& contribution) {
    const Bytes bytes = contributions_.bytes_of_line(sequence, contribution.value.size());
    caches_.write(self_, bytes.at, bytes.bytes);
    contributions_.publish(sequence, contribution);
}

bool CountedContributions::look(std::uint32_t member, std::uint64_t sequence,
                                protocol::Contribution& contribution) const {
    const bool found = contributions_.look(member, sequence, contribution);
    const Bytes bytes = contributions_.bytes_of_line(sequence, found ? contribution.value.size() : 0);
    caches_.read(self_, member, bytes.at, bytes.bytes);
    return found;
}

void CountedContributions::publish_summary(std::uint64_t sequence, std::uint64_t period,
                                           const protocol::Summary& summary) {
    const Bytes bytes = contributions_.bytes_of_summary(sequence, summary.value.size());
    caches_.write(self_, bytes.at, bytes.bytes);
    contributions_.publish_summary(sequence, period, summary);
}

bool CountedContributions::look_summary(std::uint32_t speaker, std::uint64_t sequence, std::uint64_t period,
                                        protocol::Summary& summary) const {
    const bool found = contributions_.look_summary(speaker, sequence, period, summary);
    const Bytes bytes = contributions_.bytes_of_summary(sequence, found ? summary.value.size() : 0);
    caches_.read(self_, speaker, bytes.at, bytes.bytes);
    return found;
}

}  // namespace coppice::sim
