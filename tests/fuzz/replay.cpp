// Runs a fuzzer over files, as an ordinary program: replay FILE-OR-DIRECTORY…
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz.hpp"

namespace {

void run(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    // Of exactly this size on the heap, as libFuzzer gives it.
    const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
    std::size_t inputs = 1;
    const std::uint8_t nothing = 0;
    LLVMFuzzerTestOneInput(&nothing, 0);
    for (int i = 1; i < argc; ++i) {
        if (!std::filesystem::exists(argv[i])) {
            std::fprintf(stderr, "%s is not there\n", argv[i]);
            return 2;
        }
        if (!std::filesystem::is_directory(argv[i])) {
            run(argv[i]);
            ++inputs;
            continue;
        }
        for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
            std::printf("%s\n", entry.path().c_str());
            std::fflush(stdout);
            run(entry.path());
            ++inputs;
        }
    }
    std::printf("%zu inputs\n", inputs);
    return 0;
}
