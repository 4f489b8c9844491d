#include "engine/settings.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "transport/faults.hpp"

namespace coppice::engine {
namespace {

constexpr std::array kSettings{
    SettingInfo{"COPPICE_TRANSPORT", "shm,ucx", "transports that may be used; per peer the first that reaches it"},
    SettingInfo{"COPPICE_TREE", "auto",
                "auto (star up to 16 positions, then binomial), binomial, kary:K, lame:K, optimal[:O,L], chain or "
                "star; :inorder to compare"},
    SettingInfo{"COPPICE_CORRECTION", "opportunistic:1",
                "opportunistic:D, optimized:D, checked, none or ack; :one-directional for the first two"},
    SettingInfo{"COPPICE_HIERARCHY", "host",
                "host: ranks of a host publish to each other; flat: every rank a position"},
    SettingInfo{"COPPICE_WINDOW", "32", "broadcasts under way at most; a power of two, 2 to 1024"},
    SettingInfo{"COPPICE_START_TIMEOUT", "60s", "how long the creation of a group may take"},
    SettingInfo{"COPPICE_CORRECTION_GAP", "2us", "pause between checked correction's messages beyond the first two"},
    SettingInfo{"COPPICE_PROGRESS_THREAD", "0", "1: a thread of the library moves things while the program computes"},
    SettingInfo{"COPPICE_HOST", "", "a name that stands for this host, for simulated hosts; empty: found out"},
    SettingInfo{"COPPICE_UCX_NET_DEVICES", "", "network devices for UCX, as UCX_NET_DEVICES; empty: UCX decides"},
    SettingInfo{"COPPICE_UCX_TLS", "", "transports for UCX, as UCX_TLS; empty: UCX decides"},
    SettingInfo{"COPPICE_FAULTS", "", "faults to inject, for tests: kill-after:N, kill-before:N, delay:..."},
};

constexpr std::array<std::string_view, 5> kLauncherVariables{
    "COPPICE_RANK", "COPPICE_SIZE", "COPPICE_LAUNCHER", "COPPICE_LOCAL_RANK", "COPPICE_LOCAL_SIZE",
};

tl::unexpected<Error> bad_value(const SettingTexts& texts, std::string_view variable, std::string_view expected) {
    const bool from_api = texts.source(variable) == Source::api;
    return fail(COPPICE_ERR_CONFIG, "{}{} = \"{}\": expected {}", from_api ? "the option for " : "", variable,
                texts.text(variable), expected);
}

Result<void> parse_transports(const SettingTexts& texts, Settings& settings) {
    std::string_view rest = texts.text("COPPICE_TRANSPORT");
    settings.allow_shm = settings.allow_ucx = false;
    while (true) {
        const std::size_t comma = rest.find(',');
        const std::string_view name = rest.substr(0, comma);
        if (name == "shm") {
            settings.allow_shm = true;
        } else if (name == "ucx") {
            settings.allow_ucx = true;
        } else {
            return bad_value(texts, "COPPICE_TRANSPORT", "a list of shm, ucx");
        }
        if (comma == std::string_view::npos) return {};
        rest.remove_prefix(comma + 1);
    }
}

}  // namespace

std::string_view to_string(Source source) {
    switch (source) {
        case Source::default_value:
            return "default";
        case Source::environment:
            return "environment";
        case Source::api:
            return "API";
    }
    return "?";
}

std::span<const SettingInfo> known_settings() {
    return kSettings;
}
std::span<const std::string_view> launcher_variables() {
    return kLauncherVariables;
}

std::size_t SettingTexts::index_of(std::string_view variable) {
    for (std::size_t i = 0; i < kSettings.size(); ++i) {
        if (kSettings[i].variable == variable) return i;
    }
    std::abort();  // a name that is not in the table above: a mistake in this file's users, found by any test
}

SettingTexts::SettingTexts(const Lookup& environment) {
    entries_.reserve(kSettings.size());
    for (const SettingInfo& info : kSettings) {
        const char* value = environment(std::string(info.variable).c_str());
        if (value != nullptr && *value != '\0') {
            entries_.push_back({value, Source::environment});
        } else {
            entries_.push_back({std::string(info.default_value), Source::default_value});
        }
    }
}

SettingTexts::SettingTexts()
    : SettingTexts([](const char* name) { return static_cast<const char*>(std::getenv(name)); }) {}

const std::string& SettingTexts::text(std::string_view variable) const {
    return entries_[index_of(variable)].text;
}
Source SettingTexts::source(std::string_view variable) const {
    return entries_[index_of(variable)].source;
}
void SettingTexts::override_with(std::string_view variable, std::string_view value) {
    entries_[index_of(variable)] = {std::string(value), Source::api};
}

std::optional<std::uint64_t> parse_duration_ns(std::string_view text) {
    double number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
    const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    double scale = 0;
    if (unit.empty() || unit == "ns") scale = 1;
    if (unit == "us") scale = 1e3;
    if (unit == "ms") scale = 1e6;
    if (unit == "s") scale = 1e9;
    if (unit == "m" || unit == "min") scale = 60e9;
    const double nanoseconds = number * scale;
    if (scale == 0 || nanoseconds > 1e18) return std::nullopt;
    return static_cast<std::uint64_t>(nanoseconds);
}

// Up to so many positions a star is no slower than a tree (with L = 2o, 16 ranks: 18 steps against 16 and a correction
// that starts then), and under it everybody hears from the root itself: nobody depends on another's life, so opportunistic
// correction has nothing to send.
constexpr std::uint32_t kStarUpTo = 16;

topology::TreeSpec Settings::tree_for(std::uint32_t positions) const {
    if (tree) return *tree;
    return {.shape = positions <= kStarUpTo ? topology::TreeShape::star : topology::TreeShape::binomial};
}

std::string Settings::agreement() const {
    return fmt::format("tree {}, correction {}, hierarchy {}, window {}", tree ? topology::to_string(*tree) : "auto",
                       protocol::to_string(correction), hierarchy == Hierarchy::host ? "host" : "flat", window);
}

Result<Settings> parse(const SettingTexts& texts) {
    Settings settings;
    if (auto transports = parse_transports(texts, settings); !transports) return tl::unexpected(transports.error());

    if (texts.text("COPPICE_TREE") != "auto") {
        auto tree = topology::parse_tree(texts.text("COPPICE_TREE"));
        if (!tree) return bad_value(texts, "COPPICE_TREE", "auto, or: " + tree.error());
        settings.tree = *tree;
    }

    auto correction = protocol::parse_correction(texts.text("COPPICE_CORRECTION"));
    if (!correction) return bad_value(texts, "COPPICE_CORRECTION", correction.error());
    settings.correction = *correction;

    const std::string& hierarchy = texts.text("COPPICE_HIERARCHY");
    if (hierarchy != "host" && hierarchy != "flat") return bad_value(texts, "COPPICE_HIERARCHY", "host or flat");
    settings.hierarchy = hierarchy == "host" ? Hierarchy::host : Hierarchy::flat;

    const std::string& window = texts.text("COPPICE_WINDOW");
    const auto [end, error] = std::from_chars(window.data(), window.data() + window.size(), settings.window);
    const bool power_of_two = settings.window != 0 && (settings.window & (settings.window - 1)) == 0;
    if (error != std::errc{} || end != window.data() + window.size() || !power_of_two || settings.window < 2 ||
        settings.window > 1024) {
        return bad_value(texts, "COPPICE_WINDOW", "a power of two from 2 to 1024");
    }

    const auto start_timeout = parse_duration_ns(texts.text("COPPICE_START_TIMEOUT"));
    if (!start_timeout) return bad_value(texts, "COPPICE_START_TIMEOUT", "a time such as 500ms, 20s or 2m");
    settings.start_timeout_ns = *start_timeout;
    const auto gap = parse_duration_ns(texts.text("COPPICE_CORRECTION_GAP"));
    if (!gap) return bad_value(texts, "COPPICE_CORRECTION_GAP", "a time such as 500ns or 2us");
    settings.correction_gap_ns = *gap;

    const std::string& thread = texts.text("COPPICE_PROGRESS_THREAD");
    if (thread != "0" && thread != "1") return bad_value(texts, "COPPICE_PROGRESS_THREAD", "0 or 1");
    settings.progress_thread = thread == "1";

    settings.host = texts.text("COPPICE_HOST");
    if (settings.host.size() > 64) return bad_value(texts, "COPPICE_HOST", "a name of at most 64 characters");
    settings.ucx_net_devices = texts.text("COPPICE_UCX_NET_DEVICES");
    settings.ucx_tls = texts.text("COPPICE_UCX_TLS");
    settings.faults = texts.text("COPPICE_FAULTS");
    if (const auto plan = transport::parse_faults(settings.faults, Rank(0)); !plan) {
        return fail(COPPICE_ERR_CONFIG, "COPPICE_FAULTS: {}", plan.error().message);
    }
    return settings;
}

}  // namespace coppice::engine
