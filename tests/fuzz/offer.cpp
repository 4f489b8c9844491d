// Where a peer says that its chunks of a payload can be read, and the word that is read there.
#include "engine/collectives/payload/offer.hpp"

#include "fuzz.hpp"

using namespace coppice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const bool sound = (input.number<std::uint8_t>() & 1U) != 0;
    const auto chunk = engine::kLeastChunk + input.number<std::uint16_t>();
    const auto descriptor = engine::Descriptor::of(1 + input.number<std::uint64_t>() % engine::kMaxBroadcast, chunk);
    engine::HaveWord word{.have = input.number<std::uint64_t>(), .seal = input.number<std::uint64_t>()};
    std::vector<std::byte> bytes = fuzz::exact(input.rest());
    // An attacker gets the checksums right; the fuzzer would not.
    if (sound && bytes.size() == sizeof(engine::Offer)) {
        std::memcpy(bytes.data() + offsetof(engine::Offer, of), &descriptor.check, sizeof descriptor.check);
        const std::uint32_t crc =
            transport::crc32c(std::span<const std::byte>(bytes).first(offsetof(engine::Offer, check)));
        std::memcpy(bytes.data() + offsetof(engine::Offer, check), &crc, sizeof crc);
    }
    if (const auto offer = engine::Offer::read(bytes, descriptor)) {
        FUZZ_CHECK(offer->of == descriptor.check && fuzz::same(offer->as_bytes(), bytes));
        FUZZ_CHECK(offer->chunks != 0 && offer->chunks + descriptor.bytes >= offer->chunks);
        FUZZ_CHECK(offer->desk != 0 && offer->desk + engine::desk_bytes(descriptor.chunks()) >= offer->desk);
    }
    const std::uint64_t seed = engine::HaveWord::seed_of(descriptor, chunk, Sequence(size), Rank(1));
    if (sound) word.seal = engine::HaveWord::sealed(seed, word.have);
    const auto have = word.chunks(seed, descriptor.chunks());
    FUZZ_CHECK(!have || (*have <= descriptor.chunks() && word.seal == engine::HaveWord::sealed(seed, word.have)));
    FUZZ_CHECK(have.has_value() || !sound || word.have > descriptor.chunks());
    return 0;
}
