#include "records.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace coppice::trace {
namespace {

constexpr std::uint64_t kFormat = 1;
// What no process writes more of: of a record, and as the number of a process (Linux's PID_MAX_LIMIT).
constexpr std::size_t kLongestRecord = 4096;
constexpr std::uint64_t kMostPid = std::uint64_t{1} << 22;
// Of clocks that count from a host's start, eighteen years; of the world's, until 2116. Differences of such times, and sums of a few of
// these, stay within 64 bits.
constexpr double kLatestNs = std::uint64_t{1} << 59;
constexpr double kLatestInWorldNs = std::uint64_t{1} << 62;

// The lines of a file of one array: "[", then a record each with a comma before or behind it, then "]".
std::string_view record_of(std::string_view line) {
    const auto is_between = [](char letter) { return letter == ' ' || letter == ',' || letter == '\r'; };
    while (!line.empty() && is_between(line.front()))
        line.remove_prefix(1);
    while (!line.empty() && is_between(line.back()))
        line.remove_suffix(1);
    return line;
}

struct OfAnotherVersion : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// ------------------------------------------------------------------------------------------------------ what fits ---

// A conversion between types would take what is none: fractions, negative numbers, what is too large.
std::uint64_t whole(const Record& number, std::uint64_t most) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > most) throw std::runtime_error("a wrong number");
    return number.get<std::uint64_t>();
}

std::int64_t nanoseconds(const Record& microseconds, double latest_ns) {
    const double ns = microseconds.is_number() ? microseconds.get<double>() * 1000 : -1;
    if (!(ns >= 0 && ns <= latest_ns)) throw std::runtime_error("a wrong time");
    return std::llround(ns);
}

void check_text(const Record& object, const char* name) {
    if (object.contains(name) && !object.at(name).is_string()) throw std::runtime_error("a wrong word");
}

// All that is asked of it later (clocks.cpp, joined.cpp): nothing of that can fail then.
void check(const Trace& trace, const Record& record) {
    if (record.at("ph").get<std::string>().size() != 1 || whole(record.at("pid"), kMostPid) != trace.pid)
        throw std::runtime_error("no record of this process");
    nanoseconds(record.at("ts"), kLatestNs);
    check_text(record, "cat");
    if (record.contains("tid")) whole(record.at("tid"), UINT64_MAX);
    if (!record.contains("args")) return;
    const Record& facts = record.at("args");
    if (!facts.is_object()) throw std::runtime_error("no facts");
    check_text(facts, "of");
    check_text(facts, "group");
    if (facts.contains("number")) whole(facts.at("number"), UINT64_MAX);
    if (!facts.contains("status")) return;
    const Record& status = facts.at("status");
    const bool is_negative = status.is_number_integer() && !status.is_number_unsigned();
    if (!is_negative)
        whole(status, INT32_MAX);
    else if (status.get<std::int64_t>() < INT32_MIN)
        throw std::runtime_error("a wrong status");
}

// --------------------------------------------------------------------------------------------------- what is read ---

void take_header(Trace& trace, const Record& record) {
    if (!trace.clock.empty()) throw std::runtime_error("a second beginning");
    const Record& facts = record.at("args");
    if (whole(facts.at("format"), UINT32_MAX) != kFormat)
        throw OfAnotherVersion(fmt::format("{}: written by another version of Coppice", trace.path));
    trace.host = facts.at("host").get<std::string>();
    trace.pid = whole(record.at("pid"), kMostPid);
    trace.unix_offset_ns = nanoseconds(facts.at("unix_us"), kLatestInWorldNs) - nanoseconds(record.at("ts"), kLatestNs);
    trace.clock = facts.at("clock").get<std::string>();
}

void take(Trace& trace, Record record) {
    const std::string name = record.value("name", "");
    if (record.at("ph") == "M" && name == "coppice") return take_header(trace, record);
    if (record.at("ph") == "M" && name == "process_name") {
        if (!trace.rank) trace.rank = static_cast<std::uint32_t>(whole(record.at("args").at("rank"), UINT32_MAX - 1));
        return;
    }
    check(trace, record);
    trace.records.push_back(std::move(record));
}

void take_line(Trace& trace, std::string_view text) {
    try {
        Record record = text.size() > kLongestRecord ? Record() : Record::parse(text, nullptr, false);
        if (!record.is_object()) throw std::runtime_error("half a record");
        take(trace, std::move(record));
    } catch (const OfAnotherVersion&) {
        throw;
    } catch (const std::runtime_error&) {
        ++trace.left_out;
    } catch (const nlohmann::json::exception&) {
        ++trace.left_out;
    }
}

}  // namespace

std::int64_t time_ns(const Record& record) {
    return std::llround(record.at("ts").get<double>() * 1000);
}

void set_time_ns(Record& record, std::int64_t ns) {
    record["ts"] = static_cast<double>(ns) / 1000;
}

Trace read_trace(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(fmt::format("{}: it can't be read", path));
    return read_trace(file, path);
}

Trace read_trace(std::istream& file, const std::string& path) {
    Trace trace;
    trace.path = path;
    std::string line;
    if (!std::getline(file, line) || record_of(line) != "[")
        throw std::runtime_error(fmt::format("{}: no trace", path));
    while (std::getline(file, line)) {
        const std::string_view text = record_of(line);
        if (text.empty()) continue;
        if (text == "]") {
            trace.ended = true;
            continue;
        }
        take_line(trace, text);
        if (trace.clock.empty()) throw std::runtime_error(fmt::format("{}: no trace of Coppice", path));
    }
    if (trace.clock.empty()) throw std::runtime_error(fmt::format("{}: no trace of Coppice", path));
    return trace;
}

}  // namespace coppice::trace
