// Plain numbers from the command line for the small programs here; a bad one ends the program with 2.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace bench {

inline std::uint64_t argument(int argc, char** argv, int index, std::uint64_t otherwise, std::uint64_t least,
                              std::uint64_t most) {
    if (index >= argc) return otherwise;
    char* end = nullptr;
    errno = 0;
    const unsigned long long value = std::strtoull(argv[index], &end, 10);
    if (errno != 0 || *argv[index] < '0' || *argv[index] > '9' || *end != '\0' || value < least || value > most) {
        std::fprintf(stderr, "%s: argument %d is \"%s\"; a number from %llu to %llu is wanted\n", argv[0], index,
                     argv[index], static_cast<unsigned long long>(least), static_cast<unsigned long long>(most));
        std::exit(2);
    }
    return value;
}

}  // namespace bench
