// What members of a group say about its next view, and leave behind.
#include "fuzz.hpp"
#include "protocol/membership/codec.hpp"

using namespace coppice::protocol;
using namespace coppice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const std::uint32_t ranks = 1 + (input.number<std::uint32_t>() & 0xFFFFF);
    const std::vector<std::byte> bytes = fuzz::exact(input.rest());
    // What a member that is gone had voted for last, from its host's memory or a witness's.
    if (const auto vote = read_last_vote(bytes, ranks)) {
        FUZZ_CHECK(vote->followed <= ranks);
        std::vector<std::byte> written;
        write_last_vote(*vote, written);
        FUZZ_CHECK(fuzz::same(written, bytes));
    }
    MembershipMessage message;
    if (!read_membership(bytes, ranks, message)) return 0;
    FUZZ_CHECK(message.root < ranks && message.consents.size() <= kMostConsents);
    FUZZ_CHECK(bytes.size() <= longest_membership_body(ranks));
    // Each message has one form only.
    std::vector<std::byte> written;
    write_membership(message, written);
    FUZZ_CHECK(fuzz::same(written, bytes));
    return 0;
}
