#include "simulation/explore/agreement_group.hpp"

#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "protocol/agreement/failed_codec.hpp"

namespace coppice::simulation {
namespace {

using protocol::Agreement;
using protocol::AgreementKind;
using protocol::FailedSet;
using protocol::Operation;
using protocol::Operator;
using protocol::Reception;

void or_function(void* /*context*/, std::byte* into, const std::byte* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
        into[i] |= from[i];
}

// Whether this rank says that it knows of a change of members: some ranks, in some agreements.
bool knows_of_change(std::uint32_t rank, std::uint64_t agreement) {
    return (7 * rank + agreement) % 5 == 0;
}

std::string ranks_of(std::uint64_t bits) {
    std::string text;
    for (std::uint32_t rank = 0; rank < 64; ++rank) {
        if ((bits >> rank & 1) != 0) text.append(text.empty() ? "" : ",").append(std::to_string(rank));
    }
    return text.empty() ? "none" : text;
}

std::uint64_t bits_of(const FailedSet& failed) {
    std::uint64_t bits = 0;
    for (const FailedSet::Interval& interval : failed.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank)
            bits |= std::uint64_t{1} << rank;
    }
    return bits;
}

std::uint64_t word_of(std::span<const std::byte> value, std::size_t index) {
    std::uint64_t word = 0;
    std::memcpy(&word, value.data() + index * 8, 8);
    return word;
}

}  // namespace

std::string describe(const GroupMessage& message, std::uint32_t ranks) {
    std::string text = std::to_string(message.from) + " -> " + std::to_string(message.to) + " ";
    text.append(to_string(message.kind)).append(" #").append(std::to_string(message.agreement));
    FailedSet failed;
    FailedSet acknowledged;
    if (message.kind == AgreementKind::result_request) {
        std::span<const std::byte> rest = message.body;
        protocol::read_failed(rest, ranks, failed);
        return text + " (failed: " + ranks_of(bits_of(failed)) + ")";
    }
    protocol::AgreementBody body;
    protocol::read_body(message.body, protocol::AgreementPlan::kMaxValue, ranks, failed, acknowledged, body);
    if (body.operation == protocol::kFlushCode)
        text.append(" (flush");
    else
        text.append(" (of ").append(body.value.size() == 16 ? ranks_of(word_of(body.value, 0)) : "?");
    if (!failed.empty()) text.append("; failed: ").append(ranks_of(bits_of(failed)));
    if (!acknowledged.empty()) text.append("; acknowledged: ").append(ranks_of(bits_of(acknowledged)));
    return text + ")";
}

template <class Machine>
GroupOf<Machine>::GroupOf(const protocol::AgreementPlan& plan, bool own_operation, const topology::Nodes* domains)
    : plan_(plan),
      own_operation_(own_operation),
      known_(plan.tree.ranks()),
      acknowledged_(plan.tree.ranks()),
      flushes_(plan.tree.ranks(), UINT64_MAX),
      fresh_(plan.tree.ranks(), 0) {
    if constexpr (kPublishes) board_.emplace(ranks(), plan_.window);
    members_.reserve(ranks());
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        if constexpr (kPublishes) {
            views_.push_back(std::make_unique<BoardView>(*board_, rank));
            members_.emplace_back(plan_, Rank{rank}, *views_.back(), domains);
        } else {
            members_.emplace_back(plan_, Rank{rank});
        }
    }
}

template <class Machine>
void GroupOf<Machine>::fail(std::string what) {
    if (violation_.empty()) violation_ = std::move(what);
}

template <class Machine>
bool GroupOf<Machine>::start(std::uint32_t rank) {
    Machine& machine = members_[rank];
    if (!machine.can_start()) return false;
    const std::uint64_t agreement = machine.next().value;
    const std::array<std::uint64_t, 2> words{std::uint64_t{1} << rank, std::uint64_t{1} << (agreement & 63)};
    const Operation operation =
        own_operation_ ? Operation{Operator::user, {}, or_function, nullptr} : Operation{Operator::bit_or};
    acknowledged_[rank].emplace_back();
    known_[rank].emplace_back();
    // What is acknowledged is the machine's own affair; what it may claim is what was known.
    acknowledged_[rank].back() = machine.acknowledged();
    machine.set_change_waits(knows_of_change(rank, agreement));
    if (machine.contribute(operation, std::as_bytes(std::span(words))) != Sequence{agreement}) {
        fail("rank " + std::to_string(rank) + " could not start");
    }
    check(rank);
    return true;
}

