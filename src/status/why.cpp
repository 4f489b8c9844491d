#include "status/why.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace coppice::show {
namespace {

using status::Group;
using status::Kind;
using status::Operation;
using status::Wait;
using status::Why;

constexpr std::size_t kLongestChain = 16;

// The two counts of operations that a rank has begun.
bool is_counted(Kind kind) {
    return kind == Kind::broadcast || kind == Kind::agreement || kind == Kind::barrier;
}
bool is_broadcast(Kind kind) {
    return kind == Kind::broadcast;
}
// An agreement and a barrier of one number are the same operation, called differently.
bool are_same(const Operation& one, const Operation& other) {
    const auto family = [](Kind kind) { return kind == Kind::barrier ? Kind::agreement : kind; };
    return family(one.kind) == family(other.kind) && one.number == other.number;
}

std::string relation(const Wait& wait) {
    switch (wait.why) {
        case Why::leader:
            return " (its leader)";
        case Why::room:
            return fmt::format(" (which has not consumed broadcast {})", wait.number);
        case Why::transport:
            return " (to which messages can't leave)";
        case Why::recovery:
            return " (to agree on the dead)";
        default:
            return "";
    }
}

bool has_failed(const Group& group, std::uint32_t rank) {
    const auto end = group.failed_ranks.begin() + std::min(group.failed, status::kMostFailed);
    return std::find(group.failed_ranks.begin(), end, rank) != end;
}

}  // namespace

const char* name_of(Kind kind) {
    constexpr std::array<const char*, status::kKinds> kNames{"nothing", "broadcast", "agreement", "barrier",
                                                             "renewal", "leaving",   "creation"};
    return kNames[static_cast<std::size_t>(kind)];
}

const char* name_of(Why why) {
    constexpr std::array<const char*, status::kWhys> kNames{"unknown",
                                                            "payload",
                                                            "payload from its leader",
                                                            "room in the window",
                                                            "transport",
                                                            "contribution",
                                                            "recovery",
                                                            "vote",
                                                            "departure",
                                                            "chunks",
                                                            "members"};
    return kNames[static_cast<std::size_t>(why)];
}

const char* name_of(status::Standing standing) {
    constexpr std::array<const char*, 4> kNames{"member", "revoked", "fenced", "without a quorum"};
    return kNames[static_cast<std::size_t>(standing)];
}

std::string name_of(const Group& group) {
    return fmt::format("{:08x}.{}", group.token, group.epoch);
}

std::string name_of(const Operation& operation) {
    switch (operation.kind) {
        case Kind::broadcast:
            return fmt::format("broadcast {} from rank {}", operation.number, operation.root);
        case Kind::agreement:
        case Kind::barrier:
            return fmt::format("{} {}", name_of(operation.kind), operation.number);
        case Kind::renewal:
            return "the renewal of the group";
        case Kind::leaving:
            return "leaving the group";
        case Kind::creation:
            return "making a group";
        case Kind::none:
            break;
    }
    return "a call";
}

std::string ranks_text(const std::vector<std::uint32_t>& ascending) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < ascending.size();) {
        std::size_t last = at;
        while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1)
            ++last;
        if (last >= at + 2) {
            parts.push_back(fmt::format("{}-{}", ascending[at], ascending[last]));
        } else {
            for (std::size_t one = at; one <= last; ++one)
                parts.push_back(fmt::format("{}", ascending[one]));
        }
        at = last + 1;
    }
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i)
        text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
    return (ascending.size() == 1 ? "rank " : "ranks ") + text;
}

Reasons::Reasons(const std::vector<Seen>& pages) {
    for (const Seen& seen : pages) {
        const status::Report& report = seen.page.report;
        for (std::uint32_t i = 0; i < report.groups_count; ++i)
            groups_[{report.groups[i].token, report.groups[i].epoch}][report.groups[i].rank] = {&seen, i};
    }
}

const Reasons::Place* Reasons::find(const GroupName& group, std::uint32_t rank) const {
    const auto members = groups_.find(group);
    if (members == groups_.end()) return nullptr;
    const auto member = members->second.find(rank);
    return member == members->second.end() ? nullptr : &member->second;
}

bool Reasons::has_entered(const Place& place, const Operation& operation) {
    if (!is_counted(operation.kind)) return false;
    const auto& entered = place.seen->page.entered[place.facts().slot];
    return (is_broadcast(operation.kind) ? entered.broadcasts : entered.agreements) > operation.number;
}

