// What the verbs transport reads: messages, and the private data of a connection's set-up.
#include "fuzz.hpp"
#include "transport/crc32c.hpp"
#include "transport/verbs/wire.hpp"

using namespace coppice::transport;
using namespace coppice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const bool sound = (input.number<std::uint8_t>() & 1U) != 0;
    std::vector<std::byte> bytes = fuzz::exact(input.rest());
    // An attacker gets the checksum right; the fuzzer would not.
    if (sound && bytes.size() >= verbs::kCardBytes) {
        const std::size_t at = verbs::kCardBytes - sizeof(std::uint32_t);
        const std::uint32_t crc = crc32c(std::span<const std::byte>(bytes).first(at));
        std::memcpy(bytes.data() + at, &crc, sizeof crc);
    }
    if (const auto prefix = verbs::parse_message(bytes)) {
        FUZZ_CHECK(bytes.size() <= kMaxMessage && prefix->header_size <= kMaxHeader);
        FUZZ_CHECK(prefix->payload_size <= kMaxPayload && prefix->payload_size <= bytes.size());
    }
    // Of a group whose token is that of the card, else no input would be of the group.
    verbs::Card expected{.rank = 64};
    if (bytes.size() >= 24) {
        std::memcpy(&expected.token, bytes.data() + 16, sizeof expected.token);
    }
    const auto card = verbs::decode_card(bytes, expected);
    if (card.refusal == verbs::Refusal::none) {
        FUZZ_CHECK(card.card.rank < 64 && card.card.slots >= 1 && card.card.slots <= verbs::kMaxSlots);
        const auto again = verbs::decode_card(verbs::encode(card.card), expected);
        FUZZ_CHECK(again.refusal == verbs::Refusal::none &&
                   fuzz::same(verbs::encode(again.card), verbs::encode(card.card)));
    }
    const verbs::Refusal refusal = verbs::decode_refusal(bytes);
    FUZZ_CHECK(verbs::decode_refusal(verbs::encode(refusal)) == refusal);
    FUZZ_CHECK(verbs::to_string(refusal) != nullptr);
    return 0;
}
