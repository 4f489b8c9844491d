// What the user asked of coppice-run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hosts.hpp"

namespace coppice::run {

// Something done to a rank, to a host's cable, or to what joins the hosts, on purpose.
struct Fault {
    enum class Kind : std::uint8_t { kill, stop, cut, part };
    Kind kind = Kind::kill;
    std::uint32_t rank = 0;  // of a cut: the host
    HostSet side{};          // of a parting: the hosts of one side, and those of the other
    HostSet other_side{};
    std::uint64_t at_ns = 0;
    enum class Origin : std::uint8_t {
        automatic,  // "3@5ms": from the first complete exchange, or from the start if there seems to be none
        start,      // "3@start+5ms": from the start of the ranks
        joined,     // "3@joined+5ms": from the first complete exchange, however late it is
    };
    Origin origin = Origin::automatic;
    std::optional<std::uint64_t> duration_ns;  // of a stop; without, until all other ranks have ended. Of cuts
};

// Processes that are started while the others run.
struct LateStart {
    std::uint32_t count = 0;
    std::uint64_t at_ns = 0;
    Fault::Origin origin = Fault::Origin::automatic;
};

// Those that are cut off for no longer keep their places.
inline constexpr std::uint64_t kHarmlessCutNs = 2'000'000'000;

struct Options {
    std::uint32_t ranks = 0;
    std::optional<std::uint32_t> respawns;  // ranks that were killed are started again, each so often at most
    std::uint32_t spares = 0;               // started with the ranks, to wait until they are taken in
    std::vector<LateStart> joins;
    std::uint32_t hosts = 0;           // 0: all ranks on this host
    std::uint32_t leaves = 0;          // 0: one bridge joins all hosts
    std::vector<std::string> devices;  // host k uses the k-th RDMA device; empty: hosts are network namespaces
    std::vector<Fault> faults;         // those of whole hosts one by one
    std::optional<std::uint64_t> timeout_ns;
    bool count_links = false;
    std::uint64_t operations = 0;  // that what is counted is divided by, too; 0: not
    bool tag_output = false;
    bool bind_to_cores = true;
    std::vector<std::string> command;

    // Processes may come to the group that the ranks make.
    bool admits() const { return respawns || spares > 0 || !joins.empty(); }
    // Where all cuts in sides are between the same two: one of them.
    HostSet far_side() const;
    // How many a group should have when all that was asked for has happened; 0: some are cut off for long, and the others go on.
    std::uint32_t members_at_the_end() const;
    // Numbers of processes beyond the ranks'.
    std::uint32_t late_numbers() const {
        std::uint32_t count = spares;
        for (const LateStart& join : joins)
            count += join.count;
        return count;
    }
};

// "rank 3 had ended before it could be killed at 300 ms".
std::string describe_too_late(const Fault& fault);

// "0,1" or "2,3,4".
std::string list_hosts(const HostSet& hosts);

// "300 ms", "1.5 s": for messages, to the microsecond.
std::string format_duration(std::uint64_t duration_ns);

struct ParseResult {
    std::optional<Options> options;
    int exit_code = 0;  // when there are no options: help or version was printed (0), or an error (2)
};
ParseResult parse_options(int argc, char** argv);

}  // namespace coppice::run
