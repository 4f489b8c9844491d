// What the tcp transport reads: addresses, the handshake from both sides, and frames.
#include "fuzz.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/handshake.hpp"
#include "transport/tcp/wire.hpp"

using namespace coppice::transport::tcp;
using namespace coppice;

namespace {

void shake(Handshake handshake, bool initiates, fuzz::Input& input) {
    std::size_t taken = 0;
    while (handshake.state() == Handshake::State::under_way) {
        const std::size_t wanted = handshake.wanted();
        FUZZ_CHECK(wanted > 0 && wanted <= kLongestStep);
        const auto piece = fuzz::exact(input.take(wanted));
        if (piece.size() < wanted) return;
        taken += wanted;
        FUZZ_CHECK(taken <= 72);
        static_cast<void>(handshake.take(piece));
    }
    // Nobody guesses a hash of 256 bits. An initiator may be told to try again, which takes no proof.
    const bool put_off = initiates && handshake.state() == Handshake::State::busy;
    FUZZ_CHECK(put_off || handshake.state() == Handshake::State::refused);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto mode = input.number<std::uint8_t>();
    const Identity identity{.token = 7, .self = Seat(1), .group_size = 4, .room = 65536, .buffer = 65536, .secret = {}};
    const Nonce nonce{};
    if (mode == 0) {
        shake(Handshake::accept(identity, nonce), false, input);
    } else if (mode == 1) {
        shake(Handshake::initiate(identity, Seat(2), 0, nonce), true, input);
    } else if (mode == 2) {
        const auto address = fuzz::exact(input.rest());
        const auto known = unpack_address(Seat(2), address);
        if (!known) return 0;
        const auto& endpoints = known->endpoints;
        FUZZ_CHECK(!endpoints.empty() && endpoints.size() <= kMaxEndpoints);
        FUZZ_CHECK(fuzz::same(pack_address(endpoints, known->incarnation), address));
        for (const Endpoint& endpoint : endpoints)
            FUZZ_CHECK(!to_string(endpoint).empty() && to_socket(endpoint).length > 0);
        auto sorted = endpoints;
        sort_by_reach(sorted, endpoints);
    } else {
        const auto stream = fuzz::exact(input.rest());
        for (std::span<const std::byte> rest(stream); !rest.empty();) {
            Frame frame;
            const Parsed parsed = parse_frame(rest, frame);
            FUZZ_CHECK(parsed == Parsed::garbage || frame.payload.size() <= rest.size());
            FUZZ_CHECK(frame.header.empty() || fuzz::within(frame.header, rest));
            FUZZ_CHECK(frame.payload.empty() || fuzz::within(frame.payload, rest));
            if (parsed != Parsed::frame) break;
            FUZZ_CHECK(frame.length > 0 && frame.length <= kMaxFrame && frame.length <= rest.size());
            FUZZ_CHECK(fuzz::within(frame.header, rest) && fuzz::within(frame.payload, rest));
            FUZZ_CHECK(sizeof(FrameHead) + frame.header.size() + frame.payload.size() == frame.length);
            rest = rest.subspan(frame.length);
        }
    }
    return 0;
}
