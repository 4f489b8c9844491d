#include "engine/presence.hpp"

#include <utility>

#include "bootstrap/launcher_witness.hpp"
#include "engine/context.hpp"

namespace coppice::engine {

std::unique_ptr<bootstrap::Presence> make_presence(const Settings& settings, const Context& context,
                                                   std::uint64_t token, bootstrap::Presence::Who self) {
    if (settings.quorum != protocol::Quorum::certain) return nullptr;
    std::shared_ptr<const bootstrap::Witness> witness = settings.witness;
    // The ranks of a simulated world are threads of one process, and not the launcher's.
    const bool is_real = context.platform() == nullptr;
    if (!witness && is_real) witness = {std::shared_ptr<void>(), bootstrap::LauncherWitness::of_this_process()};
    if (!witness) return nullptr;
    return std::make_unique<bootstrap::Presence>(std::move(witness), token, self);
}

}  // namespace coppice::engine
