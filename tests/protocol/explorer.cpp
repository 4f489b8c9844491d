#include "explorer.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "topology/ring.hpp"

namespace coppice::protocol::testing {
namespace {

// States are compared by their bytes: there must be no byte in a machine that does not count.
static_assert(std::is_trivially_copyable_v<Broadcast>);
static_assert(std::has_unique_object_representations_v<Broadcast>);

constexpr std::uint64_t encode(const Message& message, std::uint8_t known) {
    return std::uint64_t{static_cast<std::uint8_t>(message.kind)} << 56 | std::uint64_t{message.from.value} << 48 |
           std::uint64_t{message.to.value} << 40 | std::uint64_t{known} << 32 | message.detail;
}

constexpr Message decode(std::uint64_t code) {
    return Message{static_cast<MessageKind>(code >> 56), Position{static_cast<std::uint32_t>(code >> 48 & 0xff)},
                   Position{static_cast<std::uint32_t>(code >> 40 & 0xff)}, static_cast<std::uint32_t>(code)};
}

constexpr std::uint8_t known_of(std::uint64_t code) {
    return static_cast<std::uint8_t>(code >> 32);
}

bool has(std::uint8_t mask, std::uint32_t position) {
    return (mask >> position & 1) != 0;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a ^ 0x9e3779b97f4a7c15U) * (b ^ 0xd1342543de82ef95U);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_words(const void* data, std::size_t bytes, std::uint64_t seed) {
    const auto* from = static_cast<const std::byte*>(data);
    for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, from + at, 8);
        seed = mix(seed ^ word, seed + at + 0x2545f4914f6cdd1dU);
    }
    return seed;
}

}  // namespace

std::string describe(const Message& message) {
    std::string text = std::to_string(message.from.value) + " -> " + std::to_string(message.to.value) + " ";
    text.append(to_string(message.kind));
    if (message.detail != 0) text.append(" ").append(std::to_string(message.detail));
    return text;
}

// The hashes of the states that were seen, open addressing.
class Explorer::Seen {
  public:
    bool insert(std::uint64_t hash) {
        if (hash == 0) hash = 1;
        if (count_ * 5 >= slots_.size() * 3) grow();
        if (!place(hash)) return false;
        ++count_;
        return true;
    }

  private:
    bool place(std::uint64_t hash) {
        const std::size_t mask = slots_.size() - 1;
        for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
            if (slots_[i] == hash) return false;
            if (slots_[i] != 0) continue;
            slots_[i] = hash;
            return true;
        }
    }
    void grow() {
        std::vector<std::uint64_t> old(slots_.size() * 2, 0);
        old.swap(slots_);
        for (const std::uint64_t hash : old) {
            if (hash != 0) place(hash);
        }
    }
    std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(1 << 12, 0);
    std::size_t count_ = 0;
};

Explorer::Explorer(const Scenario& scenario)
    : scenario_(scenario),
      processes_(scenario.plan.tree.processes()),
      failures_possible_(scenario.detection && (scenario.crashes > 0 || scenario.dead != 0)),
      seen_(std::make_shared<Seen>()) {
    for (std::uint32_t mask = 0; mask < 256; ++mask) {
        FailedSet set;
        for (std::uint32_t position = 0; position < processes_; ++position) {
            if ((mask >> position & 1) != 0) {
                set.insert(topology::to_member(Position{position}, scenario.root_member, processes_));
            }
        }
        sets_.push_back(set);
    }
}

Broadcast& Explorer::machine(State& state, std::uint32_t member) {
    return *std::launder(reinterpret_cast<Broadcast*>(state.machines[member].data()));
}

// Machines point at knowledge_[member]; its content is the state's.
void Explorer::load_knowledge(const State& state, std::uint32_t member) {
    if (loaded_[member] == state.known[member]) return;
    knowledge_[member] = sets_[state.known[member]];
    loaded_[member] = state.known[member];
}

