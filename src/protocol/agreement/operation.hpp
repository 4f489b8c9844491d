// How the contributions to an agreement become one value: an associative, commutative and idempotent operation.
//
// Idempotent, because after a death a contribution may be counted twice. The built-in operations are; of a caller's own
// one this can't be checked, and where it is not the survivors still agree, on some value that depends on which ranks
// died when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace coppice::protocol {

enum class Operator : std::uint8_t { bit_and, bit_or, min, max, user };
enum class Element : std::uint8_t { u8, u16, u32, u64, i8, i16, i32, i64 };

// into = into ∘ from, both `bytes` long and aligned to eight. Called inside of the machine's events: it may not call
// back.
using Combine = void (*)(void* context, std::byte* into, const std::byte* from, std::size_t bytes);

struct Operation {
    Operator op = Operator::bit_and;
    Element element = Element::u8;  // min and max only: what the value is an array of
    Combine combine = nullptr;      // user only; the same function at every rank
    void* context = nullptr;
};

std::size_t size_of(Element element);

// Why a value of so many bytes can't be combined; nothing if it can.
std::optional<std::string_view> reason_against(const Operation& operation, std::size_t bytes);

// The operation as one byte of a message, the same for operations that give the same results. The functions of callers
// all have the same code. decode_operation() refuses what encode_operation() never gives; its `combine` is empty.
std::uint8_t encode_operation(const Operation& operation);
std::optional<Operation> decode_operation(std::uint8_t code);

// `bytes` is a multiple of the element's size.
void combine(const Operation& operation, std::byte* into, const std::byte* from, std::size_t bytes);

}  // namespace coppice::protocol
