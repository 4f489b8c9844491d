// coppice-perf as people call it: what it prints, what it exits with, and what it says to wrong options.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace {

struct Outcome {
    int code = -1;
    std::string text;  // both streams
};

Outcome shell(const std::string& command) {
    Outcome outcome;
    std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return outcome;
    std::array<char, 4096> piece;
    while (const std::size_t bytes = std::fread(piece.data(), 1, piece.size(), pipe)) {
        outcome.text.append(piece.data(), bytes);
    }
    const int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
}

std::string program(const char* variable) {
    const char* path = std::getenv(variable);
    return path != nullptr ? path : std::string(variable) + "-is-not-set";
}

Outcome perf(const std::string& arguments) {
    return shell(program("COPPICE_TEST_PERF") + " " + arguments);
}

Outcome ranks(int count, const std::string& arguments) {
    return shell(program("COPPICE_TEST_RUN") + " -n " + std::to_string(count) + " --timeout 240 " +
                 program("COPPICE_TEST_PERF") + " " + arguments);
}

bool contains(const Outcome& outcome, const std::string& text) {
    return outcome.text.find(text) != std::string::npos;
}

TEST(CoppicePerf, AnUnknownTreeListsTheKnownOnesAndExitsWith2) {
    for (const char* arguments : {"--tree foo", "broadcast --tree foo"}) {
        const Outcome outcome = perf(arguments);
        EXPECT_EQ(outcome.code, 2) << outcome.text;
        for (const char* known : {"binomial", "kary", "lame", "optimal", "chain", "star"}) {
            EXPECT_TRUE(contains(outcome, known)) << known << " in: " << outcome.text;
        }
    }
}

TEST(CoppicePerf, TheHeadingSaysWhatCarriesTheMessages) {
    for (const auto& [options, carries] : {std::pair{"-n 2", "transport shm within hosts, "},
                                           {"-n 4 --hosts 2", "transport shm within hosts, tcp between them, "},
                                           {"-n 2 --hosts 2", "transport tcp, "}}) {
        const Outcome outcome = shell(program("COPPICE_TEST_RUN") + " " + options + " --timeout 240 " +
                                      program("COPPICE_TEST_PERF") + " broadcast -s 8 -n 10 -w 1");
        EXPECT_EQ(outcome.code, 0) << outcome.text;
        EXPECT_TRUE(contains(outcome, carries)) << carries << " in: " << outcome.text;
    }
}

TEST(CoppicePerf, AnUnknownCorrectionListsTheKnownOnesAndExitsWith2) {
    const Outcome outcome = perf("--correction foo");
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    for (const char* known : {"opportunistic", "optimized", "checked", "delayed", "failure-proof", "none", "ack"}) {
        EXPECT_TRUE(contains(outcome, known)) << known << " in: " << outcome.text;
    }
}

TEST(CoppicePerf, AnUnknownAlgorithmListsTheKnownOnesAndExitsWith2) {
    const Outcome outcome = perf("--algorithm foo");
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    for (const char* known : {"foo", "tree", "ocg", "ccg", "fcg"}) {
        EXPECT_TRUE(contains(outcome, known)) << known << " in: " << outcome.text;
    }
}

TEST(CoppicePerf, WhatIsOnlyThereToBeComparedWithIsRefusedWithWhereItIs) {
    for (const char* arguments : {"--algorithm bfb", "--algorithm big", "--algorithm gos:4:rounds",
                                  "--correction optimized-paper:2", "--correction opportunistic-paper:1"}) {
        const Outcome outcome = perf(arguments);
        EXPECT_EQ(outcome.code, 2) << arguments << ": " << outcome.text;
        EXPECT_TRUE(contains(outcome, "only there to be compared with: coppice-sim"))
            << arguments << ": " << outcome.text;
    }
}

TEST(CoppicePerf, WhatAnAlgorithmWouldIgnoreIsRefused) {
    for (const char* arguments : {"--algorithm ccg --correction checked", "--algorithm fcg:1 --correction checked",
                                  "--algorithm ocg --tree star"}) {
        const Outcome outcome = perf(arguments);
        EXPECT_EQ(outcome.code, 2) << arguments;
        EXPECT_TRUE(contains(outcome, "has no effect")) << arguments << ": " << outcome.text;
    }
}

