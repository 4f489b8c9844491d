#include "simulation/explore/explored_board.hpp"

#include <algorithm>

#include "protocol/agreement/agreement_body.hpp"
#include "protocol/agreement/operation.hpp"
#include "simulation/explore/seen.hpp"

namespace coppice::simulation {

using protocol::Contribution;

ExploredBoard::ExploredBoard(const AgreementScenario& scenario)
    : lines_(scenario.plan.window * 2),
      flush_(scenario.flush ? scenario.agreements : kNobody),
      silent_(scenario.suspects_silently),
      pages_(1),
      operation_(scenario.operation) {
    numbers_[hash_bytes(&pages_[0], sizeof pages_[0], 0)].push_back(0);
}

void ExploredBoard::begin(const Turn& turn) {
    turn_ = turn;
    own_ = pages_[turn.state.pages[turn.self]];
    missing_ = kNobody;
    overtaken_ = false;
    hides_ = turn.hidden != kNobody;
}

std::uint32_t ExploredBoard::page() {
    std::vector<std::uint32_t>& alike = numbers_[hash_bytes(&own_, sizeof own_, 0)];
    for (const std::uint32_t number : alike) {
        if (pages_[number] == own_) return number;
    }
    alike.push_back(static_cast<std::uint32_t>(pages_.size()));
    pages_.push_back(own_);
    return alike.back();
}

const BoardPage& ExploredBoard::page_of(std::uint32_t member) const {
    return member == turn_.self ? own_ : pages_[turn_.state.pages[member]];
}

bool ExploredBoard::is_missing(std::uint32_t member) const {
    if (turn_.missing == Missing::stops_the_look) throw StopsAtMissing{};
    if (missing_ == kNobody) missing_ = member;
    return false;
}

void ExploredBoard::publish(std::uint64_t sequence, const Contribution& contribution) {
    own_.published = static_cast<std::uint8_t>(sequence + 1);
    own_.acknowledged[sequence] = static_cast<std::uint8_t>(contribution.acknowledged);
}

bool ExploredBoard::look(std::uint32_t member, std::uint64_t sequence, Contribution& contribution) const {
    const BoardPage& page = page_of(member);
    if (is_hidden(member)) return is_missing(member);
    if (page.published > sequence + lines_) {
        overtaken_ = true;
        return false;
    }
    if (page.published <= sequence) return is_missing(member);
    contribution.acknowledged = page.acknowledged[sequence];
    contribution.change_waits = knows_of_change(member);
    if (sequence == flush_) {
        contribution.operation = protocol::kFlushCode;
        contribution.value = {};
    } else {
        std::uint32_t unacknowledged = 0xff;
        for (std::uint32_t i = 0; i < contribution.acknowledged; ++i)
            unacknowledged &= ~(1U << page.log[i]);
        contribution.operation = protocol::encode_operation(explored_operation(operation_));
        values_[member] = explored_value(operation_, member, static_cast<std::uint32_t>(sequence), unacknowledged);
        contribution.value = values_[member];
    }
    return true;
}

bool ExploredBoard::is_hidden(std::uint32_t member) const {
    if (!hides_ || member != turn_.hidden) return false;
    hides_ = false;
    return true;
}

void ExploredBoard::publish_summary(std::uint64_t sequence, std::uint64_t period, const protocol::Summary& summary) {
    const Said said{.operation = summary.operation,
                    .change_waits = summary.change_waits,
                    .unacknowledged = summary.unacknowledged,
                    .differs = summary.differs,
                    .value = {summary.value.begin(), summary.value.end()}};
    const auto number = static_cast<std::size_t>(std::ranges::find(said_, said) - said_.begin());
    if (number == said_.size()) said_.push_back(said);
    own_.period[sequence] = static_cast<std::uint8_t>(period + 1);
    own_.summary[sequence] = {static_cast<std::uint8_t>(number), static_cast<std::uint8_t>(number >> 8)};
}

bool ExploredBoard::look_summary(std::uint32_t speaker, std::uint64_t sequence, std::uint64_t period,
                                 protocol::Summary& summary) const {
    const BoardPage& page = page_of(speaker);
    if (is_hidden(speaker)) return is_missing(speaker);
    const std::uint64_t later = sequence + lines_;
    if ((later < kMostAgreements && page.period[later] != 0) || page.period[sequence] > period + 1) {
        overtaken_ = true;
        return false;
    }
    if (page.period[sequence] != period + 1) return is_missing(speaker);
    const auto [low, high] = page.summary[sequence];
    const Said& said = said_[low | std::size_t{high} << 8];
    summary = {said.operation, said.change_waits, said.unacknowledged, said.differs, said.value};
    return true;
}

void ExploredBoard::log_acknowledged(std::uint32_t failed) {
    own_.log[own_.logged] = static_cast<std::uint8_t>(failed);
    ++own_.logged;
}

std::uint32_t ExploredBoard::logged_acknowledged(std::uint32_t member, std::uint32_t index) const {
    const BoardPage& page = page_of(member);
    return index < page.logged ? page.log[index] : kNobody;
}

void ExploredBoard::set_recoveries(std::uint64_t count) {
    own_.recoveries = static_cast<std::uint8_t>(count);
}

std::uint64_t ExploredBoard::recoveries(std::uint32_t member) const {
    return page_of(member).recoveries;
}

bool ExploredBoard::shut_out() const {
    return !silent_ && (turn_.state.shut_out >> turn_.self & 1) != 0;
}

}  // namespace coppice::simulation
