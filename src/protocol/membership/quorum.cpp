#include "protocol/membership/quorum.hpp"

namespace coppice::protocol {

bool is_quorum(Quorum quorum, std::uint32_t members, const Failures& failures, bool halves) {
    if (quorum == Quorum::any) return true;
    const std::uint64_t votes = members - failures.suspected.count();
    const bool counts_dead = quorum == Quorum::majority;
    const std::uint64_t all = counts_dead ? members : members - failures.certain.count();
    if (2 * votes != all) return 2 * votes > all;
    const std::uint32_t lowest = counts_dead ? 0 : failures.certain.lowest_absent();
    return halves || !failures.suspected.contains(lowest);
}

}  // namespace coppice::protocol
