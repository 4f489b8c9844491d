#include "transport/address_check.hpp"

#include "base/mix.hpp"

namespace coppice::transport {

Result<void> check_address(std::string_view transport, Seat rank, const AddressHead& head, std::uint8_t version,
                           std::size_t bytes) {
    if (!head.ours)
        return fail(COPPICE_ERR_MISMATCH,
                    "{0}: rank {1} gave {2} bytes that are no {0} address of Coppice; is {0} allowed there "
                    "(COPPICE_TRANSPORT)?",
                    transport, rank.value, bytes);
    if (head.version != version)
        return fail(COPPICE_ERR_MISMATCH,
                    "{}: rank {} speaks version {} of this transport, this rank {}: install the same Coppice on all "
                    "hosts",
                    transport, rank.value, head.version, version);
    if (head.word_size != sizeof(void*) || head.byte_order != kByteOrderMark)
        return fail(COPPICE_ERR_MISMATCH,
                    "{}: rank {} has another word size or byte order ({}-byte words there, {} here): all ranks of a "
                    "group must run on the same kind of machine",
                    transport, rank.value, head.word_size, sizeof(void*));
    return {};
}

tl::unexpected<Error> damaged_address(std::string_view transport, Seat rank) {
    return fail(COPPICE_ERR_MISMATCH, "{}: the address of rank {} was damaged on its way through the bootstrap",
                transport, rank.value);
}

std::uint32_t checksum_of(std::span<const std::byte> bytes) {
    return fnv1a<std::uint32_t>(bytes);
}

}  // namespace coppice::transport
