// Hosts of a network of their own for a test: namespaces with a veth each on a bridge, whose cables can be cut.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace coppice::testing {

// While it lives this process, but none that it starts, goes ahead of all that share its core, where that is allowed:
// what it does to others comes in time on a machine that is overloaded, too.
class Urgent {
  public:
    Urgent();
    Urgent(const Urgent&) = delete;
    Urgent& operator=(const Urgent&) = delete;
    ~Urgent();
};

class TestNetwork {
  public:
    // Empty: it stands. Else why there can't be one here (no rights, no `ip`).
    static std::string missing();

    explicit TestNetwork(std::uint32_t hosts);
    TestNetwork(const TestNetwork&) = delete;
    TestNetwork& operator=(const TestNetwork&) = delete;
    ~TestNetwork();

    // This process is on that host from now on.
    void join(std::uint32_t host) const;

    // The host's cable, at its own end.
    void cut(std::uint32_t host) const;
    void mend(std::uint32_t host) const;
    // Cuts so often for so long, and waits so long after each. Returns how long the longest was: where the machine is
    // overloaded it may be longer.
    std::uint64_t cut_for(std::uint32_t host, std::uint64_t time_ns, int times, std::uint64_t pause_ns) const;
    // What the host sends is lost; it still gets what others send.
    void cut_outgoing(std::uint32_t host) const;
    // The host never asks for the addresses of others any more, as behind a router: that they are lost shows by no
    // answer to that.
    void pin_addresses(std::uint32_t host) const;
    // How many connections the host's kernel keeps for a listener that is made from now on, until it takes them.
    void bound_backlog(std::uint32_t host, std::uint32_t most) const;

  private:
    void set_link(std::uint32_t host, bool up) const;
    void run(std::uint32_t host, const std::string& commands) const;

    std::vector<int> namespaces_;  // the bridge's first
};

}  // namespace coppice::testing