void Explorer::learn(State& state, std::uint32_t member, std::uint32_t dead) {
    if (has(state.known[member], dead)) return;
    state.known[member] = static_cast<std::uint8_t>(state.known[member] | 1U << dead);
    load_knowledge(state, member);
    machine(state, member).peer_failed(Position{dead});
}

void Explorer::add_message(State& state, const Message& message) {
    if (has(state.dead, message.to.value)) return;
    const bool carries_set = message.kind == MessageKind::query || message.kind == MessageKind::denial;
    const std::uint64_t code = encode(message, carries_set ? state.known[message.from.value] : std::uint8_t{0});
    auto* const end = state.bag.data() + state.messages;
    auto* const place = std::lower_bound(state.bag.data(), end, code);
    std::copy_backward(place, end, end + 1);
    *place = code;
    ++state.messages;
}

// Messages that nobody will ever receive, or whose reception changes nothing for certain.
void Explorer::remove_void_messages(State& state) {
    std::uint16_t kept = 0;
    for (std::uint16_t i = 0; i < state.messages; ++i) {
        const Message message = decode(state.bag[i]);
        const std::uint32_t to = message.to.value;
        if (has(state.dead, to) || has(state.known[to], message.from.value)) continue;
        // Without failures facts only close things: to a member that is done, they are nothing.
        if (!failures_possible_ && machine(state, to).finished()) continue;
        state.bag[kept++] = state.bag[i];
    }
    state.messages = kept;
}

Exploration Explorer::run() {
    State state{};
    state.dead = scenario_.dead;
    state.crashes_left = static_cast<std::uint8_t>(scenario_.crashes);
    for (std::uint32_t position = 0; position < processes_; ++position) {
        if (scenario_.dead_are_known) state.known[position] = scenario_.dead;
        loaded_[position] = static_cast<std::uint8_t>(~state.known[position]);
        load_knowledge(state, position);
        new (state.machines[position].data())
            Broadcast(scenario_.plan, Position{position}, scenario_.root_member, knowledge_[position], position == 0);
    }
    enter(state);
    return result_;
}

bool Explorer::fail(const std::string& why) {
    result_.violation = why;
    for (const std::string& step : way_)
        result_.violation.append("\n  ").append(step);
    return false;
}

bool Explorer::enter(State& state) {
    remove_void_messages(state);
    std::uint64_t hash = hash_words(state.machines.data(), processes_ * sizeof(Broadcast), 17);
    hash = hash_words(&state.known, 16, hash);
    hash = hash_words(state.bag.data(), state.messages * std::size_t{8}, hash);
    if (!seen_->insert(hash)) return true;
    if (result_.states == scenario_.max_states) {
        result_.complete = false;
        return false;
    }
    ++result_.states;
    return check(state) && explore(state);
}

bool Explorer::explore(State& state) {
    bool moved = false;
    if (!explore_sends(state, moved) || !explore_receptions(state, moved)) return false;
    if (scenario_.detection && !explore_notices(state, moved)) return false;
    if (!moved && !check_final(state)) return false;
    return state.crashes_left == 0 || explore_crashes(state);
}

bool Explorer::explore_sends(const State& state, bool& moved) {
    for (std::uint32_t member = 0; member < processes_; ++member) {
        if (has(state.dead, member)) continue;
        State next = state;
        load_knowledge(next, member);
        const std::optional<Message> message = machine(next, member).next_send(Nanoseconds{0});
        if (!message && next.machines[member] == state.machines[member]) continue;
        moved = true;
        way_.push_back(message ? "send " + describe(*message) : std::to_string(member) + " has nothing to send");
        if (message) {
            if (message->from.value != member || message->to.value == member || message->to.value >= processes_) {
                return fail("a message from or to somebody it can't be");
            }
            if (has(state.known[member], message->to.value)) return fail("sent to a member known to have failed");
            if (carries_payload(message->kind) && !machine(next, member).colored()) return fail("sent what it has not");
            add_message(next, *message);
        }
        if (!enter(next)) return false;
        way_.pop_back();
    }
    return true;
}

