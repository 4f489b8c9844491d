// Reading what processes have traced (src/trace/recorder.hpp): a record a line, of processes that may have been killed.
#pragma once

#include <cstdint>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace coppice::trace {

using Record = nlohmann::ordered_json;

// What one process has traced.
struct Trace {
    std::string path;
    std::string host, clock;
    std::uint64_t pid = 0;
    std::optional<std::uint32_t> rank;  // in its first group
    std::int64_t unix_offset_ns = 0;    // from its clock to that of the world, as it was when it began
    std::vector<Record> records;
    bool ended = false;          // its context was destroyed
    std::uint64_t left_out = 0;  // lines that are no record, whole and of this process
};

// Throws std::runtime_error, in words, for what is no trace. What the records say of times and operations is of the right kind and
// within bounds; the rest is as it was found.
Trace read_trace(const std::string& path);
Trace read_trace(std::istream& file, const std::string& path);

std::int64_t time_ns(const Record& record);
void set_time_ns(Record& record, std::int64_t ns);

}  // namespace coppice::trace
