#include <array>

#include "transport/registry.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace coppice::transport::verbs {
namespace {

constexpr std::array kSettings{
    SettingInfo{"COPPICE_VERBS_DEVICE", "",
                "RDMA device for verbs, NAME or NAME:PORT; auto: the one that is nearest to the cores of the process; "
                "empty: the "
                "first that can be used"},
    SettingInfo{"COPPICE_VERBS_GID_INDEX", "auto",
                "which entry of the port's GID table; auto: RoCE v2 with an IPv4 address"},
    SettingInfo{"COPPICE_VERBS_MTU", "auto", "path MTU in bytes at most, 256 to 4096; auto: the port's"},
    SettingInfo{"COPPICE_VERBS_PORT", "0", "rank r listens at this port plus r, for firewalls; 0: anywhere"},
    SettingInfo{"COPPICE_VERBS_TIMEOUT", "14", "an answer is waited for 4.096 us times 2 to this, 1 to 31"},
    SettingInfo{"COPPICE_VERBS_RETRIES", "6", "and asked for again this often before the peer counts as dead, 1 to 7"},
    SettingInfo{"COPPICE_VERBS_SERVICE_LEVEL", "0", "service level, 0 to 15"},
    SettingInfo{"COPPICE_VERBS_TRAFFIC_CLASS", "0", "for RoCE: DSCP times 4, plus 2 where ECN is used; 0 to 255"},
    SettingInfo{"COPPICE_VERBS_MEMORY_WINDOWS", "auto",
                "auto: where the device has them, a peer's right to write here is bound to its connection; off"},
    SettingInfo{"COPPICE_VERBS_PROBE", "500ms",
                "how often a silent peer's memory is read to see that it lives; 0: never"},
    SettingInfo{"COPPICE_VERBS_CONNECT_TIMEOUT", "0",
                "how long a peer may take to answer when it is connected to; 0: as long as its host answers"},
};

class VerbsMaker final : public Maker {
  public:
    explicit VerbsMaker(VerbsTuning tuning) : tuning_(std::move(tuning)) {}

    Result<Made> make(const GroupFacts& group) const override {
        VerbsOptions options;
        static_cast<VerbsTuning&>(options) = tuning_;
        options.self = group.self;
        options.group_size = group.group_size;
        options.group_token = group.group_token;
        options.window = group.window;
        auto made = VerbsTransport::create(options);
        if (!made) return tl::unexpected(std::move(made.error()));
        return Made{std::move(*made)};
    }

  private:
    VerbsTuning tuning_;
};

template <class Number>
struct NumberSetting {
    std::string_view variable;
    int least;
    int most;
    Number VerbsTuning::*target;
    bool has_auto = false;  // which leaves the target as it is
};
// Clang 14, which makes the fuzzers, deduces nothing from an aggregate by itself.
template <class Number>
NumberSetting(std::string_view, int, int, Number VerbsTuning::*, bool = false) -> NumberSetting<Number>;

// The settings that are numbers; none, or the first error.
Result<void> read_numbers(const SettingTexts& texts, VerbsTuning& tuning) {
    Result<void> result;
    const auto take = [&]<class Number>(const NumberSetting<Number>& setting) {
        if (!result || (setting.has_auto && texts.text(setting.variable) == "auto")) return;
        const auto number = texts.number(setting.variable, setting.least, setting.most);
        if (number)
            tuning.*setting.target = static_cast<Number>(*number);
        else
            result = tl::unexpected(number.error());
    };
    take(NumberSetting{"COPPICE_VERBS_GID_INDEX", 0, 65535, &VerbsTuning::gid_index, true});
    take(NumberSetting{"COPPICE_VERBS_MTU", 256, 4096, &VerbsTuning::mtu, true});
    take(NumberSetting{"COPPICE_VERBS_PORT", 0, 65535, &VerbsTuning::port});
    take(NumberSetting{"COPPICE_VERBS_TIMEOUT", 1, 31, &VerbsTuning::timeout});
    take(NumberSetting{"COPPICE_VERBS_RETRIES", 1, 7, &VerbsTuning::retries});
    take(NumberSetting{"COPPICE_VERBS_SERVICE_LEVEL", 0, 15, &VerbsTuning::service_level});
    take(NumberSetting{"COPPICE_VERBS_TRAFFIC_CLASS", 0, 255, &VerbsTuning::traffic_class});
    return result;
}

Result<std::shared_ptr<const Maker>> read(const SettingTexts& texts) {
    VerbsTuning tuning;
    tuning.device = texts.text("COPPICE_VERBS_DEVICE");
    if (auto numbers = read_numbers(texts, tuning); !numbers) return tl::unexpected(numbers.error());
    const auto windows = texts.choice("COPPICE_VERBS_MEMORY_WINDOWS", "auto", "off");
    if (!windows) return tl::unexpected(windows.error());
    tuning.memory_windows = *windows;
    const auto probe = texts.duration_ns("COPPICE_VERBS_PROBE", "a time such as 500ms or 2s, or 0");
    if (!probe) return tl::unexpected(probe.error());
    tuning.probe_interval = Nanoseconds(*probe);
    const auto patience = texts.duration_ns("COPPICE_VERBS_CONNECT_TIMEOUT", "a time such as 20s or 2m, or 0");
    if (!patience) return tl::unexpected(patience.error());
    tuning.connect_timeout = Nanoseconds(*patience);
    return std::make_shared<const VerbsMaker>(std::move(tuning));
}

}  // namespace

// On request alone.
extern const Registration kRegistration;
constinit const Registration kRegistration{.name = "verbs", .settings = kSettings, .read = read};

}  // namespace coppice::transport::verbs

namespace coppice::transport {

std::vector<Fact> VerbsTransport::facts() const {
    return {{"device", fmt::format("{}:{}", device().name, device().port)},
            {"gid_index", std::int64_t{device().gid_index}},
            {"path_mtu_bytes", std::int64_t{device().mtu}},
            {"memory_windows", memory_windows()}};
}

}  // namespace coppice::transport
