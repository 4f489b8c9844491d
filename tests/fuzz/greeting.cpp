// The first exchange: what a rank says of itself, and the addresses of its host within.
#include "engine/formation/greeting.hpp"

#include "fuzz.hpp"
#include "transport/ip_addresses.hpp"
#include "transport/source_filter.hpp"

using namespace coppice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::vector<std::byte> blob = fuzz::exact(fuzz::Input(data, size).rest());
    const auto greeting = engine::Greeting::parse(blob);
    if (!greeting) return 0;
    // What was read is what would be written, as far as it is of this protocol.
    if (greeting->protocol == engine::Greeting::protocol_name()) {
        const std::string text = greeting->text();
        const auto again = engine::Greeting::parse(std::as_bytes(std::span(text)));
        FUZZ_CHECK(again && again->text() == text);
    }
    const auto addresses = transport::HostAddresses::parse(greeting->addresses);
    if (!addresses) return 0;
    FUZZ_CHECK(addresses->list.size() <= transport::kMostAddresses);
    FUZZ_CHECK(transport::HostAddresses::parse(addresses->text()) == addresses);
    const auto admitted = transport::Admission::of({}, std::span(&*addresses, 1));
    FUZZ_CHECK(admitted.everybody == addresses->everybody);
    if (const auto program = transport::source_filter(admitted)) FUZZ_CHECK(program->size() <= BPF_MAXINSNS);
    return 0;
}
