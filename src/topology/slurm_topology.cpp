// Slurm's words for where hosts are: hostlists, a task's address, topology.conf.
#include <algorithm>
#include <cctype>

#include "topology/network_text.hpp"
#include "topology/number.hpp"

namespace coppice::topology {
namespace {

using Names = std::vector<std::string>;

tl::unexpected<std::string> refuse(std::string_view list, const std::string& why) {
    return tl::unexpected("host list " + shown(list) + ": " + why);
}

// "007-012,20": numbers with as many digits as the first of each range has.
tl::expected<void, std::string> expand_ranges(std::string_view list, std::string_view ranges, Names& numbers) {
    constexpr std::size_t kMostDigits = 9;
    for (std::size_t at = 0; at <= ranges.size();) {
        const std::size_t comma = std::min(ranges.find(',', at), ranges.size());
        const std::string_view range = ranges.substr(at, comma - at);
        const std::size_t dash = range.find('-');
        const std::string_view first = range.substr(0, dash);
        const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
        for (const std::string_view end : {first, last}) {
            const bool is_number = std::ranges::all_of(end, [](char c) { return c >= '0' && c <= '9'; });
            if (end.empty() || end.size() > kMostDigits || !is_number)
                return refuse(list, shown(range) + " is no range of numbers");
        }
        const auto value = [](std::string_view digits) {
            std::uint32_t sum = 0;
            for (const char digit : digits)
                sum = sum * 10 + static_cast<std::uint32_t>(digit - '0');
            return sum;
        };
        if (value(last) < value(first)) return refuse(list, shown(range) + " descends");
        if (value(last) - value(first) >= kMaxNetworkHosts - numbers.size()) return refuse(list, "too long");
        for (std::uint32_t number = value(first); number <= value(last); ++number) {
            std::string digits = std::to_string(number);
            if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
            numbers.push_back(std::move(digits));
        }
        at = comma + 1;
    }
    return {};
}

// One item of a list, with any number of brackets.
tl::expected<void, std::string> expand_item(std::string_view list, std::string_view item, Names& names) {
    Names made{""};
    while (!item.empty()) {
        const std::size_t open = item.find('[');
        for (std::string& name : made)
            name += item.substr(0, open);
        if (open == std::string_view::npos) break;
        const std::size_t close = item.find(']', open);
        if (close == std::string_view::npos) return refuse(list, "a bracket is not closed");
        Names numbers;
        if (auto done = expand_ranges(list, item.substr(open + 1, close - open - 1), numbers); !done) return done;
        if (made.size() * numbers.size() + names.size() > kMaxNetworkHosts) return refuse(list, "too long");
        Names longer;
        longer.reserve(made.size() * numbers.size());
        for (const std::string& name : made) {
            for (const std::string& number : numbers)
                longer.push_back(name + number);
        }
        made = std::move(longer);
        item.remove_prefix(close + 1);
    }
    if (made.size() + names.size() > kMaxNetworkHosts) return refuse(list, "too long");
    for (std::string& name : made) {
        if (!is_name(name) || name.find(']') != std::string::npos) return refuse(list, shown(name) + " is no name");
        names.push_back(std::move(name));
    }
    return {};
}

struct Switch {
    std::string name;
    std::uint32_t line = 0;
    Names below;
    bool is_leaf = false;
};

bool same_word(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
    });
}

