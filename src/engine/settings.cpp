#include "engine/settings.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "base/duration.hpp"
#include "bootstrap/choose.hpp"
#include "engine/wire/descriptor.hpp"
#include "protocol/names.hpp"
#include "topology/switch_path.hpp"
#include "transport/faults.hpp"
#include "transport/idle.hpp"

namespace coppice::engine {
namespace {

constexpr std::array kSettings{
    SettingInfo{"COPPICE_ALGORITHM", "tree",
                "tree; to compare ocg, ccg or fcg:F: gossip with a correction of its own, :R:rounds for its length"},
    SettingInfo{"COPPICE_TREE", "auto",
                "auto (star up to 16 positions, then binomial), binomial, kary:K, lame:K, optimal[:O,L], chain or "
                "star; :inorder, with kary also :heap, to compare"},
    SettingInfo{
        "COPPICE_LOGP", "",
        "a file that coppice-perf logp has written: COPPICE_TREE=auto takes the tree that is fastest by it, star "
        "or optimal; empty: by the number of positions alone"},
    SettingInfo{"COPPICE_CORRECTION", "optimized:2",
                "opportunistic:D, optimized:D, checked, delayed:NS, failure-proof:F, none or ack; :one-directional "
                "for the first two; :synchronized for all but the last two"},
    SettingInfo{"COPPICE_CORRECTION_START", "auto",
                "when synchronized correction starts, from a broadcast's begin; auto: by the tree, with L = 2us and "
                "o = 1us"},
    SettingInfo{"COPPICE_HIERARCHY", "host",
                "host: ranks of a host publish to each other; flat: every rank a position"},
    SettingInfo{"COPPICE_AGREEMENT_TREE", "auto",
                "auto (ranks of one host publish, else binary across leaf switches, their hosts, and star or binary "
                "within); to compare "
                "binary, heap, binomial, kary:K, star, chain, X/Y across hosts and within them, X/Y/Z with leaf "
                "switches above, "
                "W/X/Y/Z with pods"},
    SettingInfo{
        "COPPICE_AGREEMENT_REBALANCE", "when-degenerated",
        "when later agreements travel along a tree without those that died: never, when-degenerated (half of it "
        "is dead, or a rank has more than twice the children), always"},
    SettingInfo{"COPPICE_WINDOW", "32", "broadcasts under way at most; a power of two, 2 to 1024"},
    SettingInfo{"COPPICE_AGREEMENT_WINDOW", "8", "agreements under way at most; a power of two, 1 to 16"},
    SettingInfo{"COPPICE_CAPACITY", "auto",
                "most members of a group at once, 1 to 1048576; auto: as many as it begins with"},
    SettingInfo{"COPPICE_JOIN", "none",
                "from where processes may join later, by the launcher or with a ticket, so which transports there are "
                "from the start, and whether ranks listen: none; host: the one on which all ranks are; any"},
    SettingInfo{"COPPICE_EAGER", "8K",
                "up to so many bytes a payload travels whole, as its own message; larger ones go in chunks; 0 to 8K"},
    SettingInfo{
        "COPPICE_PAYLOAD_CHUNK", "auto",
        "bytes of each chunk of the payloads of which this rank is root; 1K to 1M; auto: 8K on one host, between "
        "hosts 32K to 64K, an eighth of the payload, where chunks are read up to 1M, a sixteenth"},
    SettingInfo{"COPPICE_PAYLOAD_AHEAD", "64", "chunks that a rank asks for ahead of what it has; 1 to 1024"},
    SettingInfo{"COPPICE_PAYLOAD_PATIENCE", "100ms",
                "how long a rank that is asked for chunks may be silent before another one is asked; at least 1ms"},
    SettingInfo{
        "COPPICE_PAYLOAD_WINDOW", "64M",
        "memory of a rank for payloads that go in chunks, of all broadcasts under way; a single larger one goes "
        "alone; bytes, or with K, M or G; at least 64K"},
    SettingInfo{"COPPICE_BOOTSTRAP", "auto",
                "how ranks find each other where the program gives no exchange: coppice-run, pmix or pmi; auto: by the "
                "variables that the launcher has set"},
    SettingInfo{"COPPICE_PMIX_SESSION", "end",
                "under PMIx: end: with the exchange, so that the launcher does not take a death for the job's failure; "
                "keep: as long as the group, and deaths of which the launcher tells are heeded"},
    SettingInfo{
        "COPPICE_ADDRESSES", "auto",
        "whose addresses a rank gets when a group is made: all; few: those that its tree, its ring and its host "
        "need, and the rest from other ranks; auto: few of more than 32 ranks where a launcher has a store"},
    SettingInfo{
        "COPPICE_QUORUM", "certain",
        "which ranks may go on without the others: certain: more than half of those that are not dead for certain; "
        "majority: more than half; any: all that are left, on each side of a cut"},
    SettingInfo{"COPPICE_START_TIMEOUT", "60s", "how long the creation of a group may take"},
    SettingInfo{"COPPICE_CORRECTION_GAP", "2us",
                "pause between messages of checked and failure-proof correction beyond the first two"},
    SettingInfo{"COPPICE_DETECTION_BOUND", "0",
                "a rank that is silent for so long is taken for dead; at least 20ms; 0: silence means nothing"},
    SettingInfo{"COPPICE_HEARTBEAT", "auto",
                "where there is a bound: how often a rank says that it lives; auto: five times in the bound"},
    SettingInfo{"COPPICE_KEEPER", "auto",
                "a process that keeps a rank's memory while survivors agree on its death; auto: with more ranks than "
                "cores, and without RDMA; on; off"},
    SettingInfo{"COPPICE_PROGRESS_THREAD", "auto",
                "auto: a thread makes progress while the program is elsewhere; 1: it calls the program's functions, "
                "too; 0: none"},
    SettingInfo{
        "COPPICE_SPIN", "auto",
        "how long a wait polls before it gives its core away: a time such as 20us, 0 for at once; auto: 20us, and "
        "not at all where others share the core"},
    SettingInfo{"COPPICE_HOST", "", "a name that stands for this host, for simulated hosts; empty: found out"},
    SettingInfo{
        "COPPICE_SWITCHES", "",
        "the switches above this host, from the outermost to its leaf switch: pod1/leaf3; empty: see COPPICE_TOPOLOGY"},
    SettingInfo{
        "COPPICE_TOPOLOGY", "",
        "a file that says which switches are above each host: what ibnetdiscover prints, Slurm's topology.conf, or "
        "lines of HOST LEAF [POD]; empty: by what Slurm says of each task, if anything"},
    SettingInfo{
        "COPPICE_WITHIN", "",
        "where this rank is within its host, NUMA node and shared cache: numa1/l3-9; empty: found out, where it "
        "matters"},
    SettingInfo{"COPPICE_STATUS", "1",
                "1: the process shows what it does and waits for to coppice-status of the same user; 0: it does not"},
    SettingInfo{"COPPICE_TRACE", "",
                "a file name: each process writes what its operations do to FILE.HOST.PID, which Perfetto opens and "
                "coppice-trace joins; empty: none"},
    SettingInfo{"COPPICE_FAULTS", "",
                "faults to inject, for tests: kill-after:N, kill-at-chunk:N, kill-at-fill:N, damage:N, delay:..."},
};

static_assert(std::ranges::find(kSettings, "COPPICE_CORRECTION", &SettingInfo::variable)->default_value ==
                  protocol::kDefaultCorrection,
              "coppice-sim takes what groups take");

constexpr std::array<std::string_view, 9> kLauncherVariables{
    "COPPICE_RANK",        "COPPICE_SIZE",        "COPPICE_LAUNCHER",    "COPPICE_LOCAL_RANK", "COPPICE_LOCAL_SIZE",
    "COPPICE_INCARNATION", "COPPICE_RUN_MEMBERS", "COPPICE_RUN_DONE_FD", "COPPICE_WITNESS",
};

// "transports that may be used: …; auto: shm within hosts, …"
std::string describe_transports() {
    std::string defaults;
    for (const transport::Registration* one : transport::registered()) {
        if (one->is_default())
            defaults += fmt::format("{}{} {}", defaults.empty() ? "" : ", ", one->name, one->by_default_for);
    }
    return fmt::format("transports that may be used: {}; per peer the first of these that reaches it; auto: {}",
                       transport::registered_names(), defaults);
}

std::vector<SettingInfo> all_settings() {
    static const std::string transports = describe_transports();
    std::vector<SettingInfo> all{{"COPPICE_TRANSPORT", "auto", transports}};
    all.insert(all.end(), kSettings.begin(), kSettings.end());
    for (const transport::Registration* one : transport::registered())
        all.insert(all.end(), one->settings.begin(), one->settings.end());
    return all;
}

Result<void> read_transports(const SettingTexts& texts, Settings& settings) {
    settings.chosen_by_hardware = texts.text("COPPICE_TRANSPORT") == "auto";
    for (const transport::Registration* one : transport::registered()) {
        auto maker = one->read(texts);
        if (!maker) return tl::unexpected(std::move(maker.error()));
        settings.transports.push_back({one, std::move(*maker), settings.chosen_by_hardware && one->is_default()});
    }
    if (settings.chosen_by_hardware) return {};
    std::string_view rest = texts.text("COPPICE_TRANSPORT");
    while (true) {
        const std::size_t comma = rest.find(',');
        const auto named = std::ranges::find(settings.transports, rest.substr(0, comma),
                                             [](const TransportChoice& choice) { return choice.transport->name; });
        if (named == settings.transports.end())
            return texts.bad_value("COPPICE_TRANSPORT",
                                   fmt::format("auto, or a list of {}", transport::registered_names()));
        named->allowed = true;
        if (comma == std::string_view::npos) return {};
        rest.remove_prefix(comma + 1);
    }
}

tl::unexpected<Error> bad_value(const SettingTexts& texts, std::string_view variable, std::string_view expected) {
    return texts.bad_value(variable, expected);
}

// Without a unit, nanoseconds.
std::optional<std::uint64_t> duration_ns(const SettingTexts& texts, std::string_view variable) {
    return parse_duration_ns(texts.text(variable), "ns");
}

}  // namespace

std::span<const SettingInfo> known_settings() {
    static const std::vector<SettingInfo> all = all_settings();
    return all;
}
std::span<const std::string_view> launcher_variables() {
    return kLauncherVariables;
}

SettingTexts::SettingTexts()
    : SettingTexts([](const char* name) { return static_cast<const char*>(std::getenv(name)); }) {}

bool Settings::allows(bool within_host) const {
    return std::ranges::any_of(transports, [within_host](const TransportChoice& choice) {
        return choice.allowed && choice.transport->within_host == within_host;
    });
}

std::string Settings::transport_names() const {
    if (chosen_by_hardware) return "auto";
    std::string names;
    for (const TransportChoice& choice : transports) {
        if (choice.allowed) names.append(names.empty() ? "" : ",").append(choice.transport->name);
    }
    return names;
}

namespace {

std::string described(const std::vector<MeasuredLevel>& measured) {
    std::string text = "auto";
    for (const MeasuredLevel& level : measured)
        text += fmt::format("{}{} L={}", text == "auto" ? " by " : " ", level.name, level.latency);
    return text;
}

}  // namespace

std::string Settings::agreement() const {
    std::string text =
        fmt::format("algorithm {}, tree {}, correction {}, hierarchy {}, agreement tree {}, window {}, agreements {}",
                    to_string(algorithm), tree ? topology::to_string(*tree) : described(measured),
                    protocol::to_string(correction), hierarchy == Hierarchy::host ? "host" : "flat",
                    agreement_tree ? protocol::to_string(*agreement_tree) : "auto", window, agreement_window);
    if (agreement_rebalance != protocol::Rebalance::when_degenerated)
        text += fmt::format(", agreement rebalance {}", protocol::to_string(agreement_rebalance));
    // Memory and addresses are laid out by it.
    if (capacity) text += fmt::format(", capacity {}", *capacity);
    if (join != Join::none) text += join == Join::host ? ", join host" : ", join any";
    if (quorum != protocol::Quorum::certain)
        text += fmt::format(", quorum {}", quorum == protocol::Quorum::majority ? "majority" : "any");
    // Ranks that have few addresses ask others.
    if (addresses != Addresses::automatic)
        text += fmt::format(", addresses {}", addresses == Addresses::few ? "few" : "all");
    // What one root is refused for want of room, another one is not to send.
    if (eager != transport::kMaxPayload) text += fmt::format(", eager {}", eager);
    // A rank that beats less often than others listen would be suspected.
    if (detection_bound.value > 0) {
        text += fmt::format(", detection bound {} ns, heartbeat {} ns", detection_bound.value, heartbeat_period.value);
    }
    return text;
}

// A rank that waits may sleep when the time comes, and so may the ranks that are told.
Nanoseconds Settings::most_silence() const {
    const std::uint64_t bound = detection_bound.value;
    return Nanoseconds(bound - std::min(transport::Idle::kLongestWatchedSleepNs, bound));
}

namespace {

constexpr std::uint64_t kLeastPayloadWindow = 64 << 10;
// What a rank asks for ahead may wait at the rank that is asked.
constexpr std::uint32_t kMostAhead = 1024;
// Below, a rank that waits for its core would be left.
constexpr std::uint64_t kLeastPatienceNs = 1'000'000;

// A waiting rank may sleep for 4 ms: between two beats and the end of the silence there has to be room for that.
Result<void> parse_detection(const SettingTexts& texts, Settings& settings) {
    constexpr std::uint64_t kLeastBoundNs = 20'000'000;
    constexpr std::uint64_t kLeastPeriodNs = 1'000'000;
    const auto bound = parse_duration_ns(texts.text("COPPICE_DETECTION_BOUND"));
    if (!bound || (*bound > 0 && *bound < kLeastBoundNs))
        return bad_value(texts, "COPPICE_DETECTION_BOUND", "0, or a time of at least 20ms such as 500ms or 2s");
    settings.detection_bound = Nanoseconds(*bound);
    settings.heartbeat_period = Nanoseconds(*bound / 5);
    if (texts.text("COPPICE_HEARTBEAT") == "auto") return {};
    const auto period = parse_duration_ns(texts.text("COPPICE_HEARTBEAT"));
    if (!period || *period < kLeastPeriodNs || (*bound > 0 && *period > settings.most_silence().value / 2))
        return bad_value(
            texts, "COPPICE_HEARTBEAT",
            "auto, or a time such as 100ms, of at least 1ms and at most half of COPPICE_DETECTION_BOUND, less 2ms");
    settings.heartbeat_period = Nanoseconds(*period);
    return {};
}

std::optional<std::uint32_t> power_of_two(const std::string& text, std::uint32_t least, std::uint32_t most) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !std::has_single_bit(value)) return std::nullopt;
    if (value < least || value > most) return std::nullopt;
    return value;
}