TEST(CoppicePerf, WrongValuesAreNamedAndExitWith2) {
    for (const auto& [arguments, named] : std::initializer_list<std::pair<const char*, const char*>>{
             {"broadcast -n none", "--iters"},
             {"broadcast -n 0", "--iters"},
             {"broadcast -s x", "--size"},
             {"broadcast -s 8 -a", "--all"},
             {"broadcast --metric foo", "--metric"},
             {"broadcast --window 1", "--window"},
             {"broadcast --timeout never", "--timeout"},
             {"broadcast --dead x", "--dead"},
             {"broadcast --whatever", "--whatever"},
             {"agree -n 0", "--iters"},
             {"agree --at 3", "--victims"},
             {"agree --silent", "--victims"},
             {"agree --resident much", "--resident"},
             {"shrink -n 0", "--iters"},
             {"agree --for never", "--for"},
             {"shrink --for 0s", "--for"},
             {"broadcast --for 3x", "--for"},
             {"send_lat --for -1s", "--for"},
             {"shrink --at 3", "--victims"},
             {"whatever", "whatever"},
         }) {
        const Outcome outcome = perf(arguments);
        EXPECT_EQ(outcome.code, 2) << arguments;
        EXPECT_TRUE(contains(outcome, named)) << arguments << ": " << outcome.text;
    }
}

TEST(CoppicePerf, WrongValuesThatOnlyTheGroupKnowsAreNamedOnce) {
    for (const auto& [arguments, named] : std::initializer_list<std::pair<const char*, const char*>>{
             {"broadcast -s 2199023255552", "-s 2199023255552"},
             {"broadcast --root 3", "--root 3"},
             {"broadcast --root second", "--root second"},
             {"broadcast --dead 3", "--dead 3"},
             {"broadcast --dead 0", "--dead 0"},
             {"shrink --victims 3", "--victims 3"},
             {"agree -n 5 --victims 0 --at 5", "--at 5"},
             {"agree -n 5 --victims 0 --at 1 --silent", "COPPICE_DETECTION_BOUND"},
         }) {
        const Outcome outcome = ranks(3, arguments);
        EXPECT_NE(outcome.code, 0) << arguments;
        const std::size_t first = outcome.text.find(named);
        ASSERT_NE(first, std::string::npos) << arguments << ": " << outcome.text;
        EXPECT_EQ(outcome.text.find(named, first + 1), std::string::npos) << outcome.text;
    }
}

TEST(CoppicePerf, VerifiesEveryByteWhicheverRankIsTheRoot) {
    for (const char* more : {"", " --view", " --back-to-back", " --view --back-to-back", " --hierarchy flat"}) {
        const Outcome outcome = ranks(4, std::string("broadcast -s 1000 -n 300 -w 20 --root rotate --verify") + more);
        EXPECT_EQ(outcome.code, 0) << more << ": " << outcome.text;
        EXPECT_TRUE(contains(outcome, "lost 0 corrupt 0 duplicate 0")) << more << ": " << outcome.text;
        EXPECT_TRUE(contains(outcome, "1280 deliveries")) << more << ": " << outcome.text;
    }
}

TEST(CoppicePerf, AllSizesGetALineEach) {
    const Outcome outcome = ranks(3, "broadcast -a -n 3 -w 1 --verify");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    for (std::size_t bytes = 1; bytes <= 8 << 20; bytes *= 2) {
        EXPECT_TRUE(contains(outcome, "\n " + std::to_string(bytes) + " ")) << bytes << " in: " << outcome.text;
    }
}

// The launcher's exit code speaks of the ranks that killed themselves, not of the run.
TEST(CoppicePerf, GoesOnWithoutTheDead) {
    for (const char* more : {"", " --correction checked", " --hierarchy flat --correction checked"}) {
        const Outcome outcome = ranks(5, std::string("broadcast -s 64 -n 200 --dead 1,4 --verify") + more);
        EXPECT_TRUE(contains(outcome, "2 of 5 ranks dead before the run")) << more << ": " << outcome.text;
        EXPECT_TRUE(contains(outcome, "900 deliveries")) << more << ": " << outcome.text;
        EXPECT_TRUE(contains(outcome, "lost 0 corrupt 0 duplicate 0")) << more << ": " << outcome.text;
    }
}

TEST(CoppicePerf, WritesItsFiguresAsJson) {
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("coppice-perf-" + std::to_string(getpid()) + ".json");
    const Outcome outcome = ranks(2, "broadcast -s 16 -n 50 --verify --out_json " + file.string());
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    std::ifstream stream(file);
    const nlohmann::json figures = nlohmann::json::parse(stream, nullptr, false);
    std::filesystem::remove(file);
    ASSERT_FALSE(figures.is_discarded());
    EXPECT_EQ(figures.at("ranks"), 2);
    EXPECT_EQ(figures.at("lost"), 0);
    EXPECT_EQ(figures.at("corrupt"), 0);
    ASSERT_EQ(figures.at("sizes").size(), 1U);
    const nlohmann::json& line = figures.at("sizes")[0];
    EXPECT_EQ(line.at("bytes"), 16);
    EXPECT_EQ(line.at("iterations"), 50);
    for (const char* key : {"t_min", "t_max", "t_typical", "t_avg", "t_stdev", "percentile_99", "percentile_99_9"}) {
        EXPECT_GE(line.at("done").at(key), 0) << key;
        EXPECT_GE(line.at("osu").at(key), 0) << key;
    }
}

