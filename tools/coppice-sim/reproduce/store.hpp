// What has been run already, in DIR/runs.jsonl: a line for each finished part, added when it is finished. A program
// that is killed in the middle of a line loses that part only: the torn line is cut off when work goes on. Parts are of
// any length, so that those of a point may be put together in one line (NAME.runs.jsonl) and work goes on from there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "reproduce/cell.hpp"

namespace coppice::sim {

class Store {
  public:
    // Makes the directory where it is missing and reads what is there. An error in words when it can't be written, when
    // another process is at work in it, when it was made by another version, or when a line is damaged.
    static tl::expected<std::unique_ptr<Store>, std::string> open(const std::filesystem::path& directory);
    ~Store();
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    // The figures of a part, whose seeds and runs are the cell's. Null if it was not run yet.
    const Figures* find(const Cell& part) const;
    // How many broadcasts the longest stored part of this cell has that starts with its first seed and has no more runs
    // than it; 0 if there is none.
    std::uint64_t longest(const Cell& cell) const;
    // Adds it, also on the disk. A sentence if that failed.
    std::optional<std::string> add(const Cell& part, Figures figures);

    // A file of this kind with these parts.
    static std::string text_of(const std::vector<std::pair<Cell, const Figures*>>& parts);

  private:
    using Start = std::pair<std::string, std::uint64_t>;  // cell, first seed

    Store(std::filesystem::path path, int file) : path_(std::move(path)), file_(file) {}
    static Start start(const Cell& part) { return {part.key(), part.first_seed}; }
    std::optional<std::string> load();
    std::optional<std::string> read_line(const std::string& line, std::size_t number);
    std::optional<std::string> append(const std::string& line);

    std::filesystem::path path_;
    int file_;
    std::map<Start, std::map<std::uint64_t, Figures>> parts_;  // by runs
};

}  // namespace coppice::sim
