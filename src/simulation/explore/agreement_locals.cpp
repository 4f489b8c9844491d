#include "simulation/explore/agreement_locals.hpp"

#include <cstring>

#include "protocol/agreement/failed_codec.hpp"
#include "simulation/explore/seen.hpp"

namespace coppice::simulation {
namespace {

using protocol::Agreement;
using protocol::AgreementKind;
using protocol::AgreementMessage;
using protocol::FailedSet;
using protocol::Operation;
using protocol::Operator;
using protocol::Reception;

constexpr std::uint32_t kStart = 1U << 30;
constexpr std::uint32_t kNotice = 1U << 29;

std::uint64_t move_key(std::uint32_t local, std::uint32_t event) {
    return std::uint64_t{local} << 32 | event;
}

std::uint32_t bits_of(const FailedSet& failed) {
    std::uint32_t bits = 0;
    for (const FailedSet::Interval& interval : failed.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank)
            bits |= 1U << rank;
    }
    return bits;
}

std::string ranks_of(std::uint32_t bits) {
    std::string text;
    for (std::uint32_t rank = 0; rank < 32; ++rank) {
        if ((bits >> rank & 1) != 0) text.append(text.empty() ? "" : ",").append(std::to_string(rank));
    }
    return text.empty() ? "none" : text;
}

}  // namespace

Locals::Locals(const AgreementScenario& scenario) : scenario_(scenario) {}

void Locals::fail(const std::string& what) {
    if (broken_.empty()) broken_ = what;
}

std::uint32_t Locals::initial(std::uint32_t rank) {
    LocalFacts facts;
    facts.rank = rank;
    return intern(Agreement(scenario_.plan, Rank{rank}), facts);
}

// A pull that gives nothing only notes that there is nothing: it is done at once.
std::uint32_t Locals::intern(Agreement machine, LocalFacts facts) {
    Agreement pulled = machine;
    const std::optional<AgreementMessage> message = pulled.next_send(Nanoseconds{0});
    facts.next.reset();
    if (message) {
        facts.next = number_of(*message);
    } else {
        machine = pulled;
    }
    look_at(machine, facts);
    scratch_.clear();
    machine.fingerprint(scratch_);
    scratch_.push_back(static_cast<char>(facts.rank));
    scratch_.append(reinterpret_cast<const char*>(facts.acknowledged.data()), facts.acknowledged.size());
    scratch_.append(reinterpret_cast<const char*>(facts.outcome.data()), facts.outcome.size() * sizeof(std::uint16_t));
    const Hash128 hash{hash_bytes(scratch_.data(), scratch_.size(), 1),
                       hash_bytes(scratch_.data(), scratch_.size(), 2)};
    const auto number = static_cast<std::uint32_t>(locals_.size());
    const auto [place, is_new] = local_numbers_.try_emplace(hash, number);
    if (!is_new) return place->second;
    check_waiting(machine, facts);
    locals_.push_back({std::move(machine), facts});
    if (facts.next) {
        // The state after the pull, and after all that follow it.
        const std::uint32_t after = intern(std::move(pulled), facts);
        locals_[number].facts.after_pull = after;
    }
    return number;
}

void Locals::look_at(const Agreement& machine, LocalFacts& facts) {
    facts.known_dead = bits_of(machine.failed());
    facts.started = static_cast<std::uint8_t>(machine.next().value);
    facts.decided_below = static_cast<std::uint8_t>(machine.decided_below().value);
    facts.settled_below = static_cast<std::uint8_t>(machine.settled_below().value);
    facts.can_start = machine.can_start() && machine.next().value < total();
    facts.has_left = scenario_.flush && facts.decided_below == total() && !facts.next;
    for (std::uint32_t agreement = 0; agreement < total(); ++agreement) {
        const auto outcome = machine.outcome(Sequence{agreement});
        if (!outcome) continue;
        const std::uint16_t number = number_of(*outcome);
        std::uint16_t& known = facts.outcome[agreement];
        if (known != 0 && known != number)
            fail("Irrevocability: rank " + std::to_string(facts.rank) + " changed agreement " +
                 std::to_string(agreement));
        if (known == 0) check_outcome(facts, agreement, *outcome);
        known = number;
    }
}