TEST(CoppicePerf, ComparesWhatAgreementsSayAtAllRanks) {
    const Outcome outcome = ranks(4, "agree -s 24 -n 500");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_TRUE(contains(outcome, "failure-free")) << outcome.text;
    EXPECT_TRUE(contains(outcome, "0 of 4 ranks died\n600 agreements at 4 survivors")) << outcome.text;
    EXPECT_TRUE(contains(outcome, "disagreed 0 wrong 0 lost 0")) << outcome.text;
}

TEST(CoppicePerf, AgreementsGoOnWithoutTheVictims) {
    for (const char* hierarchy : {"host", "flat"}) {
        const std::filesystem::path file =
            std::filesystem::temp_directory_path() / ("coppice-perf-" + std::to_string(getpid()) + ".json");
        // Kills of oneself are failures in the launcher's eyes: what the survivors say is what counts.
        const Outcome outcome = ranks(5, std::string("agree -n 300 --victims 0,3 --at 100 --resident 4M --hierarchy ") +
                                             hierarchy + " --out_json " + file.string());
        EXPECT_TRUE(contains(outcome, "2 of 5 ranks died\n400 agreements at 3 survivors")) << outcome.text;
        EXPECT_TRUE(contains(outcome, "disagreed 0 wrong 0 lost 0")) << outcome.text;
        std::ifstream stream(file);
        const nlohmann::json figures = nlohmann::json::parse(stream, nullptr, false);
        std::filesystem::remove(file);
        ASSERT_FALSE(figures.is_discarded()) << outcome.text;
        EXPECT_EQ(figures.at("disagreed"), 0);
        EXPECT_EQ(figures.at("survivors"), 3);
        EXPECT_FALSE(figures.at("deaths").empty());
        std::uint64_t agreements = 0;
        for (const nlohmann::json& phase : figures.at("phases"))
            agreements += phase.at("agreements").get<std::uint64_t>();
        EXPECT_EQ(agreements, 300U);
    }
}

// With a bound, and with a longer one if the outcome has not these words: a living rank that is kept from its core for as long is
// taken for dead.
Outcome with_bounds(const std::function<Outcome(int seconds)>& run, const std::string& words) {
    Outcome outcome;
    for (const int seconds : {5, 20}) {
        setenv("COPPICE_DETECTION_BOUND", (std::to_string(seconds) + "s").c_str(), 1);
        outcome = run(seconds);
        if (contains(outcome, words)) break;
    }
    unsetenv("COPPICE_DETECTION_BOUND");
    return outcome;
}

TEST(CoppicePerf, AgreementsGoOnWithoutRanksThatAreSilent) {
    const Outcome outcome =
        with_bounds([](int) { return ranks(4, "agree -n 60 --victims 2,3 --at 30 --silent"); }, "2, 3 of 4 died");
    EXPECT_TRUE(contains(outcome, "2, 3 of 4 died")) << outcome.text;
    EXPECT_TRUE(contains(outcome, "us from the last that was heard to the return of the last survivor"))
        << outcome.text;
    EXPECT_TRUE(contains(outcome, "160 agreements at 2 survivors")) << outcome.text;
    EXPECT_TRUE(contains(outcome, "disagreed 0 wrong 0 lost 0")) << outcome.text;
}

TEST(CoppicePerf, ShrinksAgainAndAgain) {
    const Outcome outcome = ranks(4, "shrink -n 60 -w 5");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_TRUE(contains(outcome, "failure-free")) << outcome.text;
    EXPECT_TRUE(contains(outcome, "0 of 4 ranks died\n65 shrinks at 4 survivors")) << outcome.text;
    EXPECT_TRUE(contains(outcome, "disagreed 0")) << outcome.text;
}

