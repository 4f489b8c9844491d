// Closes the TCP listeners of a UCX worker to everybody but the job's hosts.
//
// UCX 1.13 reads a public magic from anything that connects and then trusts the lengths that follow: one that is too
// large ends the process by an assertion. It does not show its sockets, so they are found: those that came into being
// while the worker was made, listen without blocking, and whose port stands in the worker's address. A filter
// (source_filter.hpp) then drops what comes from elsewhere, and connections that were made before it was in place are ended.
//
// A port is two bytes of some hundred, so that of a listener which the application opened in the same moment may stand
// there by chance, once in about a thousand times. UCX opens one listener for an address of the host, and none for all of
// them: where two have the same, one is not UCX's, and the worker is to be made anew. What is left: a listener of the
// application's at an address at which UCX has none.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "transport/ip_addresses.hpp"

namespace coppice::transport::ucx {

class Listeners {
  public:
    // Before the worker is made: notes the sockets that there are.
    Listeners();

    // After it, and before anybody is told its address. How many listeners there are; `open` says why not all of them are
    // closed to strangers, and is empty otherwise. `doubtful`: listeners of somebody else look like the worker's, and nothing
    // was done; `even_in_doubt`, all of them are closed.
    struct Closed {
        unsigned listeners = 0;
        std::string open{};
        bool doubtful = false;
        std::vector<int> sockets{};  // that have a filter
    };
    Closed close_to_strangers(std::span<const std::byte> worker_address, const Admission& admitted,
                              bool even_in_doubt = false) const;

    // Lets in others by such sockets. Why they are not closed to strangers any more; empty: they are.
    static Result<std::string> admit(std::span<const int> sockets, const Admission& admitted);

  private:
    std::vector<int> new_sockets() const;
    std::vector<int> listening(std::span<const std::byte> worker_address) const;

    bool known_ = false;
    std::set<ino_t> before_;
};

}  // namespace coppice::transport::ucx
