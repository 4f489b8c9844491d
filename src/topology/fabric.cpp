// What ibnetdiscover prints, and the netlist that ibsim reads: nodes with their links, blocks apart.
//
//   Switch  8 "S-0002c902400000a1"    # "leaf1" enhanced port 0 lid 3 lmc 0
//   [1]     "H-0002c90300000001"[1](2c90300000002)    # "node001 mlx5_0" lid 4 4xSDR
//
// A host is the first word of an adapter's description, or, where that is the one that adapters come with, the adapter itself; a leaf switch
// is one with hosts. Leaves that share a switch above them are
// one pod: in a fat tree of two levels all leaves.
#include <algorithm>
#include <charconv>

#include "topology/network_text.hpp"

namespace coppice::topology {
namespace {

struct Node {
    std::uint32_t line = 0;
    bool is_switch = false;
    std::string description;
    std::vector<std::uint32_t> links;  // to nodes; both sides tell of each
};

// What is between the next two quotes of `text`, which is cut off behind them; nothing where there are none.
std::optional<std::string_view> take_quoted(std::string_view& text) {
    const std::size_t open = text.find('"');
    if (open == std::string_view::npos) return std::nullopt;
    const std::size_t close = text.find('"', open + 1);
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view inside = text.substr(open + 1, close - open - 1);
    text.remove_prefix(close + 1);
    return inside;
}

// "H-00000000001000f8": the GUID of an adapter's node; 0 where the id is none.
std::uint64_t guid_of(std::string_view id) {
    if (!id.starts_with("H-")) return 0;
    std::uint64_t guid = 0;
    const auto [end, error] = std::from_chars(id.data() + 2, id.data() + id.size(), guid, 16);
    return error == std::errc{} && end == id.data() + id.size() ? guid : 0;
}

// "MT4119 ConnectX5   Mellanox Technologies", where nobody has told the adapter whose it is.
bool is_of_the_factory(std::string_view word) {
    if (!word.starts_with("MT") || word.size() < 3) return false;
    return std::ranges::all_of(word.substr(2), [](char c) { return c >= '0' && c <= '9'; });
}

class Fabric {
  public:
    explicit Fabric(const Complaint& complaint) : complaint_(complaint) {}

    tl::expected<void, std::string> read(std::string_view text) {
        Lines lines(text);
        while (const auto line = lines.next()) {
            std::string_view rest = trimmed(*line);
            if (rest.empty() || rest.front() == '#') continue;
            const std::string_view whole = rest;
            auto done = rest.front() == '[' ? read_link(rest, lines.number())
                                            : read_node(take_word(rest), rest, whole, lines.number());
            if (!done) return done;
        }
        for (const auto& [id, first_line] : unknown_) {
            if (!nodes_[id].line)
                return complaint_.at(first_line, "node " + shown(ids_[id]) +
                                                     " is linked here and described nowhere: is the file cut short?");
        }
        return {};
    }

    NetworkFile take() {
        find_hosts();
        find_pods();
        return std::move(file_);
    }

  private:
    std::uint32_t number_of(std::string_view id, std::uint32_t line) {
        const auto [number, is_new] = numbers_.number(std::string(id));
        if (is_new) {
            nodes_.emplace_back();
            ids_.emplace_back(id);
            unknown_.emplace_back(number, line);
        }
        return number;
    }

    tl::expected<void, std::string> read_node(std::string_view kind, std::string_view rest, std::string_view whole,
                                              std::uint32_t line) {
        const bool is_node = kind == "Switch" || kind == "Ca" || kind == "Hca" || kind == "Rt";
        if (!is_node) {
            // vendid=…, caguid=…, DR path …: what is said of the next node beside its links.
            if (kind.find('=') != std::string_view::npos || kind == "DR") return {};
            return complaint_.at(line, "expected a node or a link of a fabric, not " + shown(whole));
        }
        const auto id = take_quoted(rest);
        if (!id || !is_name(*id)) return complaint_.at(line, "a node without an id in quotes: " + shown(whole));
        current_ = number_of(*id, line);
        Node& node = nodes_[*current_];
        if (node.line != 0)
            return complaint_.at(line,
                                 "node " + shown(*id) + " stands in line " + std::to_string(node.line) + " already");
        node.line = line;
        node.is_switch = kind == "Switch";
        node.description = take_quoted(rest).value_or(*id);
        return {};
    }

    tl::expected<void, std::string> read_link(std::string_view rest, std::uint32_t line) {
        if (!current_) return complaint_.at(line, "a link of no node");
        const std::string_view whole = rest;
        rest = rest.substr(0, rest.find('#'));
        const auto peer = take_quoted(rest);
        if (!peer || !is_name(*peer)) return complaint_.at(line, "a link that leads nowhere: " + shown(whole));
        const std::uint32_t other = number_of(*peer, line);
        if (other != *current_) nodes_[*current_].links.push_back(other);
        return {};
    }

