#include "transport/shm_factory.hpp"

#include <cstring>

#include "transport/shm/shm_transport.hpp"

namespace coppice::testing {

using namespace transport;

Result<std::unique_ptr<Transport>> ShmFactory::make(Seat self, std::uint32_t size) {
    ShmOptions options;
    options.self = self;
    options.group_size = size;
    options.window = kWindow;
    options.regions = kRegions;
    auto made = ShmTransport::create(options);
    if (!made) return tl::unexpected(made.error());
    return std::unique_ptr<Transport>(std::move(*made));
}

Bytes ShmFactory::of_other_version(Bytes address) {
    const std::uint32_t other = shm::kVersion + 1;
    std::memcpy(address.data() + 12, &other, sizeof other);  // behind magic and byte order
    return address;
}

// Overwrites all that peers write to in this rank's segment, but for the claims of peers that have one, and rings all
// bells.
bool ShmFactory::send_garbage(Transport& transport) {
    const auto address = shm::decode(Seat{0}, transport.address());
    COPPICE_CHECK(address.has_value());
    const shm::Layout layout(address->window, address->group_size, address->inboxes - shm::kSpareInboxes,
                             Regions(kRegions).bytes());
    auto mapped = shm::map_peer(*address, layout);
    COPPICE_CHECK(mapped.has_value());
    std::byte* const base = mapped->mailroom.base();
    auto& mail = shared::at<shm::Mailroom>(base);
    const std::uint64_t claimed = mail.claimed.value();
    const auto scribble = [](std::byte* at, std::size_t size, std::uint64_t seed) {
        const Bytes bytes = pattern(seed, size);
        std::memcpy(at, bytes.data(), size);
    };
    for (std::uint32_t inbox = 0; inbox < layout.inboxes; ++inbox) {
        std::byte* const box = base + layout.inboxes_at - layout.mailroom_at + inbox * layout.inbox.stride;
        scribble(box, layout.inbox.stride, 7 + inbox);
        if (inbox >= claimed)
            scribble(base + layout.claims_at - layout.mailroom_at + inbox * sizeof(shm::Claim), sizeof(shm::Claim),
                     99 + inbox);
    }
    for (auto& bell : mail.doorbell)
        bell.ring(~std::uint64_t{0});
    return true;
}

}  // namespace coppice::testing
