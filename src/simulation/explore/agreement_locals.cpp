#include "simulation/explore/agreement_locals.hpp"

#include <bit>
#include <cstring>

#include "protocol/agreement/failed_codec.hpp"
#include "simulation/explore/seen.hpp"

namespace coppice::simulation {
namespace {

using protocol::Agreement;
using protocol::AgreementKind;
using protocol::AgreementMessage;
using protocol::FailedSet;
using protocol::PublishedAgreement;
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

AgreementMessage view_of(const LocalMessage& message) {
    return {message.kind, Rank{message.from}, Rank{message.to}, Sequence{message.agreement}, message.body};
}

}  // namespace

Locals::Locals(const AgreementScenario& scenario) : scenario_(scenario), board_(scenario) {}

void Locals::fail(const std::string& what) {
    if (broken_.empty()) broken_ = what;
}

std::uint32_t Locals::initial(std::uint32_t rank) {
    LocalFacts facts;
    facts.rank = rank;
    if (scenario_.published)
        return intern(
            PublishedAgreement(scenario_.plan, Rank{rank}, board_, scenario_.domains ? &*scenario_.domains : nullptr),
            facts);
    return intern(Agreement(scenario_.plan, Rank{rank}), facts);
}

// A pull that gives nothing only notes that there is nothing: it is done at once. What a rank does that finds itself
// shut out when it sends is for the explorer to say.
std::uint32_t Locals::intern(Machine machine, LocalFacts facts) {
    board_.let_in();
    Machine pulled = machine;
    const std::optional<AgreementMessage> message =
        std::visit([](auto& it) { return it.next_send(Nanoseconds{0}); }, pulled);
    facts.next.reset();
    if (message) {
        facts.next = number_of(*message);
    } else {
        machine = pulled;
    }
    look_at(machine, facts);
    scratch_.clear();
    std::visit([this](const auto& it) { it.fingerprint(scratch_); }, machine);
    scratch_.push_back(static_cast<char>(facts.rank));
    scratch_.append(reinterpret_cast<const char*>(&facts.page), sizeof facts.page);
    scratch_.append(reinterpret_cast<const char*>(facts.acknowledged.data()), facts.acknowledged.size());
    scratch_.append(reinterpret_cast<const char*>(facts.outcome.data()), facts.outcome.size() * sizeof(std::uint16_t));
    const Hash128 hash{hash_bytes(scratch_.data(), scratch_.size(), 1),
                       hash_bytes(scratch_.data(), scratch_.size(), 2)};
    const auto number = static_cast<std::uint32_t>(locals_.size());
    const auto [place, is_new] = local_numbers_.try_emplace(hash, number);
    if (!is_new) return place->second;
    if (const auto* const by_messages = std::get_if<Agreement>(&machine)) check_waiting(*by_messages, facts);
    locals_.push_back({std::move(machine), facts});
    if (facts.next) {
        // The state after the pull, and after all that follow it.
        const std::uint32_t after = intern(std::move(pulled), facts);
        locals_[number].facts.after_pull = after;
    }
    return number;
}

void Locals::look_at(const Machine& machine, LocalFacts& facts) {
    std::visit(
        [&](const auto& it) {
            facts.known_dead = bits_of(it.failed());
            facts.started = static_cast<std::uint8_t>(it.next().value);
            facts.decided_below = static_cast<std::uint8_t>(it.decided_below().value);
            facts.can_start = it.can_start() && it.next().value < total();
            facts.fenced = it.fenced();
        },
        machine);
    if (const auto* const by_messages = std::get_if<Agreement>(&machine)) {
        facts.settled_below = static_cast<std::uint8_t>(by_messages->settled_below().value);
    }
    facts.has_left = scenario_.flush && facts.decided_below == total() && !facts.next;
    for (std::uint32_t agreement = 0; agreement < total(); ++agreement) {
        const auto outcome = std::visit([&](const auto& it) { return it.outcome(Sequence{agreement}); }, machine);
        if (!outcome) {
            if (facts.outcome[agreement] != 0 && facts.started < agreement + kept())
                fail("rank " + std::to_string(facts.rank) + " has given up the outcome of agreement " +
                     std::to_string(agreement) + " too early");
            continue;
        }
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
    const std::string reason = reason_against(
        scenario_.operation, {facts.rank, agreement, outcome.value, bits_of(*outcome.failed), outcome.acknowledged},
        scenario_.plan.tree.ranks());
    if (!reason.empty()) fail(reason + where);
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
                       outcome.mismatched,
                       outcome.change_waits};
    for (std::size_t i = 0; i < outcomes_.size(); ++i) {
        if (outcomes_[i] == made) return static_cast<std::uint16_t>(i + 1);
    }
    outcomes_.push_back(made);
    return static_cast<std::uint16_t>(outcomes_.size());
}

std::uint32_t Locals::start(std::uint32_t local) {
    const std::uint64_t key = move_key(local, kStart);
    if (const auto known = moves_.find(key); known != moves_.end()) return known->second;
    Machine machine = locals_[local].machine;
    LocalFacts facts = locals_[local].facts;
    ExploredBoard::Turn turn{.self = facts.rank, .state = {}};
    turn.state.pages[facts.rank] = facts.page;
    board_.begin(turn);
    const std::uint32_t agreement = facts.started;
    facts.acknowledged[agreement] =
        scenario_.acknowledge ? static_cast<std::uint8_t>(facts.known_dead) : std::uint8_t{0};
    const ExploredValue value = explored_value(scenario_.operation, facts.rank, agreement,
                                               0xffU & ~std::uint32_t{facts.acknowledged[agreement]});
    const protocol::Operation operation = explored_operation(scenario_.operation);
    const auto number = std::visit(
        [&](auto& it) {
            if (scenario_.acknowledge) it.acknowledge(it.failed());
            it.set_change_waits(knows_of_change(facts.rank));
            return agreement == scenario_.agreements ? it.flush() : it.contribute(operation, value);
        },
        machine);
    if (number != Sequence{agreement}) fail("could not start agreement " + std::to_string(agreement));
    facts.page = board_.page();
    return moves_[key] = intern(std::move(machine), facts);
}

std::uint32_t Locals::notice(std::uint32_t local, std::uint32_t dead) {
    const std::uint64_t key = move_key(local, kNotice | dead);
    if (const auto known = moves_.find(key); known != moves_.end()) return known->second;
    Machine machine = locals_[local].machine;
    const LocalFacts facts = locals_[local].facts;
    const bool is_one = std::has_single_bit(dead);
    FailedSet ranks;
    for (std::uint32_t rank = 0; rank < kMostExplored; ++rank) {
        if ((dead >> rank & 1) != 0) ranks.insert(rank);
    }
    std::visit([&](auto& it) { is_one ? it.peer_failed(Rank{ranks.intervals()[0].first}) : it.peers_failed(ranks); },
               machine);
    const std::uint32_t after = intern(std::move(machine), facts);
    if ((dead & ~locals_[after].facts.known_dead) != 0)
        fail("rank " + std::to_string(facts.rank) + " was told that " + ranks_of(dead) + " failed, and knows less");
    return moves_[key] = after;
}

std::uint32_t Locals::receive(std::uint32_t local, std::uint32_t message) {
    const std::uint64_t key = move_key(local, message);
    if (const auto known = moves_.find(key); known != moves_.end()) return known->second;
    Machine machine = locals_[local].machine;
    const LocalFacts facts = locals_[local].facts;
    const AgreementMessage content = view_of(messages_[message]);
    const Reception reception = std::visit([&](auto& it) { return it.receive(content); }, machine);
    if (reception == Reception::garbage) fail("refused a message that can occur: " + describe(message));
    return moves_[key] = intern(std::move(machine), facts);
}

bool Locals::is_stale(std::uint32_t local, std::uint32_t message) {
    const std::uint64_t key = move_key(local, message);
    if (const auto known = stale_.find(key); known != stale_.end()) return known->second;
    Machine machine = locals_[local].machine;
    const AgreementMessage content = view_of(messages_[message]);
    const Reception reception = std::visit([&](auto& it) { return it.receive(content); }, machine);
    return stale_[key] = reception == Reception::stale && scenario_.plan.printed == 0;
}

std::uint32_t Locals::look_as(std::uint32_t local, bool thoroughly, const ExploredBoard::Turn& turn) {
    Machine machine = locals_[local].machine;
    LocalFacts facts = locals_[local].facts;
    auto& published = std::get<PublishedAgreement>(machine);
    board_.begin(turn);
    try {
        published.look(thoroughly);
    } catch (const StopsAtMissing&) {
        // Then it stands as it does in the middle of a look.
    }
    const bool is_told = (turn.state.shut_out >> facts.rank & 1) != 0;
    if (board_.overtaken() && !is_told) {
        fail("rank " + std::to_string(facts.rank) + " looks for a contribution that has been overwritten");
    }
    facts.page = board_.page();
    // What it has merely read it can read again.
    const auto& before = std::get<PublishedAgreement>(locals_[local].machine);
    const bool same = published.decided_below() == before.decided_below() &&
                      published.recovering() == before.recovering() && published.fenced() == before.fenced() &&
                      facts.page == locals_[local].facts.page;
    if (same) return local;
    return intern(std::move(machine), facts);
}

Locals::Hash128 Locals::look_key(std::uint32_t local, std::uint32_t how, const BoardState& board) const {
    const std::uint32_t rank = locals_[local].facts.rank;
    const std::uint64_t head = std::uint64_t{local} << 32 | how << 1 | (board.shut_out >> rank & 1U);
    const std::size_t bytes = scenario_.plan.tree.ranks() * sizeof board.pages[0];
    return {hash_bytes(board.pages.data(), bytes, mix(head, 7)), hash_bytes(board.pages.data(), bytes, mix(head, 8))};
}

bool Locals::sends_when_shut_out(std::uint32_t local) {
    const LocalFacts& facts = locals_[local].facts;
    PublishedAgreement machine = std::get<PublishedAgreement>(locals_[local].machine);
    ExploredBoard::Turn turn{.self = facts.rank, .state = {}};
    turn.state.shut_out = static_cast<std::uint8_t>(1U << facts.rank);
    turn.state.pages[facts.rank] = facts.page;
    board_.begin(turn);
    return machine.next_send(Nanoseconds{0}).has_value() || !machine.fenced();
}

LocalLook Locals::look(std::uint32_t local, bool thoroughly, const BoardState& board) {
    const Hash128 key = look_key(local, thoroughly ? 1 : 0, board);
    if (const auto known = looks_.find(key); known != looks_.end()) return known->second;
    const std::uint32_t rank = locals_[local].facts.rank;
    LocalLook look;
    look.after = look_as(local, thoroughly, {.self = rank, .state = board});
    look.matters = look.after != local;
    const std::uint32_t missing = board_.missing();
    if (missing != ExploredBoard::kNobody && !locals_[look.after].facts.fenced) {
        const std::uint32_t whole = look.after;
        look.missing = missing;
        look.after = look_as(local, thoroughly,
                             {.self = rank, .state = board, .missing = ExploredBoard::Missing::stops_the_look});
        // Without `thoroughly` what follows reads nothing more.
        look.pauses = thoroughly || locals_[whole].facts.page != locals_[look.after].facts.page;
        look.matters = whole != local && (look.pauses || look.after != local);
    }
    return looks_[key] = look;
}

std::uint32_t Locals::look_after_pause(std::uint32_t local, bool thoroughly, std::uint32_t missing,
                                       const BoardState& board) {
    const Hash128 key = look_key(local, 2 + missing * 2 + (thoroughly ? 1 : 0), board);
    if (const auto known = looks_.find(key); known != looks_.end()) return known->second.after;
    const std::uint32_t rank = locals_[local].facts.rank;
    const std::uint32_t after = look_as(local, thoroughly, {.self = rank, .state = board, .hidden = missing});
    return (looks_[key] = {.after = after}).after;
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
        text.append(" (of ").append(describe_value(scenario_.operation, body.value));
        if (!failed.empty()) text.append("; failed: ").append(ranks_of(bits_of(failed)));
        text.append(")");
    }
    return text;
}

std::string Locals::describe_outcome(std::uint16_t outcome) const {
    const Outcome& content = outcomes_[outcome - 1U];
    return "of " + describe_value(scenario_.operation, content.value) + ", failed: " + ranks_of(content.failed);
}

}  // namespace coppice::simulation
