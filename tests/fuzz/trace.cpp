// What processes have traced, as coppice-trace reads it and joins it, with the clocks in order. Files follow each other in the input, with
// a control character between them that is in none.
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "../../tools/coppice-trace/clocks.hpp"
#include "../../tools/coppice-trace/joined.hpp"
#include "../../tools/coppice-trace/records.hpp"
#include "fuzz.hpp"

using namespace coppice;
using trace::Order;
using trace::Record;
using trace::Trace;

namespace {

constexpr std::size_t kMostFiles = 4;
constexpr char kBetween = '\x1e';

std::vector<Trace> read_each(std::string_view text) {
    std::vector<Trace> traces;
    for (std::size_t file = 0; file < kMostFiles && !text.empty(); ++file) {
        const std::size_t end = std::min(text.find(kBetween), text.size());
        std::istringstream bytes{std::string(text.substr(0, end))};
        text.remove_prefix(std::min(end + 1, text.size()));
        try {
            traces.push_back(trace::read_trace(bytes, "file"));
        } catch (const std::runtime_error& error) {
            FUZZ_CHECK(std::string_view(error.what()).starts_with("file: "));
        }
    }
    return traces;
}

std::string operation_of(const Record& record) {
    const Record facts = record.value("args", Record::object());
    return facts.value("of", "") + ' ' + facts.value("group", "") + ' ' +
           std::to_string(facts.value("number", std::uint64_t{0}));
}

bool is_payload(const Record& record) {
    return record.at("ph") == "X" && record.value("cat", "") == "payload";
}

// Of processes with different clocks: each payload is given before it is anywhere else. Where it is said twice that one was given, nothing
// is known.
void check_causes(const std::vector<Trace>& traces, const Order& order) {
    struct Given {
        std::size_t clock;
        std::int64_t ns;
        int times;
    };
    std::map<std::string, Given> given;
    const auto for_each_payload = [&](const auto& take) {
        for (std::size_t i = 0; i < traces.size(); ++i) {
            const std::size_t clock = order.clock_of[i];
            for (const Record& record : traces[i].records)
                if (is_payload(record)) take(record, clock, trace::time_ns(record) + order.clocks[clock].offset_ns);
        }
    };
    for_each_payload([&](const Record& record, std::size_t clock, std::int64_t ns) {
        if (!record.contains("flow_out")) return;
        auto& [its_clock, its_ns, times] = given[operation_of(record)];
        its_clock = clock;
        its_ns = ns;
        ++times;
    });
    for_each_payload([&](const Record& record, std::size_t clock, std::int64_t ns) {
        const auto cause = given.find(operation_of(record));
        if (record.contains("flow_out") || cause == given.end() || cause->second.times != 1) return;
        FUZZ_CHECK(cause->second.clock == clock || cause->second.ns <= ns);
    });
}

void check_joined(std::vector<Trace>& traces, const Order& order) {
    std::vector<Record> before;
    for (const Trace& one : traces)
        before.insert(before.end(), one.records.begin(), one.records.end());
    std::ostringstream out;
    trace::join(out, traces, order);
    const Record joined = Record::parse(out.str());
    FUZZ_CHECK(joined.is_array() && joined.size() == before.size() + 2 * traces.size());
    double last = 0;
    std::multiset<std::string> left;
    const auto as_text = [](Record record) {  // what join() does not change
        record.erase("ts");
        record.erase("pid");
        return record.dump();
    };
    for (const Record& record : joined) {
        if (!record.contains("ts")) continue;
        FUZZ_CHECK(record.at("ts").get<double>() >= last);
        last = record.at("ts").get<double>();
        left.insert(as_text(record));
    }
    FUZZ_CHECK(left.size() == before.size());
    for (const Record& record : before) {
        const auto its = left.find(as_text(record));
        FUZZ_CHECK(its != left.end());
        left.erase(its);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::vector<Trace> traces = read_each(fuzz::Input(data, size).text());
    for (const Trace& one : traces) {
        FUZZ_CHECK(!one.clock.empty() && !name_of(one).empty());
        for (const Record& record : one.records)
            FUZZ_CHECK(record.at("pid") == one.pid && trace::time_ns(record) >= 0);
    }
    if (traces.empty()) return 0;
    const Order order = put_in_order(traces);
    FUZZ_CHECK(order.clock_of.size() == traces.size() && !order.clocks.empty() && order.clocks[0].offset_ns == 0);
    if (order.consistent) check_causes(traces, order);
    check_joined(traces, order);
    return 0;
}
