#include "transport/ucx_support.hpp"

namespace coppice::testing {

Result<std::unique_ptr<Transport>> UcxFactory::make(Seat self, std::uint32_t size) {
    auto wanted = options(self, size);
    wanted.incarnation = incarnation;
    auto made = transport::UcxTransport::create(wanted);
    if (!made) return tl::unexpected(made.error());
    return std::unique_ptr<Transport>(std::move(*made));
}

Bytes UcxFactory::of_other_version(Bytes address) {
    address[4] = std::byte{transport::ucx::kWireVersion + 1};  // behind the magic
    return address;
}

// A message with a wrong token from a worker outside of the group. Both ends have to be moved for it to arrive.
bool UcxFactory::send_garbage(Transport& transport) {
    const Bytes header = bytes_of({.token = ~kToken, .from = 1}, 16), payload = pattern(3, 100);
    const std::uint64_t before = transport.counters().garbage;
    Stranger outsider(transport, stranger());
    outsider.send(transport::ucx::kMessageId, header, payload);
    Recorder recorder;
    poll_until(transport, recorder, [&] {
        outsider.progress();
        return transport.counters().garbage > before;
    });
    COPPICE_CHECK(recorder.messages.empty() && recorder.failures.empty());
    return true;
}

}  // namespace coppice::testing