template <class Machine>
bool GroupOf<Machine>::start_flush(std::uint32_t rank) {
    Machine& machine = members_[rank];
    if (!machine.can_start()) return false;
    flushes_[rank] = machine.next().value;
    acknowledged_[rank].emplace_back(machine.acknowledged());
    known_[rank].emplace_back();
    machine.flush();
    check(rank);
    return true;
}

template <class Machine>
const GroupMessage* GroupOf<Machine>::pull(std::uint32_t rank) {
    const auto message = members_[rank].next_send(Nanoseconds{0});
    if (!message) return nullptr;
    if (message->to.value == rank || message->to.value >= ranks() || message->from.value != rank) {
        fail("a message to nobody");
        return nullptr;
    }
    if (members_[rank].failed().contains(message->to.value)) {
        fail("rank " + std::to_string(rank) + " sends to " + std::to_string(message->to.value) +
             ", which it knows to be dead");
    }
    bag_.push_back({message->kind,
                    rank,
                    message->to.value,
                    message->agreement.value,
                    {message->body.begin(), message->body.end()}});
    return &bag_.back();
}

template <class Machine>
GroupMessage GroupOf<Machine>::deliver(std::size_t index) {
    GroupMessage message = std::move(bag_[index]);
    bag_[index] = std::move(bag_.back());
    bag_.pop_back();
    if (is_dead(message.to)) return message;
    const Reception reception = members_[message.to].receive(
        {message.kind, Rank{message.from}, Rank{message.to}, Sequence{message.agreement}, message.body});
    if (reception == Reception::garbage) fail("refused a message that can occur: " + describe(message, ranks()));
    if (members_[message.to].fenced()) fail("rank " + std::to_string(message.to) + " is taken for dead");
    check(message.to);
    return message;
}

template <class Machine>
void GroupOf<Machine>::crash(std::uint32_t rank) {
    dead_.insert(rank);
}

template <class Machine>
void GroupOf<Machine>::notice(std::uint32_t rank, std::uint32_t dead) {
    members_[rank].peer_failed(Rank{dead});
    check(rank);
}

template <class Machine>
void GroupOf<Machine>::acknowledge_all(std::uint32_t rank) {
    members_[rank].acknowledge(members_[rank].failed());
}

