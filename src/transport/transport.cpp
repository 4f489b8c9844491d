#include "transport/transport.hpp"

namespace coppice::transport {

std::string_view to_string(FailureCause cause) {
    switch (cause) {
        case FailureCause::obituary:
            return "obituary";
        case FailureCause::process_gone:
            return "process gone";
        case FailureCause::transport_error:
            return "transport error";
        case FailureCause::notice:
            return "notice";
        case FailureCause::fenced:
            return "fenced";
    }
    return "unknown";
}

}  // namespace coppice::transport
