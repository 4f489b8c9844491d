#include "protocol/membership/quorum.hpp"

namespace coppice::protocol {

bool is_quorum(Quorum quorum, std::uint32_t members, const Failures& failures, bool halves,
               const FailedSet& voiceless) {
    if (quorum == Quorum::any) return true;
    FailedSet silent = failures.suspected;
    silent.unite(voiceless);
    FailedSet not_counted = voiceless;
    if (quorum == Quorum::certain) not_counted.unite(failures.certain);
    const std::uint64_t votes = members - silent.count();
    const std::uint64_t all = members - not_counted.count();
    if (2 * votes != all) return 2 * votes > all;
    const std::uint32_t lowest = not_counted.lowest_absent();
    return halves || !failures.suspected.contains(lowest);
}

}  // namespace coppice::protocol
