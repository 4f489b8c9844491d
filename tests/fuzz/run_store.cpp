// DIR/runs.jsonl, from which coppice-sim reproduce goes on.
#include "reproduce/store.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fuzz.hpp"

using namespace coppice;

namespace {

struct Directory {
    Directory() {
        char name[] = "/tmp/coppice-fuzz-XXXXXX";
        FUZZ_CHECK(::mkdtemp(name) != nullptr);
        path = name;
    }
    ~Directory() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Directory directory;
    {
        std::ofstream file(directory.path / "runs.jsonl", std::ios::binary | std::ios::trunc);
        file << "{\"coppice-sim\":\"" COPPICE_PROJECT_VERSION "\"}\n";
        file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    }
    std::uintmax_t left = 0;
    {
        const auto store = sim::Store::open(directory.path);
        if (!store) {
            FUZZ_CHECK(!store.error().empty());
            return 0;
        }
        left = std::filesystem::file_size(directory.path / "runs.jsonl");
    }
    // The torn end is gone for good.
    const auto again = sim::Store::open(directory.path);
    FUZZ_CHECK(again && std::filesystem::file_size(directory.path / "runs.jsonl") == left);
    return 0;
}
