#include "simulation/explore/allreduce.hpp"

#include <algorithm>
#include <bit>

namespace coppice::simulation {

Allreduce::Allreduce(std::uint32_t self, std::uint32_t ranks, std::uint32_t block) : self_(self) {
    const std::uint32_t first = self - self % block;
    const std::uint32_t size = std::min(block, ranks - first);
    plan_reduce(first, size);
    if (self == first) plan_exchange(ranks, block);
    plan_broadcast(first, size);
    next_ = parts_.size();
}

void Allreduce::plan_reduce(std::uint32_t first, std::uint32_t size) {
    const std::uint32_t place = self_ - first;
    for (std::uint32_t bit = 1; bit < size; bit *= 2) {
        if ((place & bit) != 0) return parts_.push_back({self_ - bit, Step::send});
        if (place + bit < size) parts_.push_back({self_ + bit, Step::take_in});
    }
}

void Allreduce::plan_exchange(std::uint32_t ranks, std::uint32_t block) {
    const std::uint32_t blocks = (ranks + block - 1) / block;
    const std::uint32_t exchanging = std::bit_floor(blocks);
    const std::uint32_t pairs = blocks - exchanging;
    const std::uint32_t mine = self_ / block;
    const bool is_paired = mine < 2 * pairs;
    const std::uint32_t partner = (mine ^ 1U) * block;
    if (is_paired && mine % 2 == 0) {
        parts_.push_back({partner, Step::send});
        return parts_.push_back({partner, Step::take_over});
    }
    if (is_paired) parts_.push_back({partner, Step::take_in});
    const std::uint32_t place = is_paired ? mine / 2 : mine - pairs;
    for (std::uint32_t bit = 1; bit < exchanging; bit *= 2) {
        const std::uint32_t other = place ^ bit;
        const std::uint32_t peer = (other < pairs ? 2 * other + 1 : other + pairs) * block;
        parts_.push_back({peer, Step::send});
        parts_.push_back({peer, Step::take_in});
    }
    if (is_paired) parts_.push_back({partner, Step::send});
}

void Allreduce::plan_broadcast(std::uint32_t first, std::uint32_t size) {
    const std::uint32_t place = self_ - first;
    const std::uint32_t lowest = place & (0U - place);
    if (place != 0) parts_.push_back({self_ - lowest, Step::take_over});
    for (std::uint32_t bit = (place != 0 ? lowest : std::bit_ceil(size)) / 2; bit > 0; bit /= 2) {
        if (place + bit < size) parts_.push_back({self_ + bit, Step::send});
    }
}

void Allreduce::start(std::uint64_t value) {
    value_ = value;
    next_ = 0;
    advance();
}

void Allreduce::receive(const Message& message) {
    arrived_.push_back(message);
    if (next_ < parts_.size()) advance();
}

std::optional<Allreduce::Message> Allreduce::next_send() {
    if (sent_ == outbox_.size()) return std::nullopt;
    const Message message = outbox_[sent_++];
    if (sent_ == outbox_.size()) {
        outbox_.clear();
        sent_ = 0;
    }
    return message;
}

void Allreduce::advance() {
    for (; next_ < parts_.size(); ++next_) {
        const Part& part = parts_[next_];
        if (part.step == Step::send) {
            outbox_.push_back({.from = self_, .to = part.peer, .call = call_, .value = value_});
            continue;
        }
        const auto taken = taken_from(part.peer);
        if (!taken) return;
        value_ = part.step == Step::take_over ? *taken : value_ | *taken;
    }
    last_value_ = value_;
    ++call_;
}

std::optional<std::uint64_t> Allreduce::taken_from(std::uint32_t peer) {
    const auto found = std::ranges::find_if(
        arrived_, [&](const Message& message) { return message.from == peer && message.call == call_; });
    if (found == arrived_.end()) return std::nullopt;
    const std::uint64_t value = found->value;
    arrived_.erase(found);
    return value;
}

}  // namespace coppice::simulation
