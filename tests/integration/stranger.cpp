// Three processes on three hosts: two are ranks of a group, the third is none and calls their listeners to end them.
//
//     coppice-run -n 3 --hosts 3 stranger DIRECTORY
//
// The directory is empty; through it the ranks exchange what they must, and the third learns where they listen, as it
// would from a port scan. Each rank says "rank N lives" when the group has worked before and after the attack, the
// third "connected to C of L listeners".
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "coppice/coppice.h"
#include "support/ucx_listener.hpp"

namespace {

using coppice::testing::listening_ports;
using coppice::testing::strike_listener;

std::string directory;

void write_file(const std::string& name, const std::string& text) {
    const std::string path = directory + "/" + name;
    std::ofstream(path + ".part", std::ios::binary) << text;
    std::filesystem::rename(path + ".part", path);
}

std::string await_file(const std::string& name) {
    const std::string path = directory + "/" + name;
    while (!std::filesystem::exists(path))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

int exchange(void* argument, const void* mine, size_t bytes, void* all) {
    static int round = 0;
    const int rank = *static_cast<const int*>(argument);
    const auto name = [](int of) { return "exchange" + std::to_string(round) + "." + std::to_string(of); };
    write_file(name(rank), {static_cast<const char*>(mine), bytes});
    for (int of = 0; of < 2; ++of)
        await_file(name(of)).copy(static_cast<char*>(all) + static_cast<std::size_t>(of) * bytes, bytes);
    ++round;
    return 0;
}

bool works(coppice_group_t* group, std::uint32_t rank) {
    for (std::uint32_t i = 0; i < 20; ++i) {
        const std::uint32_t root = i % 2;
        std::uint32_t value = rank == root ? i + 1000 : 0;
        size_t size = 0;
        if (coppice_broadcast(group, &value, sizeof value, root, &size, COPPICE_NO_TIMEOUT) != COPPICE_OK ||
            value != i + 1000)
            return false;
    }
    return true;
}

int be_rank(int rank) {
    coppice_context_t* context = nullptr;
    coppice_group_t* group = nullptr;
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = &exchange;
    options.exchange_argument = &rank;
    options.rank = static_cast<std::uint32_t>(rank);
    options.size = 2;
    const bool good = coppice_context_create(nullptr, &context) == COPPICE_OK &&
                      coppice_group_create(context, &options, &group) == COPPICE_OK && works(group, options.rank);
    std::string ports;
    for (const auto port : listening_ports())
        ports += std::to_string(port) + "\n";
    write_file("listeners." + std::to_string(rank), ports);
    await_file("struck");
    if (!good || !works(group, options.rank) || coppice_group_destroy(group, COPPICE_NO_TIMEOUT) != COPPICE_OK) {
        std::printf("rank %d: %s\n", rank, coppice_last_error());
        return 1;
    }
    std::printf("rank %d lives\n", rank);
    return coppice_context_destroy(context) == COPPICE_OK ? 0 : 1;
}

int be_stranger() {
    int listeners = 0;
    int connected = 0;
    for (int rank = 0; rank < 2; ++rank) {
        std::string ports = await_file("listeners." + std::to_string(rank));
        for (std::size_t end = 0; (end = ports.find('\n')) != std::string::npos; ports.erase(0, end + 1)) {
            const int caller = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
            sockaddr_in to{};
            to.sin_family = AF_INET;
            to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(ports)));
            to.sin_addr.s_addr = htonl(0x0A630001U + static_cast<std::uint32_t>(rank));  // 10.99.0.1, 10.99.0.2
            ++listeners;
            connected += strike_listener(caller, to) ? 1 : 0;
        }
    }
    write_file("struck", "");
    std::printf("connected to %d of %d listeners\n", connected, listeners);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const char* rank = std::getenv("COPPICE_RANK");
    if (argc != 2 || rank == nullptr) return 2;
    directory = argv[1];
    return std::atoi(rank) < 2 ? be_rank(std::atoi(rank)) : be_stranger();
}
