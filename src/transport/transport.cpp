#include "transport/transport.hpp"

namespace coppice::transport {

Counters& Counters::operator+=(const Counters& other) {
    sends += other.sends;
    writes += other.writes;
    reads += other.reads;
    received += other.received;
    garbage += other.garbage;
    refused += other.refused;
    connections += other.connections;
    doorbells += other.doorbells;
    work_requests += other.work_requests;
    signalled += other.signalled;
    probes += other.probes;
    busy_polls += other.busy_polls;
    copies += other.copies;
    registrations += other.registrations;
    return *this;
}

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