Result<void> parse_growth(const SettingTexts& texts, Settings& settings) {
    const std::string& capacity = texts.text("COPPICE_CAPACITY");
    if (capacity != "auto") {
        std::uint32_t seats = 0;
        const auto [end, error] = std::from_chars(capacity.data(), capacity.data() + capacity.size(), seats);
        if (error != std::errc{} || end != capacity.data() + capacity.size() || seats == 0 || seats > kMostRanks)
            return bad_value(texts, "COPPICE_CAPACITY", fmt::format("auto, or a number from 1 to {}", kMostRanks));
        settings.capacity = seats;
    }
    const std::string& join = texts.text("COPPICE_JOIN");
    if (join != "none" && join != "host" && join != "any") return bad_value(texts, "COPPICE_JOIN", "none, host or any");
    settings.join = join == "none" ? Join::none : join == "host" ? Join::host : Join::any;
    return {};
}

// "67108864", "64M".
std::optional<std::uint64_t> size_in_bytes(const std::string& text) {
    std::uint64_t value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error != std::errc{}) return std::nullopt;
    constexpr std::string_view kUnits = "KMG";
    const std::size_t unit = end == last ? 0 : kUnits.find(*end) + 1;  // 0 for what is none
    if (end != last && (unit == 0 || end + 1 != last)) return std::nullopt;
    if (value > UINT64_MAX >> 10 * unit) return std::nullopt;
    return value << 10 * unit;
}