const Operation* Reasons::same_at(const Place& place, const Operation& operation) {
    const status::Report& report = place.seen->page.report;
    for (std::uint32_t i = 0; i < report.operations_count; ++i) {
        const Operation& one = report.operations[i];
        if (one.group == place.group && are_same(one, operation) && one.begun != 0) return &one;
    }
    return nullptr;
}

const Operation* Reasons::blocked_at(const Place& place) {
    const status::Report& report = place.seen->page.report;
    for (std::uint32_t i = 0; i < report.operations_count; ++i) {
        const Operation& one = report.operations[i];
        if (one.group == place.group && one.blocking != 0) return &one;
    }
    return nullptr;
}

// Of a rank that has not entered an operation: where it is instead.
std::string Reasons::elsewhere(const Place& place) {
    if (const Operation* const other = blocked_at(place)) return fmt::format("is in {}", name_of(*other));
    const status::Report& report = place.seen->page.report;
    for (std::uint32_t i = 0; i < report.operations_count; ++i) {
        const Operation& one = report.operations[i];
        if (one.blocking == 0) continue;
        if (one.group == status::kNoGroup) return fmt::format("is in {}", name_of(one));
        return fmt::format("is in {} of group {}", name_of(one), name_of(report.groups[one.group]));
    }
    if (place.facts().left != 0) return "has left the group";
    return "is in no call that waits";
}

void Reasons::follow(const GroupName& group, const Operation& operation, std::vector<std::uint32_t>& been,
                     std::string& text) const {
    const Place* const self = find(group, been.back());
    // The first that is not known to be dead: the others may be waited for only until the group has heard of that.
    const Wait* wait = nullptr;
    for (std::uint32_t i = 0; i < operation.waits.count && wait == nullptr; ++i) {
        const Wait& one = operation.waits.ranks[i];
        if (one.why != Why::members && (self == nullptr || !has_failed(self->facts(), one.rank))) wait = &one;
    }
    if (wait == nullptr) return;
    const std::uint32_t others = operation.waits.count + operation.waits.omitted - 1;
    text += fmt::format("waits for rank {}{}", wait->rank, relation(*wait));
    if (others > 0) text += fmt::format(" and {} more", others);
    if (std::ranges::find(been, wait->rank) != been.end()) {
        text += wait->rank == been.back() ? ", which is itself" : ": a circle";
        return;
    }
    const Place* const place = find(group, wait->rank);
    if (place == nullptr) {
        text += ", of which there is no page on this host";
        return;
    }
    if (place->seen->ended) {
        text += ", whose process has ended";
        return;
    }
    // What it waits for when there is no room in the window is an older broadcast's end.
    Operation wanted = operation;
    if (wait->why == Why::room) wanted.number = wait->number;
    text += ", which ";
    if (is_held(*place->seen)) text += fmt::format("is {} and ", state_of(*place->seen));
    const Operation* next = same_at(*place, wanted);
    if (is_counted(wanted.kind) && !has_entered(*place, wanted)) {
        text += fmt::format("has not entered {} {} and {}", name_of(wanted.kind), wanted.number, elsewhere(*place));
        // Where it is instead it waits, too.
        next = blocked_at(*place);
        if (next == nullptr || been.size() >= kLongestChain) return;
        text += ", where it ";
    } else if (next == nullptr) {
        if (is_counted(wanted.kind)) {
            text += fmt::format("has entered {} {} and waits for nobody there", name_of(wanted.kind), wanted.number);
        } else {
            text += elsewhere(*place);
        }
        return;
    }
    been.push_back(wait->rank);
    if (been.size() > kLongestChain) {
        text += "waits for others";
        return;
    }
    const std::size_t before = text.size();
    follow(group, *next, been, text);
    if (text.size() == before) text += "waits for no rank in particular";
}

std::string Reasons::chain(const Seen& seen, const Operation& operation) const {
    if (operation.group == status::kNoGroup) return "";
    const Group& group = seen.page.report.groups[operation.group];
    std::vector<std::uint32_t> been{group.rank};
    std::string text;
    follow({group.token, group.epoch}, operation, been, text);
    return text;
}

// ------------------------------------------------------------------------------------------------------- findings ---

std::vector<std::string> Reasons::findings() const {
    std::vector<std::string> found;
    for (const auto& [name, members] : groups_) {
        find_held(name, members, found);
        find_roots(name, members, found);
        find_different(name, members, found);
        find_absent(name, members, found);
    }
    return found;
}

