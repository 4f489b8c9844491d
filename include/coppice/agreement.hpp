// What an agreement does with values. Programs include <coppice/coppice.hpp>, of which this is a part.
#pragma once

#include <coppice/agreement.h>

#include <concepts>
#include <type_traits>

namespace coppice {
inline namespace v0 {

enum class Operation : int {
    kAnd = COPPICE_AND,
    kOr = COPPICE_OR,
    kMin = COPPICE_MIN,
    kMax = COPPICE_MAX,
    kCombine = COPPICE_COMBINE,
};
enum class Type : int {
    kUint8 = COPPICE_UINT8,
    kUint16 = COPPICE_UINT16,
    kUint32 = COPPICE_UINT32,
    kUint64 = COPPICE_UINT64,
    kInt8 = COPPICE_INT8,
    kInt16 = COPPICE_INT16,
    kInt32 = COPPICE_INT32,
    kInt64 = COPPICE_INT64,
};

template <class Number>
concept AgreedNumber = std::integral<Number> && !std::same_as<Number, bool> && sizeof(Number) <= 8;

template <AgreedNumber Number>
constexpr Type type_of() noexcept {
    constexpr int size = sizeof(Number) == 1 ? 0 : sizeof(Number) == 2 ? 1 : sizeof(Number) == 4 ? 2 : 3;
    return static_cast<Type>(size + (std::is_signed_v<Number> ? static_cast<int>(Type::kInt8) : 0));
}

// How values become one. kCombine: a function as coppice_combine_fn says, which must not throw.
struct Combination {
    Operation operation = Operation::kAnd;
    Type type = Type::kUint32;  // kMin and kMax
    coppice_combine_fn combine = nullptr;
    void* combine_argument = nullptr;

    coppice_agree_options_t to_c() const noexcept {
        coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
        options.operation = static_cast<coppice_operation_t>(operation);
        options.type = static_cast<coppice_type_t>(type);
        options.combine = combine;
        options.combine_argument = combine_argument;
        return options;
    }
};

}  // namespace v0
}  // namespace coppice