Result<void> parse_payloads(const SettingTexts& texts, Settings& settings) {
    const auto eager = size_in_bytes(texts.text("COPPICE_EAGER"));
    if (!eager || *eager > transport::kMaxPayload)
        return bad_value(texts, "COPPICE_EAGER", "a size from 0 to 8K, such as 4K or 1000");
    settings.eager = static_cast<std::uint32_t>(*eager);
    if (const std::string& text = texts.text("COPPICE_PAYLOAD_CHUNK"); text != "auto") {
        const auto chunk = size_in_bytes(text);
        if (!chunk || *chunk < kLeastChunk || *chunk > kMostChunk)
            return bad_value(texts, "COPPICE_PAYLOAD_CHUNK", "a size from 1K to 1M, or auto");
        settings.payload_chunk = static_cast<std::uint32_t>(*chunk);
    }
    const std::string& ahead = texts.text("COPPICE_PAYLOAD_AHEAD");
    const char* const last = ahead.data() + ahead.size();
    const auto [end, error] = std::from_chars(ahead.data(), last, settings.payload_ahead);
    if (error != std::errc{} || end != last || settings.payload_ahead == 0 || settings.payload_ahead > kMostAhead)
        return bad_value(texts, "COPPICE_PAYLOAD_AHEAD", fmt::format("a number from 1 to {}", kMostAhead));
    const auto patience = parse_duration_ns(texts.text("COPPICE_PAYLOAD_PATIENCE"));
    if (!patience || *patience < kLeastPatienceNs)
        return bad_value(texts, "COPPICE_PAYLOAD_PATIENCE", "a time from 1ms on, such as 100ms or 2s");
    settings.payload_patience = Nanoseconds(*patience);
    const auto window = size_in_bytes(texts.text("COPPICE_PAYLOAD_WINDOW"));
    if (!window || *window < kLeastPayloadWindow)
        return bad_value(texts, "COPPICE_PAYLOAD_WINDOW", "a size from 64K on, such as 64M or 2G");
    settings.payload_window = *window;
    return {};
}

