#include "bootstrap/choose.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "bootstrap/callback.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/pmi.hpp"
#include "bootstrap/pmix.hpp"
#include "bootstrap/store.hpp"

namespace coppice::bootstrap {
namespace {

bool has_coppice_run() {
    return std::getenv("COPPICE_RANK") != nullptr || std::getenv("COPPICE_SIZE") != nullptr ||
           std::getenv("COPPICE_LAUNCHER") != nullptr;
}

using Ranks = std::span<const std::uint32_t>;

Result<std::unique_ptr<Bootstrap>> connect_to_coppice_run(Ranks ranks, std::uint64_t deadline_ns) {
    auto environment = read_launcher_environment();
    if (!environment) return tl::unexpected(environment.error());
    auto made = LauncherBootstrap::create(**environment, deadline_ns, ranks);
    if (!made) return tl::unexpected(made.error());
    return std::unique_ptr<Bootstrap>(std::move(*made));
}

Result<std::unique_ptr<Bootstrap>> over(Result<std::unique_ptr<Store>> store, Ranks ranks) {
    if (!store) return tl::unexpected(std::move(store.error()));
    auto made = StoreBootstrap::create(std::move(*store), ranks);
    if (!made) return tl::unexpected(std::move(made.error()));
    return std::unique_ptr<Bootstrap>(std::move(*made));
}

struct Launcher {
    std::string_view name;
    std::string_view variable;  // that shows it
    bool (*is_here)();
    Result<std::unique_ptr<Bootstrap>> (*connect)(Ranks ranks, std::uint64_t deadline_ns);
};
constexpr std::array kLaunchers{
    Launcher{"coppice-run", "COPPICE_LAUNCHER", has_coppice_run, connect_to_coppice_run},
    Launcher{"pmix", "PMIX_RANK", has_pmix_environment,
             [](Ranks ranks, std::uint64_t deadline_ns) { return over(connect_to_pmix(deadline_ns), ranks); }},
    Launcher{"pmi", "PMI_FD", has_pmi_environment,
             [](Ranks ranks, std::uint64_t deadline_ns) { return over(connect_to_pmi(deadline_ns), ranks); }},
};

const Launcher* find(std::string_view name) {
    const auto* const found = std::ranges::find(kLaunchers, name, &Launcher::name);
    return found == kLaunchers.end() ? nullptr : found;
}

}  // namespace

Result<std::optional<std::string_view>> launcher_here(std::string_view wanted) {
    if (const Launcher* const one = find(wanted)) {
        if (one->is_here()) return std::optional(one->name);
        return fail(COPPICE_ERR_CONFIG,
                    "COPPICE_BOOTSTRAP={}, but such a launcher has not started this process: {} is not set", wanted,
                    one->variable);
    }
    std::optional<std::string_view> found;
    for (const Launcher& one : kLaunchers) {
        if (!one.is_here()) continue;
        if (found) {
            return fail(
                COPPICE_ERR_CONFIG,
                "this process has the variables of two launchers, {} ({}) and {} ({}): say which one is meant, by "
                "COPPICE_BOOTSTRAP={} or {}",
                *found, find(*found)->variable, one.name, one.variable, *found, one.name);
        }
        found = one.name;
    }
    return found;
}

Result<std::unique_ptr<Bootstrap>> choose(coppice_exchange_fn exchange, void* argument, Rank rank, std::uint32_t size,
                                          std::string_view wanted, std::uint64_t deadline_ns, Ranks ranks) {
    if (exchange != nullptr) {
        auto made = CallbackBootstrap::create(exchange, argument, rank, size, ranks);
        if (!made) return tl::unexpected(made.error());
        return std::unique_ptr<Bootstrap>(std::move(*made));
    }
    const auto launcher = launcher_here(wanted);
    if (!launcher) return tl::unexpected(launcher.error());
    if (*launcher) return find(**launcher)->connect(ranks, deadline_ns);
    return fail(
        COPPICE_ERR_BOOTSTRAP,
        "no launcher has started this process, so it cannot find the other ranks: start it as `coppice-run -n 8 "
        "PROGRAM`; or by a launcher that speaks PMIx or PMI (mpirun, srun --mpi=pmix or pmi2, mpiexec.hydra); or "
        "set coppice_group_options_t.exchange, rank and size");
}

}  // namespace coppice::bootstrap
