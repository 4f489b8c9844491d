#include "topology/fat_tree.hpp"

#include "topology/number.hpp"

namespace coppice::topology {

std::vector<Site> FatTree::sites(std::uint32_t hosts) const {
    std::vector<Site> sites(hosts);
    for (std::uint32_t host = 0; host < hosts; ++host)
        sites[host] = site_of(host);
    return sites;
}

tl::expected<FatTree, std::string> parse_fat_tree(std::string_view text) {
    constexpr std::string_view kName = "fattree:";
    const auto refuse = [&](const std::string& why) {
        return tl::unexpected("network \"" + std::string(text.substr(0, 60)) + "\": " + why);
    };
    if (!text.starts_with(kName)) return refuse("expected fattree:K[:LEVELS][:TAPER]");
    std::string_view rest = text.substr(kName.size());
    std::string_view fields[3];
    for (std::string_view& field : fields) {
        const std::size_t colon = rest.find(':');
        field = rest.substr(0, colon);
        rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    }
    if (!rest.empty()) return refuse("expected fattree:K[:LEVELS][:TAPER]");
    FatTree tree;
    const auto ports = parse_number(fields[0], 2U, kMaxFatTreePorts);
    if (!ports || *ports % 2 != 0)
        return refuse("K, the ports of a switch, is an even number from 2 to " + std::to_string(kMaxFatTreePorts));
    tree.ports = *ports;
    if (!fields[1].empty()) {
        const auto levels = parse_number(fields[1], 2U, 3U);
        if (!levels) return refuse("LEVELS, of switches, is 2 or 3");
        tree.levels = *levels;
    }
    if (!fields[2].empty()) {
        const auto taper = parse_number(fields[2], 1U, tree.ports / 2);
        if (!taper || tree.ports / 2 % *taper != 0)
            return refuse("TAPER divides the " + std::to_string(tree.ports / 2) + " links that lead up from a leaf");
        tree.taper = *taper;
    }
    return tree;
}

std::string to_string(const FatTree& tree) {
    std::string text = "fattree:";
    text += std::to_string(tree.ports);
    text += ':';
    text += std::to_string(tree.levels);
    if (tree.taper == 1) return text;
    text += ':';
    text += std::to_string(tree.taper);
    return text;
}

}  // namespace coppice::topology