bool Explorer::explore_receptions(const State& state, bool& moved) {
    for (std::uint16_t i = 0; i < state.messages; ++i) {
        if (i > 0 && state.bag[i] == state.bag[i - 1]) continue;
        moved = true;
        State next = state;
        const std::uint64_t code = state.bag[i];
        std::copy(next.bag.data() + i + 1, next.bag.data() + next.messages, next.bag.data() + i);
        --next.messages;
        const Message message = decode(code);
        const std::uint32_t to = message.to.value;
        way_.push_back("receive " + describe(message));
        for (std::uint32_t dead = 0; dead < processes_; ++dead) {
            if (has(known_of(code), dead)) learn(next, to, dead);
        }
        load_knowledge(next, to);
        const bool was_colored = machine(next, to).colored();
        if (!machine(next, to).receive(message)) return fail("refused a message that can occur");
        if (was_colored && !machine(next, to).colored()) return fail("lost its color");
        if (!was_colored && machine(next, to).colored() && !carries_payload(message.kind)) {
            return fail("colored without a payload");
        }
        if (!enter(next)) return false;
        way_.pop_back();
    }
    return true;
}

bool Explorer::explore_notices(const State& state, bool& moved) {
    for (std::uint32_t member = 0; member < processes_; ++member) {
        if (has(state.dead, member)) continue;
        for (std::uint32_t dead = 0; dead < processes_; ++dead) {
            if (!has(state.dead, dead) || has(state.known[member], dead)) continue;
            moved = true;
            State next = state;
            way_.push_back(std::to_string(member) + " learns of the death of " + std::to_string(dead));
            learn(next, member, dead);
            if (!enter(next)) return false;
            way_.pop_back();
        }
    }
    return true;
}

bool Explorer::explore_crashes(const State& state) {
    for (std::uint32_t member = 0; member < processes_; ++member) {
        if (has(state.dead, member) || !has(scenario_.may_crash, member)) continue;
        State next = state;
        next.dead = static_cast<std::uint8_t>(next.dead | 1U << member);
        --next.crashes_left;
        // What a dead machine would have done tells states apart for nothing.
        next.machines[member].fill(std::byte{0});
        next.known[member] = 0;
        way_.push_back("crash " + std::to_string(member));
        if (!enter(next)) return false;
        way_.pop_back();
    }
    return true;
}

bool Explorer::check(State& state) {
    bool colored = false;
    bool told = false;
    for (std::uint32_t member = 0; member < processes_; ++member) {
        if (has(state.dead, member)) continue;
        const Broadcast& broadcast = machine(state, member);
        colored |= broadcast.colored();
        told |= broadcast.result() == BroadcastResult::root_failed;
    }
    const CorrectionKind kind = scenario_.plan.correction.kind;
    const bool verdict_is_uniform = kind != CorrectionKind::none && kind != CorrectionKind::acknowledged;
    return !(verdict_is_uniform && colored && told) || fail("a verdict, and a live member with the payload");
}

bool Explorer::check_final(State& state) {
    ++result_.final_states;
    bool told = false;
    bool all = true;
    for (std::uint32_t member = 0; member < processes_; ++member) {
        if (has(state.dead, member)) continue;
        const Broadcast& broadcast = machine(state, member);
        told |= broadcast.result() == BroadcastResult::root_failed;
        all &= broadcast.colored();
        if (!scenario_.detection) continue;
        if (broadcast.result() == BroadcastResult::pending) {
            return fail("nothing is under way and " + std::to_string(member) + " has no result");
        }
        if (!broadcast.finished()) return fail(std::to_string(member) + " never finishes");
    }
    if (told) ++result_.verdicts;
    if (all) ++result_.all_colored;
    if (scenario_.must_color_all && !all) return fail("a live member is never reached");
    return true;
}

}  // namespace coppice::protocol::testing