TEST(CoppicePerf, ShrinksLeaveTheVictimsOut) {
    for (const char* hierarchy : {"host", "flat"}) {
        const std::filesystem::path file =
            std::filesystem::temp_directory_path() / ("coppice-perf-" + std::to_string(getpid()) + ".json");
        const Outcome outcome = ranks(5, std::string("shrink -n 20 -w 2 --victims 0,3 --at 7 --hierarchy ") +
                                             hierarchy + " --out_json " + file.string());
        EXPECT_TRUE(contains(outcome, "2 of 5 ranks died\n22 shrinks at 3 survivors")) << outcome.text;
        EXPECT_TRUE(contains(outcome, "disagreed 0")) << outcome.text;
        std::ifstream stream(file);
        const nlohmann::json figures = nlohmann::json::parse(stream, nullptr, false);
        std::filesystem::remove(file);
        ASSERT_FALSE(figures.is_discarded()) << outcome.text;
        EXPECT_EQ(figures.at("survivors"), 3);
        ASSERT_EQ(figures.at("phases").size(), 3U) << outcome.text;
        EXPECT_EQ(figures.at("phases")[0].at("shrinks"), 7U);
        EXPECT_EQ(figures.at("phases")[1].at("shrinks"), 1U);
        EXPECT_EQ(figures.at("phases")[2].at("shrinks"), 12U);
    }
}

// A rank that stops at another operation than the others waits for them in vain.
TEST(CoppicePerf, StopsAfterATimeAtAllRanksAlike) {
    for (const char* arguments :
         {"agree --for 200ms", "agree --for 200ms --back-to-back", "shrink --for 200ms",
          "broadcast --for 200ms --verify", "broadcast --for 200ms --root rotate --back-to-back --verify",
          "broadcast -a -w 2 --for 20ms --verify", "--hierarchy flat broadcast --for 200ms --back-to-back --verify"}) {
        const Outcome outcome = ranks(4, arguments);
        EXPECT_EQ(outcome.code, 0) << arguments << ": " << outcome.text;
        EXPECT_TRUE(contains(outcome, "0 of 4 ranks died")) << arguments << ": " << outcome.text;
    }
    for (const auto& [arguments, words] : std::initializer_list<std::pair<const char*, const char*>>{
             {"send_lat --transport shm --for 100ms", "half of a round trip"},
             {"put_lat --transport ucx --for 100ms", "half of a round trip"},
             {"logp -n 100 --for 50ms", "rounds (least..greatest)"},
             {"stabilize --for 50ms", "divergent 0 lost 0 hung 0"},
             {"join --for 50ms", "divergent 0 lost 0 hung 0"}}) {
        const Outcome outcome = ranks(2, arguments);
        EXPECT_EQ(outcome.code, 0) << arguments << ": " << outcome.text;
        EXPECT_TRUE(contains(outcome, words)) << arguments << ": " << outcome.text;
    }
    const Outcome bounded = ranks(3, "agree -n 20 --for 100s");
    EXPECT_TRUE(contains(bounded, "120 agreements at 3 survivors")) << bounded.text;
}

TEST(CoppicePerf, EverySubcommandMeasuresForATime) {
    std::istringstream help(perf("--help").text);
    std::string line;
    while (std::getline(help, line) && line.rfind("Subcommands:", 0) != 0) {
    }
    int found = 0;
    while (std::getline(help, line) && line.rfind("  ", 0) == 0) {
        if (line.size() < 3 || line[2] == ' ') continue;  // the rest of a description
        const std::string name = line.substr(2, line.find(' ', 2) - 2);
        ++found;
        const Outcome refused = perf(name + " --for never");
        EXPECT_EQ(refused.code, 2) << name;
        EXPECT_TRUE(contains(refused, "--for: ")) << name << ": " << refused.text;
        EXPECT_TRUE(contains(perf(name + " --help"), "--for TIME")) << name;
    }
    EXPECT_GE(found, 8);
}

nlohmann::json logp_file(const std::string& run, const std::string& arguments) {
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("coppice-logp-" + std::to_string(getpid()) + ".json");
    const Outcome outcome =
        shell(program("COPPICE_TEST_RUN") + " --timeout 240 " + run + " " + program("COPPICE_TEST_PERF") +
              " logp --rounds 3 -n 200 " + arguments + " --out_json " + file.string());
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    std::ifstream stream(file);
    auto figures = nlohmann::json::parse(stream, nullptr, false);
    std::filesystem::remove(file);
    return figures;
}