// What one rank can see of an outcome.
void Locals::check_outcome(const LocalFacts& facts, std::uint32_t agreement,
                           const protocol::AgreementOutcome& outcome) {
    const std::string where = " (rank " + std::to_string(facts.rank) + ", agreement " + std::to_string(agreement) + ")";
    if (facts.started <= agreement) fail("Participation: decided before it contributed" + where);
    if (outcome.mismatched) fail("a mismatch where there was none" + where);
    if (agreement == scenario_.agreements) return;  // the flush
    if (outcome.value.size() != 2) return fail("a value of another size" + where);
    const auto contributed = std::to_integer<std::uint32_t>(outcome.value[0]);
    if (std::to_integer<std::uint32_t>(outcome.value[1]) != 1U << agreement) {
        fail("the value of another agreement" + where);
    }
    if ((contributed >> facts.rank & 1) == 0) fail("Participation: its own contribution is missing" + where);
    const std::uint32_t failed = bits_of(*outcome.failed);
    const std::uint32_t all = (1U << scenario_.plan.tree.ranks()) - 1;
    if ((contributed | failed) != all) {
        fail("the contribution of " + ranks_of(all & ~(contributed | failed)) +
             " is missing, and it is not in the failed set" + where);
    }
}

void Locals::check_waiting(const Agreement& machine, const LocalFacts& facts) {
    for (std::uint32_t agreement = 0; agreement < facts.started; ++agreement) {
        bool waits = false;
        machine.waiting_for(Sequence{agreement}, [&](Rank rank) {
            waits = true;
            if ((facts.known_dead >> rank.value & 1) != 0) {
                fail("rank " + std::to_string(facts.rank) + " waits for the dead rank " + std::to_string(rank.value));
            }
            return true;
        });
        if (!waits && facts.outcome[agreement] == 0 && agreement >= facts.decided_below) {
            fail("rank " + std::to_string(facts.rank) + " waits for nobody, and has not decided agreement " +
                 std::to_string(agreement));
        }
    }
}

std::uint32_t Locals::number_of(const AgreementMessage& message) {
    LocalMessage made{message.kind,
                      message.from.value,
                      message.to.value,
                      message.agreement.value,
                      {message.body.begin(), message.body.end()}};
    if (made.to == made.from || made.to >= scenario_.plan.tree.ranks()) fail("a message to nobody");
    const std::uint64_t head[4] = {static_cast<std::uint64_t>(made.kind), made.from, made.to, made.agreement};
    const std::uint64_t seed = hash_bytes(head, sizeof(head), 3);
    const Hash128 hash{hash_bytes(made.body.data(), made.body.size(), seed),
                       hash_bytes(made.body.data(), made.body.size(), seed + 1)};
    const auto [place, is_new] = message_numbers_.try_emplace(hash, static_cast<std::uint32_t>(messages_.size()));
    if (is_new) messages_.push_back(std::move(made));
    return place->second;
}

std::uint16_t Locals::number_of(const protocol::AgreementOutcome& outcome) {
    const Outcome made{{outcome.value.begin(), outcome.value.end()},
                       bits_of(*outcome.failed),
                       outcome.acknowledged,
                       outcome.mismatched};
    for (std::size_t i = 0; i < outcomes_.size(); ++i) {
        if (outcomes_[i] == made) return static_cast<std::uint16_t>(i + 1);
    }
    outcomes_.push_back(made);
    return static_cast<std::uint16_t>(outcomes_.size());
}