// "SwitchName=leaf1 Nodes=n[1-4]"; a switch without a name is a line that names none (BlockSizes=…).
tl::expected<Switch, std::string> read_switch(std::string_view line) {
    Switch made;
    std::string_view nodes;
    std::string_view switches;
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
        const std::size_t equal = word.find('=');
        if (equal == std::string_view::npos) return tl::unexpected("expected KEY=VALUE, not " + shown(word));
        const std::string_view key = word.substr(0, equal);
        const std::string_view value = word.substr(equal + 1);
        if (same_word(key, "SwitchName") || same_word(key, "BlockName")) {
            if (!is_name(value)) return tl::unexpected(shown(value) + " is no name");
            made.name = value;
        } else if (same_word(key, "Nodes")) {
            nodes = value;
        } else if (same_word(key, "Switches")) {
            switches = value;
        } else if (!same_word(key, "LinkSpeed") && !same_word(key, "Level") && !same_word(key, "BlockSizes") &&
                   !same_word(key, "BlockSize") && !same_word(key, "BlockIndex")) {
            return tl::unexpected("no topology.conf has the key " + shown(key));
        }
    }
    if (made.name.empty()) {
        if (!nodes.empty() || !switches.empty()) return tl::unexpected(std::string("no SwitchName or BlockName"));
        return made;
    }
    // Of switches above others scontrol prints both.
    made.is_leaf = switches.empty();
    if (made.is_leaf && nodes.empty())
        return tl::unexpected("switch " + shown(made.name) + " has neither Nodes nor Switches");
    if (auto done = expand_hostlist(made.is_leaf ? nodes : switches, made.below); !done)
        return tl::unexpected(done.error());
    return made;
}

tl::expected<std::vector<Switch>, std::string> read_switches(std::string_view text, const Complaint& complaint) {
    std::vector<Switch> switches;
    std::size_t names = 0;
    Lines lines(text);
    while (const auto first = lines.next()) {
        const std::uint32_t number = lines.number();
        std::string joined;
        std::string_view line = trimmed(first->substr(0, first->find('#')));
        while (line.ends_with('\\')) {
            joined += line.substr(0, line.size() - 1);
            const auto more = lines.next();
            line = more ? trimmed(more->substr(0, more->find('#'))) : std::string_view();
            joined += line.ends_with('\\') ? std::string_view() : line;
        }
        auto made = read_switch(joined.empty() ? line : std::string_view(joined));
        if (!made) return complaint.at(number, made.error());
        if (made->name.empty()) continue;
        names += made->below.size();
        if (names > 4 * std::size_t{kMaxNetworkHosts}) return complaint.at(number, "too many names");
        made->line = number;
        switches.push_back(std::move(*made));
    }
    return switches;
}

using Index = std::unordered_map<std::string_view, std::uint32_t>;

tl::expected<Index, std::string> index_of(const std::vector<Switch>& switches, const Complaint& complaint) {
    Index index;
    for (std::uint32_t i = 0; i < switches.size(); ++i) {
        const auto [known, is_new] = index.try_emplace(switches[i].name, i);
        if (!is_new)
            return complaint.at(switches[i].line, "switch " + shown(switches[i].name) + " stands in line " +
                                                      std::to_string(switches[known->second].line) + " already");
    }
    for (const Switch& one : switches) {
        if (one.is_leaf) continue;
        for (const std::string& below : one.below) {
            if (!index.contains(below))
                return complaint.at(
                    one.line, "switch " + shown(below) + " is below " + shown(one.name) + " and described nowhere");
        }
    }
    return index;
}

// From the leaves up, a switch is done when all below it are. What is left stands in a cycle, or above one.
tl::expected<void, std::string> refuse_cycles(const std::vector<Switch>& switches, const Index& index,
                                              const Complaint& complaint) {
    std::vector<std::uint32_t> left(switches.size());
    std::vector<std::vector<std::uint32_t>> above(switches.size());
    std::vector<std::uint32_t> done;
    for (std::uint32_t i = 0; i < switches.size(); ++i) {
        if (switches[i].is_leaf) {
            done.push_back(i);
            continue;
        }
        left[i] = static_cast<std::uint32_t>(switches[i].below.size());
        for (const std::string& below : switches[i].below)
            above[index.at(below)].push_back(i);
    }
    for (std::size_t next = 0; next < done.size(); ++next) {
        for (const std::uint32_t parent : above[done[next]]) {
            if (--left[parent] == 0) done.push_back(parent);
        }
    }
    for (std::uint32_t i = 0; i < switches.size(); ++i) {
        if (left[i] > 0)
            return complaint.at(switches[i].line, "below switch " + shown(switches[i].name) + " there is a cycle");
    }
    return {};
}

}  // namespace

