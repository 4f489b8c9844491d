#include "engine/formation/greeting.hpp"

#include <fmt/format.h>

#include <bit>

#include "engine/wire/wire.hpp"

namespace coppice::engine {

std::string Greeting::protocol_name() {
    return fmt::format("coppice {} {}-bit {}", kWireVersion, 8 * sizeof(void*),
                       std::endian::native == std::endian::little ? "little-endian" : "big-endian");
}

std::string Greeting::text() const {
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n", protocol, library, agreement, transports, host,
                       nonce, addresses, wire, switches, node);
}

std::optional<Greeting> Greeting::parse(std::span<const std::byte> blob) {
    std::string_view rest(reinterpret_cast<const char*>(blob.data()), blob.size());
    Greeting greeting;
    for (std::string* field :
         {&greeting.protocol, &greeting.library, &greeting.agreement, &greeting.transports, &greeting.host,
          &greeting.nonce, &greeting.addresses, &greeting.wire, &greeting.switches, &greeting.node}) {
        const std::size_t end = rest.find('\n');
        const bool others = field != &greeting.protocol && greeting.protocol != protocol_name();
        if (end == std::string_view::npos) return others ? std::optional(greeting) : std::nullopt;
        *field = rest.substr(0, end);
        rest.remove_prefix(end + 1);
    }
    return greeting;
}

}  // namespace coppice::engine