    void remark(std::uint32_t count, const std::string& what) {
        if (count > 0) file_.remarks.push_back(std::to_string(count) + what);
    }

    // In the order of the file. Of a host's adapters the first one counts.
    void find_hosts() {
        struct Known {
            std::uint32_t leaf;  // a node
            std::uint32_t host;
        };
        std::unordered_map<std::string, Known> host_of;
        std::uint32_t unlinked = 0;
        std::uint32_t nameless = 0;
        std::uint32_t rails = 0;
        std::uint32_t aggregation = 0;
        leaf_of_.assign(nodes_.size(), kNone);
        for (std::uint32_t id = 0; id < nodes_.size(); ++id) {
            const Node& node = nodes_[id];
            if (node.is_switch) continue;
            if (node.description.find("Aggregation Node") != std::string::npos) {
                ++aggregation;
                continue;
            }
            const auto leaf = std::ranges::find_if(node.links, [&](std::uint32_t to) { return nodes_[to].is_switch; });
            if (leaf == node.links.end()) {
                ++unlinked;
                continue;
            }
            std::string_view words = node.description;
            std::string name(take_word(words));
            if (is_of_the_factory(name)) ++nameless;
            if (!is_name(name) || is_of_the_factory(name)) name = ids_[id];
            const auto host = static_cast<std::uint32_t>(file_.hosts.size());
            const auto [known, is_new] = host_of.try_emplace(name, Known{*leaf, host});
            if (const std::uint64_t guid = guid_of(ids_[id]); guid != 0)
                file_.adapters.push_back({guid, known->second.host});
            if (!is_new) {
                if (known->second.leaf != *leaf) ++rails;
                continue;
            }
            if (leaf_of_[*leaf] == kNone) {
                leaf_of_[*leaf] = static_cast<std::uint32_t>(file_.leaves.size());
                file_.leaves.push_back(nodes_[*leaf].description);
                leaf_switches_.push_back(*leaf);
            }
            file_.hosts.push_back({std::move(name), {0, leaf_of_[*leaf]}});
        }
        remark(unlinked, " adapters have no link to a switch and are left out");
        remark(aggregation, " adapters are a switch's own (aggregation nodes) and are left out");
        remark(nameless,
               " adapters do not say whose they are: each counts as a host, which knows itself by the adapter's GUID");
        remark(rails, " further adapters of hosts are on another leaf than the first one, which counts");
    }

    void find_pods() {
        Unions together(file_.leaves.size());
        std::vector<std::uint32_t> first_leaf(nodes_.size(), kNone);  // by switch above leaves
        std::vector<std::uint32_t> above(file_.leaves.size(), kNone);
        std::uint32_t side_by_side = 0;
        for (const std::uint32_t leaf : leaf_switches_) {
            const std::uint32_t number = leaf_of_[leaf];
            for (const std::uint32_t up : nodes_[leaf].links) {
                if (!nodes_[up].is_switch) continue;
                if (leaf_of_[up] != kNone) {
                    ++side_by_side;
                    continue;
                }
                above[number] = std::min(above[number], up);
                if (first_leaf[up] == kNone) first_leaf[up] = number;
                together.join(first_leaf[up], number);
            }
        }
        remark(side_by_side / 2,
               " links join two switches that both have hosts: this is no fat tree, and pods may be wrong");
        Numbers<std::uint32_t> pods;
        std::vector<std::uint32_t> pod_of(file_.leaves.size());
        for (std::uint32_t leaf = 0; leaf < file_.leaves.size(); ++leaf) {
            const auto [pod, is_new] = pods.number(together.of(leaf));
            pod_of[leaf] = pod;
            if (is_new)
                file_.pods.push_back(above[leaf] == kNone ? file_.leaves[leaf] : nodes_[above[leaf]].description);
        }
        for (NetworkHost& host : file_.hosts)
            host.site.pod = pod_of[host.site.leaf];
    }

    static constexpr std::uint32_t kNone = UINT32_MAX;

    const Complaint& complaint_;
    Numbers<std::string> numbers_;
    std::vector<Node> nodes_;
    std::vector<std::string> ids_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> unknown_;  // a node and the line that named it first
    std::optional<std::uint32_t> current_;
    std::vector<std::uint32_t> leaf_of_;  // by node: its number among leaves
    std::vector<std::uint32_t> leaf_switches_;
    NetworkFile file_{.kind = "ibnetdiscover"};
};

}  // namespace

tl::expected<NetworkFile, std::string> parse_fabric(std::string_view text, const Complaint& complaint) {
    Fabric fabric(complaint);
    if (auto done = fabric.read(text); !done) return tl::unexpected(done.error());
    NetworkFile file = fabric.take();
    if (file.hosts.size() > kMaxNetworkHosts)
        return complaint.whole("more than " + std::to_string(kMaxNetworkHosts) + " hosts");
    return file;
}

}  // namespace coppice::topology
