#include "protocol/baselines/names.hpp"

#include "protocol/names.hpp"

namespace coppice::protocol::baselines {
namespace {

template <class Name>
std::vector<Name> joined(std::span<const Name> first, std::span<const Name> second) {
    std::vector<Name> all(first.begin(), first.end());
    all.insert(all.end(), second.begin(), second.end());
    return all;
}

const std::vector<CorrectionName>& corrections() {
    static const auto all = joined(correction_names(), printed_correction_names());
    return all;
}

const std::vector<GossipName>& gossips() {
    static const auto all = joined(plain_gossip_names(), gossip_names());
    return all;
}

}  // namespace

tl::expected<CorrectionSpec, std::string> parse_correction(std::string_view text) {
    return protocol::parse_correction(text, corrections());
}

const std::vector<std::string_view>& known_corrections() {
    static const std::vector<std::string_view> forms = forms_of(corrections());
    return forms;
}

tl::expected<GossipSpec, std::string> parse_gossip(std::string_view text) {
    return protocol::parse_gossip(text, gossips());
}

const std::vector<std::string_view>& known_gossips() {
    static const std::vector<std::string_view> forms = forms_of(gossips());
    return forms;
}

}  // namespace coppice::protocol::baselines
