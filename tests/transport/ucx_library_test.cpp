// What loading UCX leaves of a program that is not linked with it. Each test is a process of its own, in which it has not been loaded.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "support/processes.hpp"
#include "transport/ucx/library.hpp"
#include "transport/ucx/ucx_transport.hpp"

extern char** environ;

namespace coppice::testing {
namespace {

constexpr std::array kTaken{SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGHUP};

void in_child(const std::function<void()>& body) {
    // The tests' own runs may be steered by these; here it counts what happens without.
    for (const char* variable : {"UCX_HANDLE_ERRORS", "UCX_ERROR_SIGNALS", "UCX_DEBUG_SIGNO"})
        ASSERT_EQ(std::getenv(variable), nullptr) << variable;
    Processes processes;
    processes.start([&] {
        body();
        return 0;
    });
    const Ending ending = processes.wait(0);
    EXPECT_TRUE(ending.well()) << ending.text();
}

bool is_loaded(const char* soname) {
    return dlopen(soname, RTLD_LAZY | RTLD_NOLOAD) != nullptr;
}

using Handler = void (*)(int);

Handler handler_of(int signal) {
    struct sigaction found {};
    COPPICE_CHECK(sigaction(signal, nullptr, &found) == 0);
    return found.sa_handler;  // in the same place as the other kind
}

void on_signal(int) {}

void take_signals() {
    struct sigaction mine {};
    mine.sa_handler = on_signal;
    for (const int signal : kTaken)
        COPPICE_CHECK(sigaction(signal, &mine, nullptr) == 0);
}

void make_transport() {
    transport::UcxOptions options;
    options.group_size = 2;
    options.loopback_only = true;
    const auto made = transport::UcxTransport::create(options);
    if (!made) throw CheckFailed(made.error().message);
}

TEST(UcxLibrary, IsLoadedByTheFirstTransport) {
    in_child([] {
        COPPICE_CHECK(!is_loaded("libucs.so.0") && !is_loaded("libucp.so.0"));
        make_transport();
        COPPICE_CHECK(is_loaded("libucs.so.0") && is_loaded("libucp.so.0"));
    });
}

TEST(UcxLibrary, OffersNothingToTheProgram) {
    in_child([] {
        COPPICE_CHECK(transport::ucx::load().has_value());
        COPPICE_CHECK(dlsym(RTLD_DEFAULT, "ucp_init_version") == nullptr);
        COPPICE_CHECK(dlsym(RTLD_DEFAULT, "ucs_status_string") == nullptr);
    });
}

TEST(UcxLibrary, TheEnvironmentAndTheSignalsOfTheApplicationStay) {
    in_child([] {
        std::vector<std::string> before;
        for (char** entry = environ; *entry != nullptr; ++entry)
            before.emplace_back(*entry);
        take_signals();
        make_transport();
        for (const int signal : kTaken)
            COPPICE_CHECK(handler_of(signal) == on_signal);
        std::size_t i = 0;
        for (char** entry = environ; *entry != nullptr; ++entry, ++i)
            COPPICE_CHECK(before.at(i) == *entry);
        COPPICE_CHECK(i == before.size());
    });
}

TEST(UcxLibrary, TheSignalStackOfTheThreadThatLoadsItStays) {
    in_child([] {
        std::vector<char> own(std::size_t{1} << 16);
        stack_t stack{};
        stack.ss_sp = own.data();
        stack.ss_size = own.size();
        COPPICE_CHECK(sigaltstack(&stack, nullptr) == 0);
        make_transport();
        stack_t found{};
        COPPICE_CHECK(sigaltstack(nullptr, &found) == 0);
        COPPICE_CHECK(found.ss_sp == own.data() && found.ss_size == own.size() && found.ss_flags == 0);
    });
}

TEST(UcxLibrary, AUserGetsTheHandlersThatTheyAskForAndNoOthers) {
    in_child([] {
        take_signals();
        setenv("UCX_HANDLE_ERRORS", "bt", 1);
        make_transport();
        COPPICE_CHECK(handler_of(SIGSEGV) != on_signal);
        COPPICE_CHECK(handler_of(SIGHUP) == on_signal);
    });
}

TEST(UcxLibrary, HandlersOfAProgramThatHasLoadedItStay) {
    in_child([] {
        take_signals();
        COPPICE_CHECK(dlopen("libucs.so.0", RTLD_NOW) != nullptr);
        std::vector<Handler> of_ucx;
        for (const int signal : kTaken)
            of_ucx.push_back(handler_of(signal));
        COPPICE_CHECK(of_ucx[0] != on_signal);
        make_transport();
        for (std::size_t i = 0; i < kTaken.size(); ++i)
            COPPICE_CHECK(handler_of(kTaken[i]) == of_ucx[i]);
    });
}

}  // namespace
}  // namespace coppice::testing
