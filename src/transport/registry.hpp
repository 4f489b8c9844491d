// The transports that are compiled in. Each registers its name, its settings and how it is made (NAME/registration.cpp); the
// table of them is written by the build, in the order in which they are tried for a peer. The engine names none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/setting.hpp"
#include "base/words.hpp"
#include "transport/host_memory.hpp"
#include "transport/ip_addresses.hpp"
#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace coppice::transport {

// What a transport is told of the group, and of the rank, that it is made for.
struct GroupFacts {
    Seat self{};
    std::uint32_t incarnation = 0;  // of this rank: how many processes had its number before
    std::uint32_t group_size = 2;
    std::uint64_t group_token = 1;  // the same at all ranks of the group, and nowhere else
    GroupSecret secret{};           // likewise
    std::uint32_t window = 32;
    std::string host{};                   // COPPICE_HOST
    std::uint32_t local_ranks = 2;        // of the group, on this host
    bool has_far_ranks = true;            // on other hosts
    std::optional<Admission> admitted{};  // who may connect; none: anybody
    std::span<const Region> regions{};    // of the memory that ranks of one host show to each other
};

struct Made {
    std::unique_ptr<Transport> transport;
    HostMemory* host_memory = nullptr;  // the same one, where it shares memory
};

// A transport whose settings have been read. Shared by all groups of a context.
class Maker {
  public:
    virtual ~Maker() = default;
    // Opens what it needs, and connects to nobody. COPPICE_ERR_NO_TRANSPORT where this host has not got what it takes: the error
    // says what, and how to get it.
    virtual Result<Made> make(const GroupFacts& group) const = 0;
    // Whether GroupFacts::admitted is of use to it, and so what the ranks' greetings have to tell of their hosts.
    virtual HostAddresses addresses() const { return {}; }
};

struct Registration {
    std::string_view name;
    // Ranks of one host alone, by shared memory; else ranks of any host.
    bool within_host = false;
    // With COPPICE_TRANSPORT = auto: for which peers it is meant ("between hosts with RDMA devices"), and whether this host is one
    // of theirs. Empty: it is used on request alone.
    std::string_view by_default_for{};
    bool (*probe)() = nullptr;
    std::span<const SettingInfo> settings{};
    Result<std::shared_ptr<const Maker>> (*read)(const SettingTexts& texts) = nullptr;

    bool is_default() const { return !by_default_for.empty(); }
};

std::span<const Registration* const> registered();
// "shm, verbs, ucx, tcp"
std::string registered_names();

}  // namespace coppice::transport
