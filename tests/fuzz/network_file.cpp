// Files that say where hosts are, and the addresses that Slurm gives to tasks.
#include "topology/network_file.hpp"

#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::topology;

namespace {

bool is_printable(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c != '\n' && c != '\x1b' && c != '\0'; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::string_view text = input.text();
    if (const auto file = parse_network_file(text, "file")) {
        FUZZ_CHECK(!file->hosts.empty() && file->hosts.size() <= kMaxNetworkHosts);
        for (const NetworkHost& host : file->hosts) {
            FUZZ_CHECK(host.site.leaf < file->leaves.size() && host.site.pod < file->pods.size());
            FUZZ_CHECK(!host.name.empty() && is_printable(host.name));
        }
        FUZZ_CHECK(Placement::make(file->sites(), TreeSpec{}).has_value());
    } else {
        FUZZ_CHECK(file.error().starts_with("file:") && is_printable(file.error()));
    }
    std::vector<std::string> names;
    static_cast<void>(expand_hostlist(text, names));
    FUZZ_CHECK(names.size() <= kMaxNetworkHosts);
    const std::size_t line = std::min(text.find('\n'), text.size());
    if (const auto path = parse_slurm_address(text.substr(0, line), text.substr(std::min(line + 1, text.size()))))
        FUZZ_CHECK(!path->empty());
    return 0;
}
