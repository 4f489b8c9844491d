// Settings that do not parse, and ways to find the other ranks that do not exist: refused, with the remedy.
#include "api/support.hpp"

namespace coppice::testing {
namespace {

using ::testing::HasSubstr;

struct Wrong {
    const char* variable;
    const char* value;
    std::vector<std::string> words;  // what the sentence must have besides the variable and the value
};

const std::vector<std::string> kTrees{"binomial", "kary:K", "lame:K", "optimal", "chain", "star"};
const std::vector<std::string> kCorrections{"opportunistic", "checked", "optimized", "none", "ack"};

const std::vector<std::string> kElsewhere{"only there to be compared with", "coppice-sim"};

const std::vector<Wrong>& wrong_settings() {
    static const std::vector<Wrong> all{
        {"COPPICE_TREE", "oak", kTrees},
        {"COPPICE_TREE", "kary", kTrees},
        {"COPPICE_TREE", "kary:0", kTrees},
        {"COPPICE_TREE", "lame:x", kTrees},
        {"COPPICE_TREE", "binomial:3", kTrees},
        {"COPPICE_TREE", "chain:inorder", kTrees},
        {"COPPICE_CORRECTION", "hopeful", kCorrections},
        {"COPPICE_CORRECTION", "opportunistic:0", kCorrections},
        {"COPPICE_CORRECTION", "opportunistic:-1", kCorrections},
        {"COPPICE_CORRECTION", "checked:2", kCorrections},
        // What is only there to be compared with.
        {"COPPICE_CORRECTION", "optimized-paper:2", kElsewhere},
        {"COPPICE_CORRECTION", "opportunistic-paper:1:one-directional", kElsewhere},
        {"COPPICE_ALGORITHM", "bfb", kElsewhere},
        {"COPPICE_ALGORITHM", "big", kElsewhere},
        {"COPPICE_ALGORITHM", "gos", kElsewhere},
        {"COPPICE_ALGORITHM", "gos:50:rounds", kElsewhere},
        {"COPPICE_ALGORITHM", "walk", {"tree", "ocg", "ccg", "fcg"}},
        {"COPPICE_HIERARCHY", "steep", {"host", "flat"}},
        {"COPPICE_AGREEMENT_TREE", "oak", {"binary", "X/Y", "binomial"}},
        {"COPPICE_AGREEMENT_TREE", "bin/", {"binary", "X/Y", "binomial"}},
        {"COPPICE_AGREEMENT_REBALANCE", "sometimes", {"never", "when-degenerated", "always"}},
        {"COPPICE_WINDOW", "31", {"power of two", "2", "1024"}},
        {"COPPICE_WINDOW", "1", {"power of two"}},
        {"COPPICE_WINDOW", "2048", {"1024"}},
        {"COPPICE_WINDOW", "many", {"power of two"}},
        {"COPPICE_WINDOW", "-4", {"power of two"}},
        {"COPPICE_WINDOW", "4294967328", {"power of two"}},
        {"COPPICE_TRANSPORT", "smoke", {"shm", "ucx"}},
        {"COPPICE_TRANSPORT", "shm,", {"shm", "ucx"}},
        {"COPPICE_TRANSPORT", "shm ucx", {"shm", "ucx"}},
        {"COPPICE_START_TIMEOUT", "soon", {"500ms"}},
        {"COPPICE_START_TIMEOUT", "-1s", {"500ms"}},
        {"COPPICE_CORRECTION_GAP", "2 us", {"2us"}},
        {"COPPICE_PROGRESS_THREAD", "yes", {"auto, 0 or 1"}},
        {"COPPICE_CAPACITY", "plenty", {"auto", "1048576"}},
        {"COPPICE_JOIN", "none,host", {"none, host or any"}},
        {"COPPICE_FAULTS", "sharks", {"kill-after"}},
    };
    return all;
}

TEST(Environment, WhatDoesNotParseIsRefusedWithTheKnownValues) {
    for (const Wrong& wrong : wrong_settings()) {
        SCOPED_TRACE(std::string(wrong.variable) + "=" + wrong.value);
        const Variable variable(wrong.variable, wrong.value);
        coppice_context_t* context = nullptr;
        std::vector<std::string> words = wrong.words;
        words.insert(words.end(), {wrong.variable, wrong.value});
        expect_error(coppice_context_create(nullptr, &context), COPPICE_ERR_CONFIG, words);
        EXPECT_EQ(context, nullptr);
    }
}

TEST(Environment, AnEmptyVariableIsNone) {
    for (const Wrong& wrong : wrong_settings()) {
        const Variable variable(wrong.variable, "");
        coppice_context_t* context = nullptr;
        EXPECT_EQ(coppice_context_create(nullptr, &context), COPPICE_OK) << wrong.variable << coppice_last_error();
        EXPECT_EQ(coppice_context_destroy(context), COPPICE_OK);
    }
}

TEST(Environment, AHostsNameIsOfBoundedLength) {
    const Variable variable("COPPICE_HOST", std::string(65, 'h').c_str());
    coppice_context_t* context = nullptr;
    expect_error(coppice_context_create(nullptr, &context), COPPICE_ERR_CONFIG, {"COPPICE_HOST", "64"});
}

TEST_F(Alone, OptionsThatDoNotParseAreRefusedWithTheKnownValues) {
    for (const Wrong& wrong : wrong_settings()) {
        coppice_group_options_t options = options_alone();
        const std::string name = wrong.variable;
        if (name == "COPPICE_TREE") {
            options.tree = wrong.value;
        } else if (name == "COPPICE_CORRECTION") {
            options.correction = wrong.value;
        } else if (name == "COPPICE_ALGORITHM") {
            options.algorithm = wrong.value;
        } else if (name == "COPPICE_HIERARCHY") {
            options.hierarchy = wrong.value;
        } else if (name == "COPPICE_AGREEMENT_TREE") {
            options.agreement_tree = wrong.value;
        } else {
            continue;
        }
        SCOPED_TRACE(name + "=" + wrong.value);
        coppice_group_t* other = nullptr;
        std::vector<std::string> words = wrong.words;
        words.insert(words.end(), {"option for " + name, wrong.value});
        expect_error(coppice_group_create(context, &options, &other), COPPICE_ERR_CONFIG, words);
        EXPECT_EQ(other, nullptr);
    }
    for (const std::uint32_t window : {1U, 3U, 2048U, UINT32_MAX}) {
        coppice_group_options_t options = options_alone();
        options.window = window;
        coppice_group_t* other = nullptr;
        expect_error(coppice_group_create(context, &options, &other), COPPICE_ERR_CONFIG,
                     {"option for COPPICE_WINDOW", std::to_string(window), "power of two"});
    }
}

TEST(Options, TransportsThatDoNotExistAreRefused) {
    coppice_context_options_t options = COPPICE_CONTEXT_OPTIONS_INIT;
    for (const char* transports : {"smoke", "", "shm,smoke", ",", "SHM"}) {
        options.transports = transports;
        coppice_context_t* context = nullptr;
        expect_error(coppice_context_create(&options, &context), COPPICE_ERR_CONFIG,
                     {"option for COPPICE_TRANSPORT", "shm", "ucx"});
        EXPECT_EQ(context, nullptr);
    }
}

TEST(Options, AThreadModeThatDoesNotExistIsRefused) {
    coppice_context_options_t options = COPPICE_CONTEXT_OPTIONS_INIT;
    const unsigned nonsense = 77;
    static_assert(sizeof nonsense == sizeof options.thread_mode);
    std::memcpy(&options.thread_mode, &nonsense, sizeof nonsense);
    coppice_context_t* context = nullptr;
    expect_error(coppice_context_create(&options, &context), COPPICE_ERR_INVALID_ARGUMENT,
                 {"thread_mode", "COPPICE_THREAD_SINGLE"});
}

TEST(Options, WinOverTheEnvironment) {
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
    const Variable window("COPPICE_WINDOW", "8");
    const Variable transport("COPPICE_TRANSPORT", "smoke");
    coppice_context_options_t options = COPPICE_CONTEXT_OPTIONS_INIT;
    options.transports = "shm";
    ASSERT_EQ(coppice_context_create(&options, &context), COPPICE_OK) << coppice_last_error();
    coppice_group_options_t group_options = options_alone();
    for (const std::uint32_t asked : {0U, 4U}) {
        group_options.window = asked;
        ASSERT_EQ(coppice_group_create(context, &group_options, &group), COPPICE_OK) << coppice_last_error();
        coppice_group_info_t info{};
        info.struct_size = sizeof info;
        EXPECT_EQ(coppice_group_query(group, &info), COPPICE_OK);
        EXPECT_EQ(info.window, asked == 0 ? 8U : asked);
        EXPECT_EQ(coppice_group_destroy(group, kDeadlineNs), COPPICE_OK);
    }
    EXPECT_EQ(coppice_context_destroy(context), COPPICE_OK);
}

// ---------------------------------------------------------------------------------------------------- bootstrap ---

class NoGroup : public ::testing::Test {
  protected:
    NoGroup() : rank("COPPICE_RANK", nullptr), size("COPPICE_SIZE", nullptr), launcher("COPPICE_LAUNCHER", nullptr) {}
    void SetUp() override { ASSERT_EQ(coppice_context_create(nullptr, &context), COPPICE_OK); }
    void TearDown() override { EXPECT_EQ(coppice_context_destroy(context), COPPICE_OK); }
    Variable rank, size, launcher;
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
};

TEST_F(NoGroup, WithoutLauncherAndCallbackTheRemedyIsNamed) {
    for (const bool with_options : {false, true}) {
        coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
        options.size = 4;
        expect_error(coppice_group_create(context, with_options ? &options : nullptr, &group), COPPICE_ERR_BOOTSTRAP,
                     {"coppice-run -n", "mpirun", "exchange"});
        EXPECT_EQ(group, nullptr);
    }
}

TEST_F(NoGroup, HalfALauncherIsNone) {
    const Variable own_rank("COPPICE_RANK", "0");
    expect_error(coppice_group_create(context, nullptr, &group), COPPICE_ERR_CONFIG, {"COPPICE_SIZE", "coppice-run"});
    const Variable own_size("COPPICE_SIZE", "2");
    expect_error(coppice_group_create(context, nullptr, &group), COPPICE_ERR_CONFIG, {"COPPICE_LAUNCHER"});
}

TEST_F(NoGroup, ALauncherThatIsGoneIsNamed) {
    const Variable own_rank("COPPICE_RANK", "0");
    const Variable own_size("COPPICE_SIZE", "2");
    const Variable own_launcher("COPPICE_LAUNCHER", "/nonexistent/launcher.sock");
    expect_error(coppice_group_create(context, nullptr, &group), COPPICE_ERR_BOOTSTRAP,
                 {"launcher is gone", "/nonexistent/launcher.sock", "coppice-run"});
}

TEST_F(NoGroup, AnExchangeThatFailsIsReportedWithItsCode) {
    coppice_group_options_t options = options_alone();
    options.exchange = [](void*, const void*, std::size_t, void*) { return 42; };
    expect_error(coppice_group_create(context, &options, &group), COPPICE_ERR_BOOTSTRAP, {"callback", "42"});
    EXPECT_EQ(group, nullptr);
}

TEST_F(NoGroup, AnExchangeThatGathersNothingIsReported) {
    coppice_group_options_t options = options_alone();
    options.exchange = [](void*, const void*, std::size_t, void*) { return 0; };
    expect_error(coppice_group_create(context, &options, &group), COPPICE_ERR_BOOTSTRAP, {"rank 0"});
    options.size = 3;  // ranks 1 and 2 count as dead, but a rank is not dead to itself
    expect_error(coppice_group_create(context, &options, &group), COPPICE_ERR_BOOTSTRAP, {"rank 0"});
    EXPECT_EQ(group, nullptr);
}

}  // namespace
}  // namespace coppice::testing
