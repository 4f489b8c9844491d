#include "bootstrap/choose.hpp"

#include "bootstrap/callback.hpp"
#include "bootstrap/launcher.hpp"

namespace coppice::bootstrap {

Result<std::unique_ptr<Bootstrap>> choose(coppice_exchange_fn exchange, void* argument, Rank rank, std::uint32_t size,
                                          std::uint64_t deadline_ns) {
    if (exchange != nullptr) {
        auto made = CallbackBootstrap::create(exchange, argument, rank, size);
        if (!made) return tl::unexpected(made.error());
        return std::unique_ptr<Bootstrap>(std::move(*made));
    }
    auto environment = read_launcher_environment();
    if (!environment) return tl::unexpected(environment.error());
    if (!*environment) {
        return fail(COPPICE_ERR_BOOTSTRAP,
                    "this process was not started by coppice-run and gave no exchange callback, so it cannot "
                    "find the "
                    "other ranks: start it as `coppice-run -n 8 PROGRAM`, or set "
                    "coppice_group_options_t.exchange, rank "
                    "and size");
    }
    auto made = LauncherBootstrap::create(**environment, deadline_ns);
    if (!made) return tl::unexpected(made.error());
    return std::unique_ptr<Bootstrap>(std::move(*made));
}

}  // namespace coppice::bootstrap
