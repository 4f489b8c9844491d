// What an agreement's messages carry, and the sets of failed ranks in them.
#include "protocol/agreement/agreement_body.hpp"

#include "fuzz.hpp"

using namespace coppice::protocol;
using namespace coppice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::uint32_t ranks = 1 + (input.number<std::uint32_t>() & 0xFFFFF);
    const std::vector<std::byte> bytes = fuzz::exact(input.rest());

    FailedSet set;
    std::span<const std::byte> rest(bytes);
    if (read_failed(rest, ranks, set)) {
        FUZZ_CHECK(fuzz::within(rest, bytes));
        FUZZ_CHECK(set.empty() || set.intervals().back().last < ranks);
        // Each set has one form only.
        std::vector<std::byte> written;
        write_failed(set, written);
        FUZZ_CHECK(fuzz::same(written, std::span(bytes).first(bytes.size() - rest.size())));
        FUZZ_CHECK(written.size() <= longest_failed(ranks));
    } else {
        FUZZ_CHECK(set.empty());
    }

    FailedSet failed;
    FailedSet acknowledged;
    AgreementBody body;
    constexpr std::size_t kMaxValue = 256;
    if (!read_body(bytes, kMaxValue, ranks, failed, acknowledged, body)) return 0;
    FUZZ_CHECK(body.value.size() <= kMaxValue && fuzz::within(body.value, bytes));
    FUZZ_CHECK(bytes.size() <= longest_body(kMaxValue, ranks));
    std::vector<std::byte> written;
    body.write(written);
    FUZZ_CHECK(fuzz::same(written, bytes));
    return 0;
}
