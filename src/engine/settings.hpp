// The settings: what can be tuned, where each value came from, and nothing that is not documented here.
//
// Precedence: options of the API, then the environment, then the default. Read once per context; a value that does not
// parse is an error that names the variable, never a silent default.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/setting.hpp"
#include "engine/algorithm.hpp"
#include "engine/measured_levels.hpp"
#include "protocol/agreement/agreement_tree.hpp"
#include "protocol/agreement/rebalance.hpp"
#include "protocol/broadcast.hpp"
#include "protocol/membership/quorum.hpp"
#include "topology/placement.hpp"
#include "topology/tree.hpp"
#include "transport/registry.hpp"

namespace coppice::bootstrap {
class Witness;
}

namespace coppice::engine {

// The largest group. Tables of all ranks, a few dozen bytes for each, are what every member has to have.
inline constexpr std::uint32_t kMostRanks = 1U << 20;

// The engine's settings, and those of the transports that are compiled in.
std::span<const SettingInfo> known_settings();

// Variables that others set for us (the launcher) and that are no settings of a user.
std::span<const std::string_view> launcher_variables();

// The text values of known_settings().
class SettingTexts : public coppice::SettingTexts {
  public:
    explicit SettingTexts(const Lookup& environment) : coppice::SettingTexts(known_settings(), environment) {}
    SettingTexts();  // from the process's environment
};

// A transport that is compiled in, with its settings read.
struct TransportChoice {
    const transport::Registration* transport = nullptr;
    std::shared_ptr<const transport::Maker> maker;
    bool allowed = false;
};

// Whose work progress is while callers are elsewhere: a thread's that calls no function of theirs, one's that does, or nobody's.
enum class ProgressMode : std::uint8_t { automatic, with_callbacks, none };

// Whose addresses a rank gets when a group is made: those of all others, or those that it needs from the start.
enum class Addresses : std::uint8_t { automatic, all, few };

// From where processes may join later.
enum class Join : std::uint8_t { none, host, any };

enum class Hierarchy : std::uint8_t { host, flat };

// The parsed values.
struct Settings {
    std::vector<TransportChoice> transports;  // all, in the order in which they are tried for a peer
    bool chosen_by_hardware = true;           // COPPICE_TRANSPORT is auto
    AlgorithmSpec algorithm;
    std::optional<topology::TreeSpec> tree;  // none: chosen by the number of positions, and by what was measured
    std::vector<MeasuredLevel> measured;     // where that is so
    protocol::CorrectionSpec correction;
    std::optional<std::uint64_t> correction_start_ns;  // none: chosen by the tree
    Hierarchy hierarchy = Hierarchy::host;
    std::optional<protocol::AgreementTreeSpec> agreement_tree;  // none: chosen by which ranks share a host
    protocol::Rebalance agreement_rebalance = protocol::Rebalance::when_degenerated;
    std::uint32_t window = 32;
    std::uint32_t agreement_window = 8;
    std::uint32_t eager = 0;                // bytes: from one more on a payload goes in chunks
    std::uint32_t payload_chunk = 0;        // bytes, of what this rank is root of; 0: chosen by its size
    std::uint32_t payload_ahead = 0;        // chunks
    Nanoseconds payload_patience{0};        // with a source that says nothing
    std::uint64_t payload_window = 0;       // bytes
    std::optional<std::uint32_t> capacity;  // members at once; none: as many as at first
    Join join = Join::none;
    protocol::Quorum quorum = protocol::Quorum::certain;  // of a renewal
    std::shared_ptr<const bootstrap::Witness> witness;    // the program's own; null: it gives none
    std::string bootstrap;                                // which launcher, or auto
    bool keeps_pmix_session = false;                      // and heeds what it says of deaths
    Addresses addresses = Addresses::automatic;
    std::uint64_t start_timeout_ns = 0;
    std::uint64_t correction_gap_ns = 0;
    Nanoseconds detection_bound{0};   // 0: silence is no evidence
    Nanoseconds heartbeat_period{0};  // where there is a bound: between two beats
    std::optional<bool> keeper;       // none: where a host has more ranks than cores
    ProgressMode progress_thread = ProgressMode::automatic;
    std::optional<std::uint64_t> spin_ns;  // of a wait, before it yields; none: found out
    std::string host;
    std::string switches;  // above this host, from the outermost on: "pod1/leaf3"; empty: look elsewhere
    std::string topology;  // a file that says so
    std::string within;    // where this rank is within its host: "numa1/l3-9"; empty: found out
    std::string faults;
    std::string trace;         // a file name; empty: no trace
    bool shows_status = true;  // a status page for coppice-status

    // Whether a transport is allowed that is for ranks of one host alone, or for ranks of other hosts.
    bool allows_within_host() const { return allows(true); }
    bool allows_between_hosts() const { return allows(false); }
    // COPPICE_TRANSPORT, put in order.
    std::string transport_names() const;
    // `level`: as coppice-perf logp calls the messages of that tree; the outermost, where nothing else is known.
    topology::TreeSpec tree_for(std::uint32_t positions, std::string_view level = {}) const;
    // What the broadcasts of a group of so many positions have in common; by their sites, where these are known and of use. Refused in
    // words.
    tl::expected<Plan, std::string> plan_for(std::uint32_t positions, std::span<const topology::Site> sites = {}) const;
    // Whether broadcasts go by the network's switches: with opportunistic and optimized correction, both sides, overlapped.
    bool places() const;
    // What all ranks of a group must have in common, as text to compare and to show.
    std::string agreement() const;
    // Calls of a group that may be under way, or over and not given back, at once.
    std::size_t requests() const { return std::size_t{window} + std::max(window, agreement_window); }
    // How long a rank may be silent until it is suspected: of the bound what is left when all survivors are to know within it.
    // 0 without a bound.
    Nanoseconds most_silence() const;

  private:
    bool allows(bool within_host) const;
};

Result<Settings> parse(const SettingTexts& texts);

}  // namespace coppice::engine
