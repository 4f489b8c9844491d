#include "simulation/gossip_phase.hpp"

#include <algorithm>

#include "base/mix.hpp"
#include "simulation/tally.hpp"

namespace coppice::simulation {
namespace {

// protocol::Chance, whose n-th word lies n times kWeyl beyond the first one: so a stream is a word, and to have drawn is an addition that is
// the same for all.
std::uint64_t first_word(std::uint64_t seed, std::uint64_t stream) {
    return mix(mix(seed) + kWeyl * (stream + 1)) + kWeyl;
}

std::uint32_t below(std::uint32_t bound, std::uint64_t word) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint32_t>((static_cast<Wide>(mix(word)) * bound) >> 64);
}

}  // namespace

bool GossipPhase::applies(const protocol::GossipPlan& plan, const LogP& model) {
    constexpr std::uint32_t kMostProcesses = 1U << 16;
    if (plan.spec.by_rounds || plan.processes < 2 || plan.processes > kMostProcesses) return false;
    if (!model.overlap || model.one_sided_ring || model.interval() != model.overhead) return false;
    const Step o = model.overhead;
    if (model.latency % o != 0 || plan.spec.limit % o != 0 || plan.spec.limit == 0) return false;
    return plan.spec.limit / o < kLastRound / 8 && model.latency / o < kLastRound / 8;
}

GossipPhase::GossipPhase(const protocol::GossipPlan& plan, const LogP& model)
    : processes_(plan.processes),
      overhead_(model.overhead),
      limit_(static_cast<Round>(plan.spec.limit / model.overhead)),
      latency_(static_cast<Round>(model.latency / model.overhead)),
      members_(processes_ + 1),
      lots_(processes_),
      senders_(static_cast<std::size_t>(correction_start()) + 1),
      reached_(processes_) {}

void GossipPhase::run(std::span<const Position> dead, std::uint64_t seed) {
    start(dead);
    join(0, 0, seed);
    for (Round now = 0; now < limit_; ++now) {
        const std::uint32_t before = count_;
        send(now);
        join(before, static_cast<Round>(now + latency_ + 2), seed);
    }
}

// A port that no message has used is free at 0, which shows that a message is the first to reach that process. The root and the dead start
// with another time, so that no message counts as their first.
void GossipPhase::start(std::span<const Position> dead) {
    for (std::vector<Round>* each : {&ports_.busy_until, &ports_.received, &ports_.sent})
        each->assign(processes_, 0);
    ports_.live.assign(processes_, 1);
    ports_.busy_until[0] = 1;
    for (const Position position : dead) {
        ports_.live[position.value] = 0;
        ports_.busy_until[position.value] = 1;
    }
    failed_ = static_cast<std::uint32_t>(dead.size());
    std::fill(senders_.begin(), senders_.end(), 0);
    reached_.clear();
    messages_ = 0;
    members_[0] = 0;
    count_ = 1;
    last_reached_ = 0;
}

// Members from the first-th on have the payload from `at` on. Their lots are set back, so that all draw as if they had from 0 on.
void GossipPhase::join(std::uint32_t first, Round at, std::uint64_t seed) {
    for (std::uint32_t i = first; i < count_; ++i) {
        lots_[i] = first_word(seed, members_[i]) - kWeyl * static_cast<std::uint64_t>(at);
        ports_.sent[members_[i]] = static_cast<Round>(std::max(limit_ - at, 0));
        reached_.insert(members_[i]);
    }
    if (count_ != first) last_reached_ = at;
    senders_[static_cast<std::size_t>(std::min(at, correction_start()))] = count_;
}

void GossipPhase::send(Round now) {
    const auto step = static_cast<std::size_t>(now);
    if (now != 0) senders_[step] = std::max(senders_[step], senders_[step - 1]);
    const std::uint32_t senders = senders_[step];
    const std::uint32_t others = processes_ - 1;
    const auto arrival = static_cast<Round>(now + 1 + latency_);
    const std::uint64_t* const lots = lots_.data();
    const std::uint64_t drawn = kWeyl * static_cast<std::uint64_t>(now);
    Round* const busy_until = ports_.busy_until.data();
    Round* const received = ports_.received.data();
    const Round* const live = ports_.live.data();
    std::uint32_t* const members = members_.data();
    std::uint32_t count = count_;
    for (std::uint32_t i = 0; i < senders; ++i) {
        const std::uint32_t other = below(others, lots[i] + drawn);
        const std::uint32_t to = other + (other >= members[i] ? 1 : 0);
        const Round free = busy_until[to];
        members[count] = to;
        count += free == 0 ? 1 : 0;
        busy_until[to] = static_cast<Round>(std::max(free, arrival) + live[to]);
        received[to] = static_cast<Round>(received[to] + live[to]);
    }
    count_ = count;
    messages_ += senders;
}

Outcome GossipPhase::conclude() const {
    Outcome outcome;
    const auto most = [](const std::vector<Round>& of) { return *std::max_element(of.begin(), of.end()); };
    outcome.coloring_latency = steps(last_reached_);
    outcome.quiescence_latency = steps(most(ports_.busy_until));
    outcome.most_sent = static_cast<std::uint32_t>(most(ports_.sent));
    outcome.most_received = static_cast<std::uint32_t>(most(ports_.received));
    outcome.failed = failed_;
    outcome.messages = messages_;
    outcome.gaps = measure_gaps(reached_, processes_);
    return outcome;
}

}  // namespace coppice::simulation
