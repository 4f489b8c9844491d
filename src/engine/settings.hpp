// The settings: what can be tuned, where each value came from, and nothing that is not documented here.
//
// Precedence: options of the API, then the environment, then the default. Read once per context; a value that does not
// parse is an error that names the variable, never a silent default.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "engine/machine.hpp"
#include "protocol/agreement/agreement_tree.hpp"
#include "protocol/broadcast.hpp"
#include "topology/tree.hpp"
#include "transport/verbs/tuning.hpp"

namespace coppice::engine {

enum class Source : std::uint8_t { default_value, environment, api };
std::string_view to_string(Source source);

// One line of coppice-info: what it is called, what it does, which values it takes.
struct SettingInfo {
    std::string_view variable;
    std::string_view default_value;
    std::string_view description;
};
std::span<const SettingInfo> known_settings();

// Variables that others set for us (the launcher) and that are no settings of a user.
std::span<const std::string_view> launcher_variables();

// The text values with their sources, by index into known_settings().
class SettingTexts {
  public:
    using Lookup = std::function<const char*(const char*)>;  // as getenv
    explicit SettingTexts(const Lookup& environment);
    SettingTexts();  // from the process's environment

    const std::string& text(std::string_view variable) const;
    Source source(std::string_view variable) const;
    void override_with(std::string_view variable, std::string_view value);  // an option of the API

  private:
    struct Entry {
        std::string text;
        Source source = Source::default_value;
    };
    static std::size_t index_of(std::string_view variable);
    std::vector<Entry> entries_;
};

// Whose work progress is while callers are elsewhere: a thread's that calls no function of theirs, one's that does, or nobody's.
enum class ProgressMode : std::uint8_t { automatic, with_callbacks, none };

enum class Hierarchy : std::uint8_t { host, flat };

// The parsed values.
struct Settings {
    bool allow_shm = true;
    bool allow_verbs = false;
    bool allow_ucx = true;
    bool allow_tcp = true;
    bool chosen_by_hardware = true;  // between hosts ucx where both have RDMA devices, else tcp
    AlgorithmSpec algorithm;
    std::optional<topology::TreeSpec> tree;  // none: chosen by the number of positions
    protocol::CorrectionSpec correction;
    std::optional<std::uint64_t> correction_start_ns;  // none: chosen by the tree
    Hierarchy hierarchy = Hierarchy::host;
    std::optional<protocol::AgreementTreeSpec> agreement_tree;  // none: chosen by who shares a host
    std::uint32_t window = 32;
    std::uint32_t agreement_window = 8;
    std::uint64_t start_timeout_ns = 0;
    std::uint64_t correction_gap_ns = 0;
    Nanoseconds detection_bound{0};   // 0: silence is no evidence
    Nanoseconds heartbeat_period{0};  // where there is a bound: between two beats
    Nanoseconds process_look{0};      // how often one process of the host is looked at; 0: never
    std::optional<bool> keeper;       // none: where a host has more ranks than cores
    ProgressMode progress_thread = ProgressMode::automatic;
    std::optional<std::uint64_t> spin_ns;  // of a wait, before it yields; none: found out
    std::string host;
    std::string ucx_net_devices;
    std::string ucx_tls;
    bool ucx_put = false;
    bool ucx_admits_all = false;
    std::string tcp_interface;
    std::uint16_t tcp_port = 0;
    transport::VerbsTuning verbs;
    std::string faults;

    topology::TreeSpec tree_for(std::uint32_t positions) const;
    // What the broadcasts of a group of so many positions have in common. Refused in words.
    tl::expected<Plan, std::string> plan_for(std::uint32_t positions) const;
    // What all ranks of a group must have in common, as text to compare and to show.
    std::string agreement() const;
    // Calls of a group that may be under way, or over and not given back, at once.
    std::size_t requests() const { return std::size_t{window} + std::max(window, agreement_window); }
    // How long a rank may be silent until it is suspected: of the bound what is left when all survivors are to know within it.
    // 0 without a bound.
    Nanoseconds most_silence() const;
};

Result<Settings> parse(const SettingTexts& texts);

}  // namespace coppice::engine