// An algorithm that has a tree or a correction of its own would leave what somebody chose without effect.
Result<void> check_choices(const SettingTexts& texts, const AlgorithmSpec& algorithm) {
    if (algorithm.algorithm == Algorithm::tree) return {};
    for (const std::string_view variable : {"COPPICE_CORRECTION", "COPPICE_TREE"}) {
        if (texts.source(variable) == SettingSource::default_value) continue;
        return fail(COPPICE_ERR_CONFIG,
                    "{} = \"{}\" has no effect with COPPICE_ALGORITHM = \"{}\": leave one of them out", variable,
                    texts.text(variable), to_string(algorithm));
    }
    return {};
}

}  // namespace

Result<Settings> parse(const SettingTexts& texts) {
    Settings settings;
    if (auto transports = read_transports(texts, settings); !transports) return tl::unexpected(transports.error());

    const auto algorithm = parse_algorithm(texts.text("COPPICE_ALGORITHM"));
    if (!algorithm) return bad_value(texts, "COPPICE_ALGORITHM", algorithm.error());
    settings.algorithm = *algorithm;
    if (auto choices = check_choices(texts, *algorithm); !choices) return tl::unexpected(choices.error());
    if (texts.text("COPPICE_TREE") != "auto") {
        auto tree = topology::parse_tree(texts.text("COPPICE_TREE"));
        if (!tree) return bad_value(texts, "COPPICE_TREE", "auto, or: " + tree.error());
        settings.tree = *tree;
    } else if (const std::string& measured = texts.text("COPPICE_LOGP"); !measured.empty()) {
        auto levels = read_measured_levels(measured);
        if (!levels) return fail(COPPICE_ERR_CONFIG, "COPPICE_LOGP: {}", levels.error());
        settings.measured = std::move(*levels);
    }

    auto correction = protocol::parse_correction(texts.text("COPPICE_CORRECTION"));
    if (!correction) return bad_value(texts, "COPPICE_CORRECTION", "one that groups have: " + correction.error());
    settings.correction = *correction;
    if (texts.text("COPPICE_CORRECTION_START") != "auto") {
        settings.correction_start_ns = duration_ns(texts, "COPPICE_CORRECTION_START");
        if (!settings.correction_start_ns)
            return bad_value(texts, "COPPICE_CORRECTION_START", "auto, or a time such as 50us");
    }

    const std::string& hierarchy = texts.text("COPPICE_HIERARCHY");
    if (hierarchy != "host" && hierarchy != "flat") return bad_value(texts, "COPPICE_HIERARCHY", "host or flat");
    settings.hierarchy = hierarchy == "host" ? Hierarchy::host : Hierarchy::flat;

    if (texts.text("COPPICE_AGREEMENT_TREE") != "auto") {
        const auto tree = protocol::parse_agreement_tree(texts.text("COPPICE_AGREEMENT_TREE"));
        if (!tree) return bad_value(texts, "COPPICE_AGREEMENT_TREE", "auto, or: " + tree.error());
        settings.agreement_tree = *tree;
    }
    const auto rebalance = protocol::parse_rebalance(texts.text("COPPICE_AGREEMENT_REBALANCE"));
    if (!rebalance) return bad_value(texts, "COPPICE_AGREEMENT_REBALANCE", "never, when-degenerated or always");
    settings.agreement_rebalance = *rebalance;

    const auto window = power_of_two(texts.text("COPPICE_WINDOW"), 2, 1024);
    if (!window) return bad_value(texts, "COPPICE_WINDOW", "a power of two from 2 to 1024");
    settings.window = *window;
    const auto agreements = power_of_two(texts.text("COPPICE_AGREEMENT_WINDOW"), 1, 16);
    if (!agreements) return bad_value(texts, "COPPICE_AGREEMENT_WINDOW", "a power of two from 1 to 16");
    settings.agreement_window = *agreements;

    if (auto growth = parse_growth(texts, settings); !growth) return tl::unexpected(growth.error());
    if (auto payloads = parse_payloads(texts, settings); !payloads) return tl::unexpected(payloads.error());

    settings.bootstrap = texts.text("COPPICE_BOOTSTRAP");
    if (!bootstrap::is_launcher(settings.bootstrap))
        return bad_value(texts, "COPPICE_BOOTSTRAP", bootstrap::kLauncherNames);
    const std::string& session = texts.text("COPPICE_PMIX_SESSION");
    if (session != "end" && session != "keep") return bad_value(texts, "COPPICE_PMIX_SESSION", "end or keep");
    settings.keeps_pmix_session = session == "keep";

    const std::string& addresses = texts.text("COPPICE_ADDRESSES");
    if (addresses != "auto" && addresses != "all" && addresses != "few")
        return bad_value(texts, "COPPICE_ADDRESSES", "auto, all or few");
    if (addresses != "auto") settings.addresses = addresses == "few" ? Addresses::few : Addresses::all;

    const std::string& quorum = texts.text("COPPICE_QUORUM");
    if (quorum != "any" && quorum != "majority" && quorum != "certain")
        return bad_value(texts, "COPPICE_QUORUM", "certain, majority or any");
    settings.quorum = quorum == "any"        ? protocol::Quorum::any
                      : quorum == "majority" ? protocol::Quorum::majority
                                             : protocol::Quorum::certain;

    const auto start_timeout = duration_ns(texts, "COPPICE_START_TIMEOUT");
    if (!start_timeout) return bad_value(texts, "COPPICE_START_TIMEOUT", "a time such as 500ms, 20s or 2m");
    settings.start_timeout_ns = *start_timeout;
    const auto gap = duration_ns(texts, "COPPICE_CORRECTION_GAP");
    if (!gap) return bad_value(texts, "COPPICE_CORRECTION_GAP", "a time such as 500ns or 2us");
    settings.correction_gap_ns = *gap;

    if (auto detection = parse_detection(texts, settings); !detection) return tl::unexpected(detection.error());

    settings.switches = texts.text("COPPICE_SWITCHES");
    if (auto path = topology::check_switch_path(settings.switches); !path)
        return bad_value(texts, "COPPICE_SWITCHES", "names of switches with slashes between them; " + path.error());
    settings.topology = texts.text("COPPICE_TOPOLOGY");
    settings.within = texts.text("COPPICE_WITHIN");
    if (auto path = topology::check_switch_path(settings.within); !path)
        return bad_value(texts, "COPPICE_WITHIN", "a place such as numa1/l3-9");

    const std::string& shown = texts.text("COPPICE_STATUS");
    if (shown != "1" && shown != "0") return bad_value(texts, "COPPICE_STATUS", "1 or 0");
    settings.shows_status = shown == "1";
    settings.trace = texts.text("COPPICE_TRACE");
    const std::string& keeper = texts.text("COPPICE_KEEPER");
    if (keeper != "auto" && keeper != "on" && keeper != "off")
        return bad_value(texts, "COPPICE_KEEPER", "auto, on or off");
    if (keeper != "auto") settings.keeper = keeper == "on";

    const std::string& thread = texts.text("COPPICE_PROGRESS_THREAD");
    if (thread != "auto" && thread != "0" && thread != "1")
        return bad_value(texts, "COPPICE_PROGRESS_THREAD", "auto, 0 or 1");
    settings.progress_thread = thread == "auto" ? ProgressMode::automatic
                               : thread == "1"  ? ProgressMode::with_callbacks
                                                : ProgressMode::none;

    if (texts.text("COPPICE_SPIN") != "auto") {
        settings.spin_ns = duration_ns(texts, "COPPICE_SPIN");
        if (!settings.spin_ns) return bad_value(texts, "COPPICE_SPIN", "auto, 0, or a time such as 20us");
    }

    settings.host = texts.text("COPPICE_HOST");
    if (settings.host.size() > 64) return bad_value(texts, "COPPICE_HOST", "a name of at most 64 characters");
    settings.faults = texts.text("COPPICE_FAULTS");
    if (const auto plan = transport::parse_faults(settings.faults, Seat(0)); !plan) {
        return fail(COPPICE_ERR_CONFIG, "COPPICE_FAULTS: {}", plan.error().message);
    }
    return settings;
}

}  // namespace coppice::engine
