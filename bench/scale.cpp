// What one rank of a large group needs: forms it alone, with an exchange that plays the others.
//
//   scale [RANKS [RANK]]     by default rank 1 of 65,536, a host for each, on a fat tree, over tcp
//
// Prints one line: how long forming took, and how much more of the process is resident when what forming needed for itself has been given
// back. The others are words only: each has a host, a leaf switch, an address and a port of its own. The addresses are loopback's, where
// nobody listens, so nothing that the rank sends to its neighbours leaves the machine.
#include <coppice/coppice.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "bootstrap/piece.hpp"
#include "engine/formation/greeting.hpp"
#include "engine/wire/address_list.hpp"
#include "transport/ip_addresses.hpp"
#include "transport/tcp/address.hpp"

namespace {

using namespace coppice;

struct Played {
    std::uint32_t rank = 0;
    std::uint32_t ranks = 0;
    std::uint32_t calls = 0;
};

// `net`: 127 is where it is connected to; a greeting has no such addresses, and those of 198.18.0.0/15 are nobody's (RFC 2544).
transport::IpAddress address_of(std::uint32_t rank, std::uint8_t net) {
    transport::IpAddress address;
    address.bytes = {net, static_cast<std::uint8_t>(18 + (rank >> 16)), static_cast<std::uint8_t>(rank >> 8),
                     static_cast<std::uint8_t>(rank)};
    return address;
}

// A fat tree of switches of 64 ports.
std::string switches_of(std::uint32_t rank) {
    return fmt::format("pod{}/leaf{}", rank / 1024, rank / 32);
}

std::string greeting_of(std::uint32_t rank, engine::Greeting greeting) {
    greeting.host = fmt::format("{}-{:07}", greeting.host, rank);
    greeting.node = fmt::format("node{:06}", rank);
    greeting.nonce = fmt::format("{:032x}", rank);
    greeting.switches = switches_of(rank);
    greeting.addresses = transport::HostAddresses{.list = {address_of(rank, 198)}}.text();
    return greeting.text();
}

std::vector<std::byte> address_list_of(std::uint32_t rank) {
    transport::tcp::Endpoint endpoint;
    const transport::IpAddress address = address_of(rank, 127);
    endpoint.ip = address.bytes;
    endpoint.port = static_cast<std::uint16_t>(40000 + rank % 1000);
    std::vector<std::byte> all;
    engine::append_address(all, "tcp", transport::tcp::pack_address({&endpoint, 1}, 0));
    return all;
}

// An allgather in which everybody else says what this rank says, of itself.
int play(void* argument, const void* mine, std::size_t bytes, void* all) {
    Played& played = *static_cast<Played*>(argument);
    const std::uint32_t call = played.calls++;
    bootstrap::PieceHeader header;
    std::memcpy(&header, mine, sizeof header);
    const auto* const own = static_cast<const std::byte*>(mine) + sizeof header;
    const auto greeting = engine::Greeting::parse({own, header.bytes});
    if (header.bytes + sizeof header > bytes || (call == 0 && !greeting)) return 1;
    for (std::uint32_t rank = 0; rank < played.ranks; ++rank) {
        auto* const place = static_cast<std::byte*>(all) + std::size_t{rank} * bytes;
        std::memcpy(place, mine, bytes);
        if (rank == played.rank || call > 1) {
            std::memcpy(place + offsetof(bootstrap::PieceHeader, rank), &rank, sizeof rank);
            continue;
        }
        std::vector<std::byte> theirs = address_list_of(rank);
        if (call == 0) {
            const std::string text = greeting_of(rank, *greeting);
            const auto raw = std::as_bytes(std::span(text));
            theirs.assign(raw.begin(), raw.end());
        }
        if (theirs.size() + sizeof header > bytes) return 1;
        bootstrap::PieceHeader piece = header;
        piece.rank = rank;
        piece.bytes = static_cast<std::uint32_t>(theirs.size());
        std::memcpy(place, &piece, sizeof piece);
        std::memcpy(place + sizeof piece, theirs.data(), theirs.size());
    }
    return 0;
}

// KiB, of a line of /proc/self/status.
std::uint64_t status_kib(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(name)) return std::stoull(line.substr(name.size()));
    return 0;
}

double resident_mib() {
    malloc_trim(0);
    return static_cast<double>(status_kib("VmRSS:")) / 1024;
}

void check(coppice_status_t status) {
    if (status == COPPICE_OK) return;
    std::fprintf(stderr, "scale: %s\n", coppice_last_error());
    std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
    const auto ranks = static_cast<std::uint32_t>(bench::argument(argc, argv, 1, 65536, 2, 131072));
    Played played{.rank = static_cast<std::uint32_t>(bench::argument(argc, argv, 2, 1, 0, ranks - 1)), .ranks = ranks};
    setenv("COPPICE_TRANSPORT", "tcp", 1);
    setenv("COPPICE_SWITCHES", switches_of(played.rank).c_str(), 1);
    coppice_context_t* context = nullptr;
    check(coppice_context_create(nullptr, &context));
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = play;
    options.exchange_argument = &played;
    options.rank = played.rank;
    options.size = ranks;
    const double before = resident_mib();
    const auto began = std::chrono::steady_clock::now();
    coppice_group_t* group = nullptr;
    check(coppice_group_create(context, &options, &group));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    const double kept = resident_mib() - before;
    std::printf("ranks %u rank %u seconds %.3f resident_mib %.2f\n", ranks, played.rank, took.count(), kept);
    std::fflush(stdout);
    _exit(0);  // nobody is there who would take a goodbye
}