void Reasons::find_held(const GroupName& /*group*/, const Members& members, std::vector<std::string>& found) const {
    for (const auto& [rank, place] : members) {
        if (is_held(*place.seen)) {
            found.push_back(fmt::format("group {}: rank {} (pid {}) is {}", name_of(place.facts()), rank,
                                        place.seen->pid, state_of(*place.seen)));
        }
    }
}

void Reasons::find_roots(const GroupName& /*group*/, const Members& members, std::vector<std::string>& found) const {
    std::map<std::uint64_t, std::map<std::uint32_t, std::vector<std::uint32_t>>> roots;  // by number: ranks by root
    std::string name;
    for (const auto& [rank, place] : members) {
        name = name_of(place.facts());
        const status::Report& report = place.seen->page.report;
        for (std::uint32_t i = 0; i < report.operations_count; ++i) {
            const Operation& one = report.operations[i];
            if (one.group == place.group && one.kind == Kind::broadcast && one.begun != 0)
                roots[one.number][one.root].push_back(rank);
        }
    }
    for (const auto& [number, by_root] : roots) {
        if (by_root.size() < 2) continue;
        std::string text = fmt::format("group {}: ranks name different roots of broadcast {}:", name, number);
        for (const auto& [root, ranks] : by_root)
            text += fmt::format(" {} root {}{}", ranks_text(ranks), root, root == by_root.rbegin()->first ? "" : ";");
        found.push_back(std::move(text));
    }
}

// Two ranks, each blocked in an operation that the other has not entered.
void Reasons::find_different(const GroupName& /*group*/, const Members& members,
                             std::vector<std::string>& found) const {
    std::map<std::string, std::vector<std::uint32_t>> by_operation;
    std::vector<std::pair<const Place*, const Operation*>> blocked;
    for (const auto& [rank, place] : members)
        if (const Operation* const operation = blocked_at(place)) blocked.emplace_back(&place, operation);
    std::set<std::uint32_t> apart;
    for (const auto& [one, in_one] : blocked) {
        for (const auto& [other, in_other] : blocked) {
            if (are_same(*in_one, *in_other) || in_one->kind == Kind::leaving || in_other->kind == Kind::leaving)
                continue;
            if (has_entered(*other, *in_one) || has_entered(*one, *in_other)) continue;
            apart.insert(one->facts().rank);
        }
    }
    if (apart.empty()) return;
    for (const auto& [place, operation] : blocked) {
        const std::uint32_t rank = place->facts().rank;
        if (apart.contains(rank)) by_operation[name_of(*operation)].push_back(rank);
    }
    std::string text =
        fmt::format("group {}: ranks have called different operations:", name_of(blocked.front().first->facts()));
    for (const auto& [name, ranks] : by_operation)
        text += fmt::format("{} {} in {}", name == by_operation.begin()->first ? "" : ";", ranks_text(ranks), name);
    found.push_back(std::move(text));
}

// Ranks that others wait for, which run and are in no call.
void Reasons::find_absent(const GroupName& group, const Members& members, std::vector<std::string>& found) const {
    std::map<std::uint32_t, std::map<std::string, std::vector<std::uint32_t>>>
        absent;  // which ranks wait, by operation
    for (const auto& [rank, place] : members) {
        const Operation* const operation = blocked_at(place);
        if (operation == nullptr || operation->begun == 0) continue;
        for (std::uint32_t i = 0; i < operation->waits.count; ++i) {
            const std::uint32_t other = operation->waits.ranks[i].rank;
            const Place* const there = find(group, other);
            if (there == nullptr || there->seen->ended || is_held(*there->seen) || blocked_at(*there) != nullptr)
                continue;
            if (is_counted(operation->kind) && !has_entered(*there, *operation)) {
                absent[other][fmt::format("{} {}", name_of(operation->kind), operation->number)].push_back(rank);
            }
        }
    }
    for (const auto& [rank, by_operation] : absent) {
        const Place* const place = find(group, rank);
        for (const auto& [name, waiting] : by_operation) {
            found.push_back(fmt::format("group {}: rank {} (pid {}, {}) has not entered {} and {}; {} for it",
                                        name_of(place->facts()), rank, place->seen->pid, state_of(*place->seen), name,
                                        elsewhere(*place),
                                        ranks_text(waiting) + (waiting.size() == 1 ? " waits" : " wait")));
        }
    }
}

}  // namespace coppice::show
