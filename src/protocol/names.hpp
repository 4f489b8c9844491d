// By which names corrections and gossips are read. A table says which names there are. Users have those here; the tables of
// baselines/names.hpp, which no part of the library includes, add what is only there to be compared with. A user who asks for such a
// thing is told where it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "protocol/broadcast.hpp"
#include "protocol/gossip.hpp"

namespace coppice::protocol {

// What groups take where nobody chooses. Their tree is topology::automatic_tree().
inline constexpr std::string_view kDefaultCorrection = "optimized:2";

// The end of a sentence that begins with the name.
inline constexpr std::string_view kOnlyToCompare =
    "is only there to be compared with: coppice-sim has it, groups do not";

// What may stand behind a correction's name, besides the mode.
enum class Takes : std::uint8_t { nothing_at_all, nothing, distance, delay, failures };

struct CorrectionName {
    std::string_view text;
    std::string_view form;  // for people: "opportunistic[:D][:one-directional]"
    CorrectionKind kind = CorrectionKind::none;
    Takes takes = Takes::nothing;
};
std::span<const CorrectionName> correction_names();          // for users
std::span<const CorrectionName> printed_correction_names();  // the rules as papers print them
tl::expected<CorrectionSpec, std::string> parse_correction(std::string_view text,
                                                           std::span<const CorrectionName> names);

struct GossipName {
    std::string_view text;
    std::string_view form;
    GossipKind kind = GossipKind::gossip;
};
std::span<const GossipName> gossip_names();        // for users
std::span<const GossipName> plain_gossip_names();  // without a correction
tl::expected<GossipSpec, std::string> parse_gossip(std::string_view text, std::span<const GossipName> names);

template <class Names>
std::vector<std::string_view> forms_of(const Names& names) {
    std::vector<std::string_view> forms;
    for (const auto& name : names)
        forms.push_back(name.form);
    return forms;
}

}  // namespace coppice::protocol
