#include "topology/network_file.hpp"

#include <algorithm>
#include <cctype>

#include "topology/network_text.hpp"

namespace coppice::topology {
namespace {

bool starts_with_word(std::string_view line, std::string_view word) {
    return line.size() >= word.size() && std::ranges::equal(line.substr(0, word.size()), word, [](char a, char b) {
               return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
           });
}

bool is_of_fabric(std::string_view line) {
    for (const std::string_view word : {"vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid="}) {
        if (line.starts_with(word)) return true;
    }
    std::string_view rest = line;
    const std::string_view kind = take_word(rest);
    const bool is_node = kind == "Switch" || kind == "Ca" || kind == "Hca" || kind == "Rt";
    return is_node && rest.find('"') != std::string_view::npos;
}

bool is_of_slurm(std::string_view line) {
    return starts_with_word(line, "SwitchName=") || starts_with_word(line, "BlockName=") ||
           starts_with_word(line, "BlockSizes=");
}

tl::expected<NetworkFile, std::string> parse_list(std::string_view text, const Complaint& complaint) {
    NetworkFile file{.kind = "list"};
    std::unordered_map<std::string, std::uint32_t> lines;
    Numbers<std::string> leaves;
    Numbers<std::string> pods;
    std::vector<std::uint32_t> pod_of;  // by leaf
    Lines all(text);
    while (const auto line = all.next()) {
        std::string_view rest = line->substr(0, line->find('#'));
        const std::string_view host = take_word(rest);
        if (host.empty()) continue;
        const std::string_view leaf = take_word(rest);
        const std::string_view pod = take_word(rest);
        if (leaf.empty() || !trimmed(rest).empty())
            return complaint.at(all.number(), "expected HOST LEAF [POD], not " + shown(trimmed(*line)) +
                                                  "; nor is it ibnetdiscover's output or a topology.conf");
        for (const std::string_view name : {host, leaf, pod}) {
            if (!is_name(name) && (name != pod || !pod.empty()))
                return complaint.at(all.number(), shown(name) + " is no name");
        }
        const auto [first, is_new] = lines.try_emplace(std::string(host), all.number());
        if (!is_new)
            return complaint.at(
                all.number(), "host " + shown(host) + " stands in line " + std::to_string(first->second) + " already");
        if (file.hosts.size() == kMaxNetworkHosts)
            return complaint.at(all.number(), "more than " + std::to_string(kMaxNetworkHosts) + " hosts");
        const auto [leaf_number, is_new_leaf] = leaves.number(std::string(leaf));
        const auto [pod_number, is_new_pod] = pods.number(std::string(pod));
        if (is_new_pod) file.pods.emplace_back(pod);
        if (is_new_leaf) {
            file.leaves.emplace_back(leaf);
            pod_of.push_back(pod_number);
        }
        if (pod_of[leaf_number] != pod_number)
            return complaint.at(all.number(), "leaf " + shown(leaf) + " is in pod " +
                                                  shown(file.pods[pod_of[leaf_number]]) + " elsewhere, and in " +
                                                  shown(pod) + " here");
        file.hosts.push_back({std::string(host), {pod_number, leaf_number}});
    }
    return file;
}

tl::expected<NetworkFile, std::string> parse_by_kind(std::string_view text, const Complaint& complaint) {
    Lines lines(text);
    while (const auto line = lines.next()) {
        const std::string_view said = trimmed(line->substr(0, line->find('#')));
        if (said.empty()) continue;
        if (is_of_fabric(said)) return parse_fabric(text, complaint);
        if (is_of_slurm(said)) return parse_slurm_topology(text, complaint);
        return parse_list(text, complaint);
    }
    return complaint.whole("nothing in it");
}

std::string_view short_name(std::string_view host) {
    return host.substr(0, host.find('.'));
}

}  // namespace

std::optional<FoundHost> find_host(const NetworkFile& file, std::string_view name,
                                   std::span<const std::uint64_t> guids) {
    const auto own = std::ranges::find_if(file.adapters, [guids](const Adapter& adapter) {
        return std::ranges::find(guids, adapter.guid) != guids.end();
    });
    if (own != file.adapters.end()) return FoundHost{own->host, own->guid};
    for (std::uint32_t host = 0; host < file.hosts.size(); ++host) {
        if (short_name(file.hosts[host].name) == short_name(name)) return FoundHost{host};
    }
    return std::nullopt;
}

std::vector<Site> NetworkFile::sites() const {
    std::vector<Site> all;
    all.reserve(hosts.size());
    for (const NetworkHost& host : hosts)
        all.push_back(host.site);
    return all;
}

tl::expected<NetworkFile, std::string> parse_network_file(std::string_view text, std::string_view name) {
    const Complaint complaint(name);
    if (text.size() > kMaxNetworkText)
        return complaint.whole("larger than " + std::to_string(kMaxNetworkText >> 20) + " MiB");
    auto file = parse_by_kind(text, complaint);
    if (file && file->hosts.empty()) return complaint.whole("no host in it");
    return file;
}

}  // namespace coppice::topology
