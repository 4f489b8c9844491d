#include "engine/collectives/barrier/barrier.hpp"

#include <fmt/format.h>

namespace coppice::engine {
namespace {

constexpr const char* kName = "barrier";

}  // namespace

Result<void> Barrier::start(Request& request) {
    if (auto started = agreement_.start({}, request); !started) return started;
    request.collective = this;
    return {};
}

bool Barrier::peek(Request& request) {
    if (!agreement_.peek(request)) return false;
    if (request.message.starts_with(kName)) return true;  // an end that was looked at before
    if (request.status == COPPICE_ERR_PEER_FAILED) {
        request.message =
            fmt::format("{}: all live ranks have entered, but not every rank had acknowledged that {} failed", kName,
                        rank_names(*request.agreed));
    } else if (request.status != COPPICE_OK) {
        request.message = fmt::format("{}: {}", kName, request.message);
    }
    return true;
}

std::string Barrier::waiting_for(const Request& request) const {
    return fmt::format("{}: {}", kName, agreement_.waiting_for(request));
}

}  // namespace coppice::engine