std::uint32_t Locals::start(std::uint32_t local) {
    const std::uint64_t key = move_key(local, kStart);
    if (const auto known = moves_.find(key); known != moves_.end()) return known->second;
    Agreement machine = locals_[local].machine;
    LocalFacts facts = locals_[local].facts;
    if (scenario_.acknowledge) machine.acknowledge(machine.failed());
    const std::uint32_t agreement = facts.started;
    facts.acknowledged[agreement] =
        scenario_.acknowledge ? static_cast<std::uint8_t>(facts.known_dead) : std::uint8_t{0};
    const std::array<std::byte, 2> value{static_cast<std::byte>(1U << facts.rank),
                                         static_cast<std::byte>(1U << agreement)};
    const auto number =
        agreement == scenario_.agreements ? machine.flush() : machine.contribute(Operation{Operator::bit_or}, value);
    if (number != Sequence{agreement}) fail("could not start agreement " + std::to_string(agreement));
    return moves_[key] = intern(std::move(machine), facts);
}

std::uint32_t Locals::notice(std::uint32_t local, std::uint32_t dead) {
    const std::uint64_t key = move_key(local, kNotice | dead);
    if (const auto known = moves_.find(key); known != moves_.end()) return known->second;
    Agreement machine = locals_[local].machine;
    const LocalFacts facts = locals_[local].facts;
    machine.peer_failed(Rank{dead});
    return moves_[key] = intern(std::move(machine), facts);
}

std::uint32_t Locals::receive(std::uint32_t local, std::uint32_t message) {
    const std::uint64_t key = move_key(local, message);
    if (const auto known = moves_.find(key); known != moves_.end()) return known->second;
    Agreement machine = locals_[local].machine;
    const LocalFacts facts = locals_[local].facts;
    const LocalMessage& content = messages_[message];
    const Reception reception = machine.receive(
        {content.kind, Rank{content.from}, Rank{content.to}, Sequence{content.agreement}, content.body});
    if (reception == Reception::garbage) fail("refused a message that can occur: " + describe(message));
    if (machine.fenced()) fail("rank " + std::to_string(facts.rank) + " is taken for dead");
    return moves_[key] = intern(std::move(machine), facts);
}

bool Locals::is_stale(std::uint32_t local, std::uint32_t message) {
    const std::uint64_t key = move_key(local, message);
    if (const auto known = stale_.find(key); known != stale_.end()) return known->second;
    Agreement machine = locals_[local].machine;
    const LocalMessage& content = messages_[message];
    const bool stale = machine.receive({content.kind, Rank{content.from}, Rank{content.to}, Sequence{content.agreement},
                                        content.body}) == Reception::stale &&
                       scenario_.plan.printed == 0;
    return stale_[key] = stale;
}

std::string Locals::describe(std::uint32_t message) const {
    const LocalMessage& content = messages_[message];
    std::string text = std::to_string(content.from) + " -> " + std::to_string(content.to) + " ";
    text.append(to_string(content.kind));
    if (scenario_.agreements > 1 || scenario_.flush) text.append(" #").append(std::to_string(content.agreement));
    FailedSet failed;
    FailedSet acknowledged;
    if (content.kind == AgreementKind::result_request) {
        std::span<const std::byte> rest = content.body;
        protocol::read_failed(rest, kMostExplored, failed);
        return text + " (failed: " + ranks_of(bits_of(failed)) + ")";
    }
    protocol::AgreementBody body;
    protocol::read_body(content.body, 256, kMostExplored, failed, acknowledged, body);
    if (!body.value.empty()) {
        text.append(" (of ").append(ranks_of(std::to_integer<std::uint32_t>(body.value[0])));
        if (!failed.empty()) text.append("; failed: ").append(ranks_of(bits_of(failed)));
        text.append(")");
    }
    return text;
}

std::string Locals::describe_outcome(std::uint16_t outcome) const {
    const Outcome& content = outcomes_[outcome - 1U];
    const std::uint32_t ranks = content.value.empty() ? 0 : std::to_integer<std::uint32_t>(content.value[0]);
    return "of " + ranks_of(ranks) + ", failed: " + ranks_of(content.failed);
}

}  // namespace coppice::simulation
