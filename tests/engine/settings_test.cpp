#include "engine/settings.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/duration.hpp"

namespace coppice::engine {
namespace {

using ::testing::HasSubstr;

SettingTexts texts_of(std::map<std::string, std::string> environment) {
    return SettingTexts([environment = std::move(environment)](const char* name) -> const char* {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
    });
}

TEST(Settings, DefaultsParse) {
    const auto settings = parse(texts_of({}));
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_TRUE(settings->chosen_by_hardware && settings->allows_within_host() && settings->allows_between_hosts());
    EXPECT_EQ(settings->window, 32U);
    EXPECT_EQ(settings->start_timeout_ns, 60'000'000'000U);
    EXPECT_EQ(settings->hierarchy, Hierarchy::host);
}

TEST(Settings, TheEnvironmentBeatsTheDefaultAndTheApiBeatsBoth) {
    SettingTexts texts = texts_of({{"COPPICE_WINDOW", "8"}});
    EXPECT_EQ(texts.source("COPPICE_WINDOW"), SettingSource::environment);
    EXPECT_EQ(parse(texts)->window, 8U);
    texts.override_with("COPPICE_WINDOW", "4");
    EXPECT_EQ(texts.source("COPPICE_WINDOW"), SettingSource::api);
    EXPECT_EQ(parse(texts)->window, 4U);
    EXPECT_EQ(texts.source("COPPICE_TREE"), SettingSource::default_value);
}

class Measured : public ::testing::Test {
  protected:
    ~Measured() override { std::filesystem::remove(path_); }

    std::map<std::string, std::string> file(const std::string& text) const {
        std::ofstream(path_) << text;
        return {{"COPPICE_LOGP", path_}};
    }
    static std::string level(const char* name, double latency, double overhead) {
        return fmt::format(R"({{"level": "{}", "L": {{"median": {}}}, "o": {{"median": {}}}, "g": {{"median": 0.1}}}})",
                           name, latency, overhead);
    }
    static std::string levels(const std::string& all) {
        return R"({"format": "coppice-logp", "version": 1, "levels": [)" + all + "]}";
    }

    std::string path_ =
        (std::filesystem::path(::testing::TempDir()) / fmt::format("logp-{}.json", ::getpid())).string();
};

TEST_F(Measured, TreesFollowFromWhatEachLevelCosts) {
    const auto settings = parse(texts_of(file(levels(level("leaf", 90, 0.9) + ", " + level("network", 6.1, 3)))));
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_EQ(topology::to_string(settings->tree_for(16)), "optimal:1,2") << "by the outermost";
    EXPECT_EQ(topology::to_string(settings->tree_for(16, "network")), "optimal:1,2");
    EXPECT_EQ(topology::to_string(settings->tree_for(16, "pod")), "optimal:1,2") << "nobody has measured that one";
    EXPECT_EQ(topology::to_string(settings->tree_for(16, "leaf")), "star") << "100 steps a message";
    EXPECT_EQ(topology::to_string(settings->tree_for(1024, "leaf")), "optimal:1,100");
    EXPECT_EQ(topology::to_string(settings->tree_for(1)), "star");
    EXPECT_THAT(settings->agreement(), HasSubstr("tree auto by leaf L=100 network L=2,"));
    EXPECT_THAT(parse(texts_of({}))->agreement(), HasSubstr("tree auto, "));
}

TEST_F(Measured, NoOtherTreeReachesAllSooner) {
    for (std::uint32_t latency = 0; latency <= 40; latency += 1 + latency / 4) {
        const auto settings = parse(texts_of(file(levels(level("network", latency, 1)))));
        ASSERT_TRUE(settings) << settings.error().message;
        for (std::uint32_t positions = 2; positions <= 80; ++positions) {
            const auto end = [&](const topology::TreeSpec& spec) {
                return protocol::dissemination_end(*topology::Tree::make(spec, positions), latency, 1).value;
            };
            const topology::TreeSpec chosen = settings->tree_for(positions);
            for (const char* other : {"star", "binomial", "chain", "kary:2", "kary:4", "lame:2", "lame:3", "lame:6"}) {
                ASSERT_LE(end(chosen), end(*topology::parse_tree(other)))
                    << positions << " positions, L = " << latency << ", " << other;
            }
            const bool is_star = chosen.shape == topology::TreeShape::star;
            ASSERT_TRUE(is_star || end(chosen) < end(*topology::parse_tree("star")))
                << positions << ", L = " << latency;
        }
    }
}

TEST_F(Measured, ATreeThatSomebodyChoseIsTaken) {
    const auto settings = parse(texts_of({{"COPPICE_TREE", "chain"}, {"COPPICE_LOGP", "/nowhere"}}));
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_EQ(topology::to_string(settings->tree_for(16)), "chain");
}

TEST_F(Measured, AFileThatIsNoneIsNamed) {
    const auto said = [](const std::map<std::string, std::string>& environment) {
        const auto settings = parse(texts_of(environment));
        return settings ? "nothing" : settings.error().message;
    };
    EXPECT_EQ(said({{"COPPICE_LOGP", "/nowhere"}}), "COPPICE_LOGP: /nowhere: No such file or directory");
    EXPECT_THAT(said(file("")), HasSubstr(path_ + ": no file of coppice-perf logp"));
    EXPECT_THAT(said(file(R"({"format": "other"})")), HasSubstr("no file of coppice-perf logp"));
    EXPECT_THAT(said(file(levels(""))), HasSubstr("it has no level"));
    EXPECT_THAT(said(file(levels(level("network", -1, 1)))), HasSubstr("L is -1 us"));
    EXPECT_THAT(said(file(levels(R"({"level": 7})"))), HasSubstr("no file of coppice-perf logp"));
    EXPECT_THAT(said(file(levels(R"({"level": "x", "L": [], "o": {"median": "1"}, "g": {}})"))),
                HasSubstr("no file of coppice-perf logp"));
    EXPECT_THAT(said(file(std::string(2 << 20, ' '))), HasSubstr("it is too large"));
    EXPECT_THAT(said(file(levels(level("", 1, 1)))), HasSubstr("a level's name is none"));
    EXPECT_THAT(said(file(levels(level("net work", 1, 1)))), HasSubstr("a level's name is none"));
    EXPECT_THAT(said(file(levels(level(std::string(33, 'n').c_str(), 1, 1)))), HasSubstr("a level's name is none"));
    std::string many = level("host", 1, 1);
    for (int more = 0; more < 8; ++more)
        many += ", " + level("host", 1, 1);
    EXPECT_THAT(said(file(levels(many))), HasSubstr("too many levels"));
}

TEST(Settings, HeartbeatsFitIntoTheBoundOfSilenceFiveTimesUnlessSaidOtherwise) {
    EXPECT_EQ(parse(texts_of({}))->detection_bound, Nanoseconds(0));
    const auto by_default = parse(texts_of({{"COPPICE_DETECTION_BOUND", "2s"}}));
    ASSERT_TRUE(by_default) << by_default.error().message;
    EXPECT_EQ(by_default->detection_bound, Nanoseconds(2'000'000'000));
    EXPECT_EQ(by_default->heartbeat_period, Nanoseconds(400'000'000));
    const auto chosen = parse(texts_of({{"COPPICE_DETECTION_BOUND", "2s"}, {"COPPICE_HEARTBEAT", "900ms"}}));
    ASSERT_TRUE(chosen) << chosen.error().message;
    EXPECT_EQ(chosen->heartbeat_period, Nanoseconds(900'000'000));
    EXPECT_NE(chosen->agreement(), by_default->agreement());
    EXPECT_FALSE(parse(texts_of({{"COPPICE_DETECTION_BOUND", "2s"}, {"COPPICE_HEARTBEAT", "1000ms"}})));
    EXPECT_EQ(chosen->most_silence(), Nanoseconds(1'996'000'000)) << "a rank that waits may sleep for 4 ms";
    const auto least = parse(texts_of({{"COPPICE_DETECTION_BOUND", "20ms"}, {"COPPICE_HEARTBEAT", "8ms"}}));
    ASSERT_TRUE(least) << least.error().message;
    EXPECT_EQ(least->most_silence(), Nanoseconds(16'000'000));
    EXPECT_EQ(parse(texts_of({}))->most_silence(), Nanoseconds(0));
}

TEST(Settings, EveryVariableThatDoesNotParseIsNamedWithItsValue) {
    const std::map<std::string, std::string> bad{
        {"COPPICE_TRANSPORT", "shm,smoke"},
        {"COPPICE_TREE", "oak"},
        {"COPPICE_CORRECTION", "red pen"},
        {"COPPICE_HIERARCHY", "feudal"},
        {"COPPICE_AGREEMENT_TREE", "bin/oak"},
        {"COPPICE_AGREEMENT_REBALANCE", "sometimes"},
        {"COPPICE_WINDOW", "33"},
        {"COPPICE_AGREEMENT_WINDOW", "32"},
        {"COPPICE_START_TIMEOUT", "soon"},
        {"COPPICE_CORRECTION_GAP", "-1us"},
        {"COPPICE_DETECTION_BOUND", "19ms"},
        {"COPPICE_HEARTBEAT", "never"},
        {"COPPICE_PROCESS_LOOK", "now and then"},
        {"COPPICE_PROGRESS_THREAD", "yes"},
        {"COPPICE_VERBS_GID_INDEX", "-1"},
        {"COPPICE_VERBS_MTU", "100"},
        {"COPPICE_VERBS_PORT", "65536"},
        {"COPPICE_VERBS_TIMEOUT", "0"},
        {"COPPICE_VERBS_RETRIES", "8"},
        {"COPPICE_VERBS_SERVICE_LEVEL", "16"},
        {"COPPICE_VERBS_TRAFFIC_CLASS", "26x"},
        {"COPPICE_VERBS_MEMORY_WINDOWS", "on"},
        {"COPPICE_UCX_PUT", "maybe"},
        {"COPPICE_UCX_ADMIT", "some"},
        {"COPPICE_SPIN", "dizzy"},
        {"COPPICE_KEEPER", "sometimes"},
        {"COPPICE_BOOTSTRAP", "mpirun"},
        {"COPPICE_VERBS_PROBE", "often"},
        {"COPPICE_VERBS_CONNECT_TIMEOUT", "-1s"},
        {"COPPICE_CAPACITY", "0"},
        {"COPPICE_ADDRESSES", "some"},
        {"COPPICE_JOIN", "all"},
        {"COPPICE_QUORUM", "most"},
        {"COPPICE_PAYLOAD_WINDOW", "63K"},
        {"COPPICE_EAGER", "8193"},
        {"COPPICE_PAYLOAD_CHUNK", "1023"},
        {"COPPICE_PAYLOAD_AHEAD", "0"},
        {"COPPICE_PAYLOAD_PATIENCE", "999us"},
    };
    for (const auto& [variable, value] : bad) {
        const auto settings = parse(texts_of({{variable, value}}));
        ASSERT_FALSE(settings) << variable;
        EXPECT_EQ(settings.error().status, COPPICE_ERR_CONFIG) << variable;
        EXPECT_THAT(settings.error().message, HasSubstr(variable));
        EXPECT_THAT(settings.error().message, HasSubstr(value));
    }
}

TEST(Settings, ThePayloadWindowIsASizeWithOrWithoutAUnit) {
    EXPECT_EQ(parse(texts_of({}))->payload_window, std::uint64_t{64} << 20);
    EXPECT_EQ(parse(texts_of({{"COPPICE_PAYLOAD_WINDOW", "65536"}}))->payload_window, 65536U);
    EXPECT_EQ(parse(texts_of({{"COPPICE_PAYLOAD_WINDOW", "3G"}}))->payload_window, std::uint64_t{3} << 30);
    for (const char* bad : {"65535", "64k", "64MB", "M", "-1", "17179869184G"})
        EXPECT_FALSE(parse(texts_of({{"COPPICE_PAYLOAD_WINDOW", bad}}))) << bad;
}

TEST(Settings, LargePayloadsAreToldInBytesChunksAndTime) {
    const auto defaults = parse(texts_of({}));
    EXPECT_EQ(defaults->eager, 8192U);
    EXPECT_EQ(defaults->payload_chunk, 0U) << "chosen by the payload";
    EXPECT_EQ(defaults->payload_ahead, 64U);
    EXPECT_EQ(defaults->payload_patience, Nanoseconds(100'000'000));
    EXPECT_EQ(parse(texts_of({{"COPPICE_EAGER", "0"}}))->eager, 0U);
    EXPECT_EQ(parse(texts_of({{"COPPICE_EAGER", "4K"}}))->eager, 4096U);
    EXPECT_EQ(parse(texts_of({{"COPPICE_PAYLOAD_CHUNK", "1K"}}))->payload_chunk, 1024U);
    EXPECT_EQ(parse(texts_of({{"COPPICE_PAYLOAD_CHUNK", "1M"}}))->payload_chunk, 1048576U);
    EXPECT_EQ(parse(texts_of({{"COPPICE_PAYLOAD_AHEAD", "1024"}}))->payload_ahead, 1024U);
    EXPECT_EQ(parse(texts_of({{"COPPICE_PAYLOAD_PATIENCE", "1ms"}}))->payload_patience, Nanoseconds(1'000'000));
    const std::pair<const char*, const char*> bad[] = {
        {"COPPICE_EAGER", "9K"},
        {"COPPICE_EAGER", "-1"},
        {"COPPICE_PAYLOAD_CHUNK", "1048577"},
        {"COPPICE_PAYLOAD_CHUNK", "automatic"},
        {"COPPICE_PAYLOAD_AHEAD", "1025"},
        {"COPPICE_PAYLOAD_AHEAD", "8x"},
        {"COPPICE_PAYLOAD_AHEAD", "-1"},
        {"COPPICE_PAYLOAD_PATIENCE", "0"},
        {"COPPICE_PAYLOAD_PATIENCE", "1000"},
        {"COPPICE_PAYLOAD_PATIENCE", "long"},
    };
    for (const auto& [variable, value] : bad)
        EXPECT_FALSE(parse(texts_of({{variable, value}}))) << variable << " = " << value;
}

TEST(Settings, CapacityIsThatOfTheStartOrANumber) {
    EXPECT_EQ(parse(texts_of({}))->capacity, std::nullopt);
    EXPECT_EQ(parse(texts_of({{"COPPICE_CAPACITY", "auto"}}))->capacity, std::nullopt);
    EXPECT_EQ(parse(texts_of({{"COPPICE_CAPACITY", "1048576"}}))->capacity, 1048576U);
    for (const char* bad : {"1048577", "-1", "4x", "99999999999999999999"})
        EXPECT_FALSE(parse(texts_of({{"COPPICE_CAPACITY", bad}}))) << bad;
}

TEST(Settings, RanksThatLayOutMemoryDifferentlyDisagree) {
    const std::string alike = parse(texts_of({}))->agreement();
    EXPECT_NE(parse(texts_of({{"COPPICE_CAPACITY", "16"}}))->agreement(), alike);
    EXPECT_NE(parse(texts_of({{"COPPICE_JOIN", "host"}}))->agreement(), alike);
    EXPECT_NE(parse(texts_of({{"COPPICE_EAGER", "4K"}}))->agreement(), alike);
    EXPECT_NE(parse(texts_of({{"COPPICE_JOIN", "any"}}))->agreement(),
              parse(texts_of({{"COPPICE_JOIN", "host"}}))->agreement());
}

TEST(Settings, SpinningIsFoundOutOrATime) {
    EXPECT_EQ(parse(texts_of({}))->spin_ns, std::nullopt);
    EXPECT_EQ(parse(texts_of({{"COPPICE_SPIN", "auto"}}))->spin_ns, std::nullopt);
    EXPECT_EQ(parse(texts_of({{"COPPICE_SPIN", "0"}}))->spin_ns, 0U);
    EXPECT_EQ(parse(texts_of({{"COPPICE_SPIN", "20us"}}))->spin_ns, 20'000U);
}

TEST(Settings, WindowsOutsideOfTheirRangeAreRefused) {
    for (const char* window : {"0", "1", "3", "2048", "99999999999999999999", "32x", ""}) {
        const auto settings = parse(texts_of({{"COPPICE_WINDOW", window}}));
        EXPECT_EQ(settings.has_value(), *window == '\0') << "\"" << window << "\"; empty counts as not set";
    }
}

TEST(Settings, AnUnknownTreeListsTheKnownOnes) {
    const auto settings = parse(texts_of({{"COPPICE_TREE", "oak"}}));
    ASSERT_FALSE(settings);
    EXPECT_THAT(settings.error().message, HasSubstr("binomial"));
    EXPECT_THAT(settings.error().message, HasSubstr("lame"));
}

TEST(Durations, HaveUnits) {
    EXPECT_EQ(parse_duration_ns("250", "ns"), 250U);
    EXPECT_EQ(parse_duration_ns("250", "s"), 250'000'000'000U);
    EXPECT_EQ(parse_duration_ns("250"), std::nullopt);
    EXPECT_EQ(parse_duration_ns("0"), 0U);
    EXPECT_EQ(parse_duration_ns("250us"), 250'000U);
    EXPECT_EQ(parse_duration_ns("1.5s"), 1'500'000'000U);
    EXPECT_EQ(parse_duration_ns("2m"), 120'000'000'000U);
    for (const char* bad : {"", "s", "1 s", "1d", "-1s", "-0", "nan", "inf", "1e300s", "0x10"}) {
        EXPECT_EQ(parse_duration_ns(bad), std::nullopt) << bad;
    }
}

TEST(KnownSettings, AreAllDescribed) {
    for (const SettingInfo& info : known_settings()) {
        EXPECT_TRUE(info.variable.starts_with("COPPICE_"));
        EXPECT_FALSE(info.description.empty()) << info.variable;
    }
}

}  // namespace
}  // namespace coppice::engine
