// Reads a file that says where hosts are (topology/network_file.hpp).
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "topology/network_file.hpp"

namespace coppice::engine {

// What stands in it; a sentence with the file's name if it cannot be read. A longer one than is allowed is cut off.
inline tl::expected<std::string, std::string> network_text(const std::string& path) {
    const auto close = [](std::FILE* file) { std::fclose(file); };
    const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
    if (!file) return tl::unexpected(path + ": " + std::strerror(errno));
    std::string text;
    char piece[1 << 16];
    for (std::size_t size = 1; size > 0 && text.size() <= topology::kMaxNetworkText;) {
        size = std::fread(piece, 1, sizeof piece, file.get());
        text.append(piece, size);
    }
    if (std::ferror(file.get()) != 0) return tl::unexpected(path + ": " + std::strerror(errno));
    return text;
}

// A sentence with the file's name, and where it helps the line, if it cannot be read.
inline tl::expected<topology::NetworkFile, std::string> read_network(const std::string& path) {
    const auto text = network_text(path);
    if (!text) return tl::unexpected(text.error());
    return topology::parse_network_file(*text, path);
}

}  // namespace coppice::engine