TEST(CoppicePerf, MeasuresEachLevelThatTheJobHas) {
    const auto levels = [](const nlohmann::json& figures) {
        std::vector<std::string> names;
        for (const auto& one : figures.at("levels")) {
            names.push_back(one.at("level").get<std::string>() + " " + one.at("transport").get<std::string>());
            EXPECT_GT(one.at("o").at("median"), 0.0) << one;
            EXPECT_GT(one.at("g").at("median"), 0.0) << one;
            EXPECT_GE(one.at("L").at("median"), 0.0) << one;
            EXPECT_LE(one.at("g").at("min"), one.at("g").at("median")) << one;
            EXPECT_LE(one.at("g").at("median"), one.at("g").at("max")) << one;
        }
        return names;
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(levels(logp_file("-n 3", "")), (Names{"host shm"}));
    setenv("COPPICE_WITHIN", "l3-0/core0", 1);
    EXPECT_EQ(levels(logp_file("-n 3", "")), (Names{"cache shm"}));
    unsetenv("COPPICE_WITHIN");
    EXPECT_EQ(levels(logp_file("-n 5 --hosts 4 --leaves 2", "")), (Names{"host shm", "leaf tcp", "network tcp"}));
    setenv("COPPICE_TRANSPORT", "ucx", 1);
    EXPECT_EQ(levels(logp_file("-n 2", "")), (Names{"host ucx"}));
    unsetenv("COPPICE_TRANSPORT");
}

TEST(CoppicePerf, BroadcastsGoAlongTheTreeThatWasMeasuredToBeTheFastest) {
    const auto figures = logp_file("-n 2", "");
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("coppice-measured-" + std::to_string(getpid()) + ".json");
    std::ofstream(file) << figures;
    setenv("COPPICE_LOGP", file.c_str(), 1);
    const Outcome outcome = ranks(4, "broadcast -s 64 -n 200 --hierarchy flat --verify");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    // One rank reads another file, as a rank of another host may.
    auto other = figures;
    other["levels"][0]["L"]["median"] = 1000 * figures["levels"][0]["o"]["median"].get<double>() + 1000;
    const std::filesystem::path of_one = file.string() + ".1";
    std::ofstream(of_one) << other;
    const Outcome apart =
        shell("timeout 120 " + program("COPPICE_TEST_RUN") + " -n 2 sh -c 'COPPICE_LOGP=" + file.string() +
              ".$COPPICE_RANK; [ -e $COPPICE_LOGP ] || COPPICE_LOGP=" + file.string() + "; export COPPICE_LOGP; exec " +
              program("COPPICE_TEST_PERF") + " broadcast -n 10'");
    EXPECT_NE(apart.code, 0) << apart.text;
    EXPECT_TRUE(contains(apart, "tree auto by host L=")) << apart.text;
    unsetenv("COPPICE_LOGP");
    std::filesystem::remove(file);
    std::filesystem::remove(of_one);
}

TEST(CoppicePerf, LogpTellsWhenOneOfTwoIsGone) {
    const Outcome outcome = shell(program("COPPICE_TEST_RUN") + " -n 3 --timeout 240 --kill 1@300ms " +
                                  program("COPPICE_TEST_PERF") + " logp --rounds 10000 -n 100000");
    EXPECT_NE(outcome.code, 0);
    EXPECT_TRUE(contains(outcome, "is gone")) << outcome.text;
    EXPECT_EQ(ranks(1, "logp").code, 2);
}

TEST(CoppicePerf, GoesOnWithoutAHostThatIsCutOff) {
    const std::string cut =
        program("COPPICE_TEST_RUN") + " -n 3 --hosts 3 --cut 2@200ms --timeout 240 " + program("COPPICE_TEST_PERF");
    const std::string words = "0 of 3 ranks died, 1 lost: cut off, and still alive";
    const auto run = [&](const std::string& what, const std::string& more) {
        return with_bounds(
            [&](int seconds) { return shell(cut + what + " --for " + std::to_string(2 * seconds + 2) + "s" + more); },
            words);
    };
    const Outcome agree = run(" agree", "");
    const Outcome broadcast = run(" broadcast", " --verify");
    for (const Outcome& outcome : {agree, broadcast}) {
        EXPECT_EQ(outcome.code, 0) << outcome.text;
        EXPECT_TRUE(contains(outcome, words)) << outcome.text;
    }
    EXPECT_TRUE(contains(agree, "disagreed 0 wrong 0 lost 0")) << agree.text;
    EXPECT_TRUE(contains(broadcast, "lost 0 corrupt 0 duplicate 0")) << broadcast.text;
}

TEST(CoppicePerf, AFileThatCannotBeWrittenIsNamed) {
    const Outcome outcome = ranks(2, "broadcast -n 10 --out_json /nowhere/figures.json");
    EXPECT_NE(outcome.code, 0);
    EXPECT_TRUE(contains(outcome, "/nowhere/figures.json")) << outcome.text;
}

}  // namespace
