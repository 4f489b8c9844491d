// What newcomers and members tell each other by way of the launcher.
#include "engine/newcomers/cards.hpp"
#include "fuzz.hpp"

using namespace coppice;

namespace {

// Each has one form only, but for the invitation of another version, of which a part is read.
template <class Told>
void check(const std::vector<std::byte>& bytes) {
    const auto told = Told::parse(bytes);
    if (!told) return;
    const std::vector<std::byte> again = told->bytes();
    if constexpr (std::is_same_v<Told, engine::Invitation>) {
        FUZZ_CHECK(told->agreement.empty() || fuzz::same(again, bytes));
    } else {
        FUZZ_CHECK(fuzz::same(again, bytes));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto which = input.number<std::uint8_t>();
    const std::vector<std::byte> bytes = fuzz::exact(input.rest());
    switch (which % 3) {
        case 0:
            check<engine::Card>(bytes);
            break;
        case 1:
            check<engine::Invitation>(bytes);
            break;
        default:
            check<engine::Birth>(bytes);
    }
    return 0;
}
