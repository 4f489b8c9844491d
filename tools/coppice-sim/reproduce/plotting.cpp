// Runs plot.py, which lies beside the program in a build directory and in ../share/coppice when installed.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "reproduce/output.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kScript = "coppice-sim-plot.py";
constexpr int kNoMatplotlib = 3;  // as the script says
constexpr int kNotStarted = 127;

std::optional<std::filesystem::path> find_script() {
    std::error_code error;
    const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    for (const std::filesystem::path& place : {here / kScript, here / "../share/coppice" / kScript}) {
        if (std::filesystem::exists(place, error)) return place;
    }
    return std::nullopt;
}

// The exit code; kNotStarted if it could not be started.
int run_python(const char* python, const std::filesystem::path& script,
               const std::vector<std::filesystem::path>& plots) {
    std::vector<std::string> words{python, script.string()};
    for (const std::filesystem::path& plot : plots)
        words.push_back(plot.string());
    std::vector<char*> argv;
    for (std::string& word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    if (posix_spawnp(&child, python, nullptr, nullptr, argv.data(), environ) != 0) return kNotStarted;
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) return kNotStarted;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : kNotStarted;
}

}  // namespace

std::optional<std::string> draw_plots(const std::vector<std::filesystem::path>& plots) {
    const auto script = find_script();
    if (!script)
        return fmt::format("plots were not drawn: {} is neither beside coppice-sim nor in ../share/coppice", kScript);
    // The first one may be another Python than the one that the distribution's packages are for.
    int code = kNotStarted;
    for (const char* python : {"python3", "/usr/bin/python3"}) {
        code = run_python(python, *script, plots);
        if (code != kNotStarted && code != kNoMatplotlib) break;
    }
    if (code == 0) return std::nullopt;
    if (code == kNotStarted) return "plots were not drawn: there is no python3 (Debian's package python3)";
    if (code == kNoMatplotlib) {
        return "plots were not drawn: python3 has no matplotlib (Debian's package python3-matplotlib); the .plot.json "
               "files are there, and the same command draws them once it is installed";
    }
    return fmt::format("plots were not drawn: {} ended with exit code {}", script->string(), code);
}

}  // namespace coppice::sim
