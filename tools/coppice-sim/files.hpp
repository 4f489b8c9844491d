// Files that are there whole or not at all.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace coppice::sim {

// Writes beside `path` and renames when everything is on the disk: a program that is killed in the middle leaves what
// was there before. A sentence if that failed.
std::optional<std::string> write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace coppice::sim
