#include "records.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace coppice::trace {
namespace {

constexpr std::uint32_t kFormat = 1;

// The lines of a file of one array: "[", then a record each with a comma before or behind it, then "]".
std::string_view record_of(std::string_view line) {
    const auto is_between = [](char letter) { return letter == ' ' || letter == ',' || letter == '\r'; };
    while (!line.empty() && is_between(line.front()))
        line.remove_prefix(1);
    while (!line.empty() && is_between(line.back()))
        line.remove_suffix(1);
    return line;
}

void take_header(Trace& trace, const Record& record) {
    const Record& facts = record.at("args");
    if (facts.at("format").get<std::uint32_t>() != kFormat)
        throw std::runtime_error(fmt::format("{}: written by another version of Coppice", trace.path));
    trace.host = facts.at("host").get<std::string>();
    trace.clock = facts.at("clock").get<std::string>();
    trace.pid = record.at("pid").get<std::uint64_t>();
    trace.unix_offset_ns = std::llround(facts.at("unix_us").get<double>() * 1000) - time_ns(record);
}

void take(Trace& trace, Record record) {
    const std::string phase = record.at("ph").get<std::string>();
    const std::string name = record.value("name", "");
    if (phase == "M" && name == "coppice") return take_header(trace, record);
    if (phase == "M" && name == "process_name") {
        const Record& facts = record.at("args");
        if (!trace.rank) {
            trace.rank = facts.at("rank").get<std::uint32_t>();
            const std::string text = facts.at("name").get<std::string>();
            const auto last = text.rfind(' ');
            if (last != std::string::npos) trace.ranks = static_cast<std::uint32_t>(std::stoul(text.substr(last + 1)));
        }
        return;
    }
    if (phase.size() != 1 || !record.at("ts").is_number() || record.at("pid").get<std::uint64_t>() != trace.pid)
        throw std::runtime_error("no record of this process");
    trace.records.push_back(std::move(record));
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
        Record record = Record::parse(text, nullptr, false);
        try {
            if (!record.is_object()) throw std::runtime_error("half a record");
            take(trace, std::move(record));
        } catch (const nlohmann::json::exception&) {
            ++trace.left_out;
        } catch (const std::runtime_error&) {
            if (trace.clock.empty()) throw;
            ++trace.left_out;
        }
        if (trace.clock.empty()) throw std::runtime_error(fmt::format("{}: no trace of Coppice", path));
    }
    if (trace.clock.empty()) throw std::runtime_error(fmt::format("{}: no trace of Coppice", path));
    return trace;
}

}  // namespace coppice::trace
