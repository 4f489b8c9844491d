#include "topology/domains.hpp"

#include <algorithm>
#include <vector>

namespace coppice::topology {
namespace {

std::uint64_t largest(const Nodes& domains) {
    std::uint64_t most = 0;
    for (std::uint32_t domain = 0; domain < domains.count(); ++domain)
        most = std::max<std::uint64_t>(most, domains.members(domain).size());
    return most;
}

std::optional<Nodes> if_better(Nodes domains) {
    if (!are_two_levels_better(domains)) return std::nullopt;
    return domains;
}

}  // namespace

LineCount count_one_level(const Nodes& domains) {
    const std::uint64_t others = domains.count() - 1U;
    return {.between = domains.ranks() * others, .fetched = domains.ranks() - 1U};
}

LineCount count_two_levels(const Nodes& domains) {
    const std::uint64_t others = domains.count() - 1U;
    return {.between = domains.count() * others, .fetched = std::max<std::uint64_t>(largest(domains) - 1, 1) + others};
}

bool are_two_levels_better(const Nodes& domains) {
    if (domains.ranks() <= kMostInOneLevel || domains.count() < 2) return false;
    const LineCount one = count_one_level(domains);
    const LineCount two = count_two_levels(domains);
    return 2 * two.between <= one.between && two.fetched < one.fetched;
}

std::string_view domain_in(std::string_view place) {
    const std::size_t slash = place.rfind('/');
    const std::string_view last = slash == std::string_view::npos ? place : place.substr(slash + 1);
    if (!last.starts_with("core")) return place;
    return slash == std::string_view::npos ? std::string_view() : place.substr(0, slash);
}

std::optional<Nodes> domains_of(std::span<const std::string> places) {
    std::vector<std::string> domains;
    for (const std::string& place : places) {
        domains.emplace_back(domain_in(place));
        if (domains.back().empty()) return std::nullopt;
    }
    if (domains.empty()) return std::nullopt;
    return if_better(Nodes::by_host(std::span<const std::string>(domains)));
}

std::optional<Nodes> domains_of(std::span<const std::uint64_t> keys) {
    if (keys.empty()) return std::nullopt;
    return if_better(Nodes::by_host(keys));
}

}  // namespace coppice::topology