tl::expected<void, std::string> expand_hostlist(std::string_view text, Names& names) {
    if (text.empty()) return refuse(text, "empty");
    for (std::size_t at = 0; at <= text.size();) {
        std::size_t end = at;
        for (bool inside = false; end < text.size() && (inside || text[end] != ','); ++end)
            inside = text[end] == '[' || (inside && text[end] != ']');
        if (auto done = expand_item(text, text.substr(at, end - at), names); !done) return done;
        at = end + 1;
    }
    return {};
}

tl::expected<Names, std::string> parse_slurm_address(std::string_view address, std::string_view pattern) {
    constexpr std::size_t kMostLevels = 16;
    const auto refuse_it = [&](const std::string& why) {
        return tl::unexpected("SLURM_TOPOLOGY_ADDR " + shown(address) + ": " + why);
    };
    Names names;
    while (true) {
        const std::size_t dot = pattern.find('.');
        const std::string_view kind = pattern.substr(0, dot);
        const bool is_last = dot == std::string_view::npos;
        if (is_last != (kind == "node") || (!is_last && kind != "switch" && kind != "block"))
            return refuse_it("its pattern is not switches and blocks, and the node at the end");
        // A node's own name may have dots in it.
        const std::size_t end = is_last ? address.size() : address.find('.');
        if (end == std::string_view::npos) return refuse_it("shorter than its pattern");
        const std::string_view name = address.substr(0, end);
        if (!is_name(name)) return refuse_it(shown(name) + " is no name");
        if (names.size() == kMostLevels) return refuse_it("more levels than " + std::to_string(kMostLevels));
        names.emplace_back(name);
        if (is_last) return names;
        address.remove_prefix(end + 1);
        pattern.remove_prefix(dot + 1);
    }
}

tl::expected<NetworkFile, std::string> parse_slurm_topology(std::string_view text, const Complaint& complaint) {
    const auto switches = read_switches(text, complaint);
    if (!switches) return tl::unexpected(switches.error());
    const auto index = index_of(*switches, complaint);
    if (!index) return tl::unexpected(index.error());
    if (const auto sound = refuse_cycles(*switches, *index, complaint); !sound) return tl::unexpected(sound.error());

    // Leaves below one switch are one pod.
    Unions together(switches->size());
    std::vector<std::uint32_t> above(switches->size(), UINT32_MAX);
    for (std::uint32_t i = 0; i < switches->size(); ++i) {
        std::optional<std::uint32_t> first;
        for (const std::string& below : (*switches)[i].below) {
            if ((*switches)[i].is_leaf) break;
            const std::uint32_t child = index->at(below);
            if (!(*switches)[child].is_leaf) continue;
            above[child] = std::min(above[child], i);
            if (first) together.join(*first, child);
            if (!first) first = child;
        }
    }
    NetworkFile file{.kind = "topology.conf"};
    std::unordered_map<std::string_view, std::uint32_t> leaf_of;  // by host, the switch
    Numbers<std::uint32_t> pods;
    for (std::uint32_t i = 0; i < switches->size(); ++i) {
        const Switch& leaf = (*switches)[i];
        if (!leaf.is_leaf) continue;
        const auto [pod, is_new_pod] = pods.number(together.of(i));
        if (is_new_pod) file.pods.push_back(above[i] == UINT32_MAX ? leaf.name : (*switches)[above[i]].name);
        const Site site{pod, static_cast<std::uint32_t>(file.leaves.size())};
        file.leaves.push_back(leaf.name);
        for (const std::string& host : leaf.below) {
            const auto [known, is_new] = leaf_of.try_emplace(host, i);
            if (!is_new)
                return complaint.at(leaf.line, "host " + shown(host) + " is below " + shown(leaf.name) +
                                                   " and, in line " + std::to_string((*switches)[known->second].line) +
                                                   ", below " + shown((*switches)[known->second].name));
            if (file.hosts.size() == kMaxNetworkHosts)
                return complaint.at(leaf.line, "more than " + std::to_string(kMaxNetworkHosts) + " hosts");
            file.hosts.push_back({host, site});
        }
    }
    return file;
}

}  // namespace coppice::topology