// Every promise that a change at `rank` may break.
template <class Machine>
void GroupOf<Machine>::check(std::uint32_t rank) {
    const Machine& machine = members_[rank];
    if (!dead_.includes(machine.failed())) fail("rank " + std::to_string(rank) + " takes a live rank for dead");
    std::vector<Known>& mine = known_[rank];
    for (std::size_t agreement = fresh_[rank]; agreement < mine.size(); ++agreement) {
        const std::string where = " (rank " + std::to_string(rank) + ", agreement " + std::to_string(agreement) + ")";
        const auto outcome = machine.outcome(Sequence{agreement});
        if (!outcome && kPublishes) continue;  // a rank missing on the board may be dead until the next look
        if (!outcome) {
            machine.waiting_for(Sequence{agreement}, [&](Rank other) {
                if (machine.failed().contains(other.value))
                    fail("waits for the dead rank " + std::to_string(other.value) + where);
                return true;
            });
            continue;
        }
        Known& known = mine[agreement];
        if (known.decided) continue;
        known.decided = true;
        known.failed = *outcome->failed;
        known.acknowledged = outcome->acknowledged;
        if (outcome->mismatched) fail("a mismatch where there was none" + where);
        if (agreement != flushes_[rank]) {
            known.contributed = outcome->value.size() == 16 ? word_of(outcome->value, 0) : 0;
            if (outcome->value.size() != 16 || word_of(outcome->value, 1) != std::uint64_t{1} << (agreement & 63)) {
                fail("the value of another agreement" + where);
            }
            const std::uint64_t all = ~std::uint64_t{0} >> (64 - ranks());
            bool change_waits = false;
            for (std::uint32_t one = 0; one < ranks(); ++one)
                change_waits |= (known.contributed >> one & 1) != 0 && knows_of_change(one, agreement);
            if (outcome->change_waits != change_waits) fail("another word of changes than was contributed" + where);
            if ((known.contributed >> rank & 1) == 0) fail("Participation: its own contribution is missing" + where);
            if ((known.contributed | bits_of(known.failed)) != all) {
                fail("a contribution is missing of a rank that is not in the failed set" + where);
            }
        }
        if (!dead_.includes(known.failed)) fail("a live rank is in the agreed failed set" + where);
        const auto has_acknowledged = [&](std::uint32_t one) {
            return acknowledged_[one][agreement].includes(known.failed);
        };
        if (known.acknowledged && !has_acknowledged(rank)) {
            fail("is told that it acknowledged what it did not" + where);
        }
        // Of a flush it is not known who contributed.
        if (agreement != flushes_[rank]) {
            bool by_all = true;
            for (std::uint32_t one = 0; one < ranks(); ++one)
                by_all &= (known.contributed >> one & 1) == 0 || has_acknowledged(one);
            if (known.acknowledged && !by_all) fail("acknowledged, but not by all" + where);
            if (!known.acknowledged && by_all) fail("not acknowledged, though all had done so" + where);
        }
        for (std::uint32_t other = 0; other < ranks(); ++other) {
            if (is_dead(other) || known_[other].size() <= agreement || !known_[other][agreement].decided) continue;
            const Known& theirs = known_[other][agreement];
            if (theirs.contributed != known.contributed || !(theirs.failed == known.failed) ||
                theirs.acknowledged != known.acknowledged) {
                fail("Agreement: rank " + std::to_string(rank) + " decided " + describe_outcome(rank, agreement) +
                     ", rank " + std::to_string(other) + " " + describe_outcome(other, agreement));
            }
        }
    }
    while (fresh_[rank] < mine.size() && mine[fresh_[rank]].decided)
        ++fresh_[rank];
    if constexpr (kPublishes) {
        if (machine.fenced()) fail("rank " + std::to_string(rank) + " believes to be taken for dead");
        if (views_[rank]->overtaken()) {
            fail("rank " + std::to_string(rank) + " looks for a contribution that has been overwritten");
        }
    } else {
        for (std::uint32_t other = 0; other < ranks(); ++other) {
            if (!is_dead(other) && members_[other].decided_below() < machine.settled_below()) {
                fail("rank " + std::to_string(rank) + " gives up a result from which rank " + std::to_string(other) +
                     " has not returned");
            }
        }
    }
}

template <class Machine>
bool GroupOf<Machine>::look(std::uint32_t rank, bool thoroughly) requires kPublishes {
    Machine& machine = members_[rank];
    const auto state = [&machine] {
        return std::tuple{machine.decided_below().value, machine.recoveries(), machine.recovering(),
                          machine.owes_summary()};
    };
    const auto before = state();
    machine.look(thoroughly);
    check(rank);
    return state() != before;
}

template <class Machine>
void GroupOf<Machine>::crash_contributing(std::uint32_t rank) requires kPublishes {
    views_[rank]->die();
    start(rank);
    crash(rank);
}

template <class Machine>
void GroupOf<Machine>::crash_looking(std::uint32_t rank) requires kPublishes {
    views_[rank]->die();
    members_[rank].look(false);
    crash(rank);
}

template <class Machine>
bool GroupOf<Machine>::store_late(std::uint32_t rank) requires kPublishes {
    return views_[rank]->store_late();
}

template <class Machine>
void GroupOf<Machine>::check_final() {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
        if (is_dead(rank) || fresh_[rank] == known_[rank].size()) continue;
        fail("Termination: rank " + std::to_string(rank) + " never decides agreement " + std::to_string(fresh_[rank]));
    }
}

template <class Machine>
std::string GroupOf<Machine>::describe_outcome(std::uint32_t rank, std::uint64_t agreement) const {
    if (agreement >= known_[rank].size()) return "not started";
    const Known& known = known_[rank][agreement];
    if (!known.decided) return "undecided";
    std::string text = agreement == flushes_[rank] ? "flushed" : "of " + ranks_of(known.contributed);
    return text + ", failed: " + ranks_of(bits_of(known.failed)) +
           (known.acknowledged ? "" : ", not acknowledged by all");
}

template class GroupOf<protocol::Agreement>;
template class GroupOf<protocol::PublishedAgreement>;

}  // namespace coppice::simulation
