#include "protocol/agreement/operation.hpp"

#include <algorithm>
#include <cstring>

namespace coppice::protocol {
namespace {

constexpr std::uint8_t kElements = 8;

// Values lie at any address: loads and stores go through memcpy, which compilers turn into plain ones.
template <class Number, class Function>
void each(std::byte* into, const std::byte* from, std::size_t bytes, Function&& function) {
    for (std::size_t at = 0; at + sizeof(Number) <= bytes; at += sizeof(Number)) {
        Number a{};
        Number b{};
        std::memcpy(&a, into + at, sizeof(Number));
        std::memcpy(&b, from + at, sizeof(Number));
        a = static_cast<Number>(function(a, b));
        std::memcpy(into + at, &a, sizeof(Number));
    }
}

template <class Function>
void bitwise(std::byte* into, const std::byte* from, std::size_t bytes, Function&& function) {
    const std::size_t whole = bytes & ~std::size_t{7};
    each<std::uint64_t>(into, from, whole, function);
    each<std::uint8_t>(into + whole, from + whole, bytes - whole, function);
}

template <class Number>
void extreme(bool largest, std::byte* into, const std::byte* from, std::size_t bytes) {
    if (largest) {
        each<Number>(into, from, bytes, [](Number a, Number b) { return std::max(a, b); });
    } else {
        each<Number>(into, from, bytes, [](Number a, Number b) { return std::min(a, b); });
    }
}

}  // namespace

std::size_t size_of(Element element) {
    return std::size_t{1} << (static_cast<unsigned>(element) & 3U);
}

std::optional<std::string_view> reason_against(const Operation& operation, std::size_t bytes) {
    switch (operation.op) {
        case Operator::bit_and:
        case Operator::bit_or:
            return std::nullopt;
        case Operator::min:
        case Operator::max:
            if (static_cast<std::uint8_t>(operation.element) >= kElements) return "there is no such element type";
            if (bytes % size_of(operation.element) != 0) return "the value is not a whole number of elements";
            return std::nullopt;
        case Operator::user:
            if (operation.combine == nullptr) return "an operation of one's own needs a function";
            return std::nullopt;
    }
    return "there is no such operation";
}

std::uint8_t encode_operation(const Operation& operation) {
    const bool typed = operation.op == Operator::min || operation.op == Operator::max;
    const auto element = typed ? static_cast<std::uint8_t>(operation.element) : std::uint8_t{0};
    return static_cast<std::uint8_t>(static_cast<std::uint8_t>(operation.op) << 4 | element);
}

std::optional<Operation> decode_operation(std::uint8_t code) {
    const auto op = static_cast<Operator>(code >> 4);
    const auto element = static_cast<Element>(code & 0x0f);
    const Operation operation{op, element, nullptr, nullptr};
    if (op > Operator::user || static_cast<std::uint8_t>(element) >= kElements) return std::nullopt;
    if (encode_operation(operation) != code) return std::nullopt;
    return operation;
}

void combine(const Operation& operation, std::byte* into, const std::byte* from, std::size_t bytes) {
    const bool largest = operation.op == Operator::max;
    switch (operation.op) {
        case Operator::bit_and:
            return bitwise(into, from, bytes, [](auto a, auto b) { return a & b; });
        case Operator::bit_or:
            return bitwise(into, from, bytes, [](auto a, auto b) { return a | b; });
        case Operator::user:
            return operation.combine(operation.context, into, from, bytes);
        case Operator::min:
        case Operator::max:
            break;
    }
    switch (operation.element) {
        case Element::u8:
            return extreme<std::uint8_t>(largest, into, from, bytes);
        case Element::u16:
            return extreme<std::uint16_t>(largest, into, from, bytes);
        case Element::u32:
            return extreme<std::uint32_t>(largest, into, from, bytes);
        case Element::u64:
            return extreme<std::uint64_t>(largest, into, from, bytes);
        case Element::i8:
            return extreme<std::int8_t>(largest, into, from, bytes);
        case Element::i16:
            return extreme<std::int16_t>(largest, into, from, bytes);
        case Element::i32:
            return extreme<std::int32_t>(largest, into, from, bytes);
        case Element::i64:
            return extreme<std::int64_t>(largest, into, from, bytes);
    }
}

}  // namespace coppice::protocol
