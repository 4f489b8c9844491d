// Bodies of agreements that come in parts, from several ranks at once.
#include "engine/collectives/agreement/assembly.hpp"

#include <map>

#include "fuzz.hpp"

using namespace coppice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t kLongest = 4096;
    fuzz::Input input(data, size);
    engine::Assembly assembly(kLongest);
    // What each rank has sent of the body that it is in.
    std::map<std::uint32_t, std::vector<std::byte>> sent;
    while (!input.empty()) {
        const std::uint32_t from = input.number<std::uint8_t>() % 4;
        const engine::PartOf message{static_cast<std::uint8_t>(32 + input.number<std::uint8_t>() % 3),
                                     input.number<std::uint8_t>()};
        const auto rest = input.number<std::uint16_t>();
        const std::vector<std::byte> part = fuzz::exact(input.take(input.number<std::uint8_t>()));
        if (message.sequence == 255) {
            assembly.forget(Rank(from));
            sent.erase(from);
            continue;
        }
        const auto taken = assembly.take(Rank(from), message, part, rest);
        if (taken.state == engine::Assembly::State::garbage) {
            sent.erase(from);
            continue;
        }
        auto& body = sent[from];
        body.insert(body.end(), part.begin(), part.end());
        if (taken.state == engine::Assembly::State::unfinished) {
            FUZZ_CHECK(body.size() + rest <= kLongest);
            continue;
        }
        FUZZ_CHECK(fuzz::same(taken.body, body));
        sent.erase(from);
    }
    return 0;
}
