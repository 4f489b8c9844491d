#include "engine/newcomers/cards.hpp"

#include <algorithm>
#include <cstring>

#include "topology/switch_path.hpp"

namespace coppice::engine {
namespace {

// Not by insert(), in which GCC 12 sees an overflow that is none.
void append(Bytes& bytes, std::span<const std::byte> run) {
    const std::size_t at = bytes.size();
    bytes.resize(at + run.size());
    std::ranges::copy(run, bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

template <class Value>
void put(Bytes& bytes, const Value& value) {
    append(bytes, std::as_bytes(std::span(&value, 1)));
}

void put_run(Bytes& bytes, std::span<const std::byte> run) {
    put(bytes, static_cast<std::uint32_t>(run.size()));
    append(bytes, run);
}

void put_text(Bytes& bytes, const std::string& text) {
    put_run(bytes, std::as_bytes(std::span(text)));
}

template <class Value>
bool get(std::span<const std::byte>& bytes, Value& value) {
    if (bytes.size() < sizeof value) return false;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes = bytes.subspan(sizeof value);
    return true;
}

bool get_run(std::span<const std::byte>& bytes, std::span<const std::byte>& run) {
    std::uint32_t length = 0;
    if (!get(bytes, length) || length > bytes.size()) return false;
    run = bytes.first(length);
    bytes = bytes.subspan(length);
    return true;
}

bool get_text(std::span<const std::byte>& bytes, std::string& text) {
    std::span<const std::byte> run;
    if (!get_run(bytes, run)) return false;
    text.assign(reinterpret_cast<const char*>(run.data()), run.size());
    return true;
}

}  // namespace

Bytes Card::bytes() const {
    Bytes bytes;
    put_text(bytes, host);
    put_text(bytes, switches);
    append(bytes, addresses);
    return bytes;
}

std::optional<Card> Card::parse(std::span<const std::byte> bytes) {
    Card card;
    if (!get_text(bytes, card.host) || !get_text(bytes, card.switches)) return std::nullopt;
    card.addresses.assign(bytes.begin(), bytes.end());
    return card;
}

Bytes Invitation::bytes() const {
    Bytes bytes;
    for (const std::string* const text : {&protocol, &library, &agreement, &transports})
        put_text(bytes, *text);
    put(bytes, token);
    put(bytes, secret.bytes);
    put(bytes, capacity);
    return bytes;
}

// Of another protocol's only the first two words are known.
std::optional<Invitation> Invitation::parse(std::span<const std::byte> bytes) {
    Invitation read;
    if (!get_text(bytes, read.protocol) || !get_text(bytes, read.library)) return std::nullopt;
    const bool is_whole = get_text(bytes, read.agreement) && get_text(bytes, read.transports) &&
                          get(bytes, read.token) && get(bytes, read.secret.bytes) && get(bytes, read.capacity) &&
                          bytes.empty();
    if (!is_whole) read.agreement.clear();
    return read;
}

Bytes Birth::bytes() const {
    Bytes bytes;
    for (const std::uint32_t number :
         {id.token, id.epoch.value, panel, most, static_cast<std::uint32_t>(members.size())})
        put(bytes, number);
    for (const Member& one : members) {
        for (const std::uint32_t number :
             {one.origin.seat.value, one.origin.incarnation, one.origin.before, one.origin.since, one.node})
            put(bytes, number);
        put(bytes, one.origin.host);
    }
    put(bytes, static_cast<std::uint32_t>(switches.size()));
    for (const std::string& path : switches)
        put_text(bytes, path);
    return bytes;
}

std::optional<Birth> Birth::parse(std::span<const std::byte> bytes) {
    Birth birth;
    std::uint32_t count = 0;
    if (!get(bytes, birth.id.token) || !get(bytes, birth.id.epoch.value) || !get(bytes, birth.panel) ||
        !get(bytes, birth.most) || !get(bytes, count))
        return std::nullopt;
    constexpr std::size_t kMember = 5 * sizeof(std::uint32_t) + sizeof(std::uint64_t);
    if (bytes.size() / kMember < count) return std::nullopt;
    birth.members.resize(count);
    for (Birth::Member& one : birth.members) {
        for (std::uint32_t* const number :
             {&one.origin.seat.value, &one.origin.incarnation, &one.origin.before, &one.origin.since, &one.node}) {
            if (!get(bytes, *number)) return std::nullopt;
        }
        if (!get(bytes, one.origin.host)) return std::nullopt;
    }
    std::uint32_t paths = 0;
    if (!get(bytes, paths) || bytes.size() / sizeof(std::uint32_t) < paths) return std::nullopt;
    birth.switches.resize(paths);
    for (std::string& path : birth.switches)
        if (!get_text(bytes, path) || !topology::check_switch_path(path)) return std::nullopt;
    const auto has_path = [paths](const Member& one) { return one.node < paths; };
    if (!bytes.empty() || (paths > 0 && !std::ranges::all_of(birth.members, has_path))) return std::nullopt;
    return birth;
}

std::vector<std::string> Birth::switches_by_node(const topology::Nodes& nodes) const {
    std::vector<std::string> paths;
    if (switches.empty()) return paths;
    paths.reserve(nodes.count());
    for (std::uint32_t node = 0; node < nodes.count(); ++node)
        paths.push_back(switches[members[nodes.members(node).front().value].node]);
    return paths;
}

}  // namespace coppice::engine
