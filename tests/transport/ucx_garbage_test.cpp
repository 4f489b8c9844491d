// What strangers may do to the UCX transport: everything they send is dropped, and the group goes on.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "support/ucx_listener.hpp"
#include "transport/ucx/wire.hpp"
#include "transport/ucx_support.hpp"

namespace coppice::testing {
namespace {

using transport::ucx::Kind;
using transport::ucx::kMessageId;
using transport::ucx::Prefix;

Prefix good_prefix() {
    return {.token = kToken, .from = 1};
}

struct Attempt {
    const char* what;
    unsigned id;
    Bytes header;
    Bytes payload;
    std::uint32_t flags = UCP_AM_SEND_FLAG_EAGER;
};

std::vector<Attempt> attempts() {
    Prefix wrong_token = good_prefix(), wrong_rank = good_prefix(), own_rank = good_prefix(),
           wrong_version = good_prefix(), wrong_kind = good_prefix(), longer = good_prefix(), none = good_prefix();
    wrong_token.token ^= 1;
    wrong_rank.from = 2;
    own_rank.from = 0;
    wrong_version.version = 99;
    wrong_kind.kind = static_cast<Kind>(77);
    none.kind = static_cast<Kind>(0);
    longer.header_size = 17;
    Prefix huge = good_prefix();
    huge.header_size = 49;
    return {
        {"wrong token", kMessageId, bytes_of(wrong_token), Bytes(8)},
        {"rank outside of the group", kMessageId, bytes_of(wrong_rank), Bytes(8)},
        {"the receiver's own rank", kMessageId, bytes_of(own_rank), Bytes(8)},
        {"other version", kMessageId, bytes_of(wrong_version), Bytes(8)},
        {"unknown kind", kMessageId, bytes_of(wrong_kind), Bytes(8)},
        {"kind nought", kMessageId, bytes_of(none), Bytes(8)},
        {"header shorter than it says", kMessageId, bytes_of(longer, 16), Bytes(8)},
        {"header longer than allowed", kMessageId, bytes_of(huge, 49), Bytes(8)},
        {"no header", kMessageId, {}, Bytes(64)},
        {"half a prefix", kMessageId, Bytes(sizeof(Prefix) - 1), {}},
        {"payload above the bound", kMessageId, bytes_of(good_prefix()), Bytes(transport::kMaxPayload + 1)},
        {"payload of several segments", kMessageId, bytes_of(good_prefix()), Bytes(1 << 18)},
        {"rendezvous", kMessageId, bytes_of(good_prefix()), Bytes(64), UCP_AM_SEND_FLAG_RNDV},
        {"large rendezvous", kMessageId, bytes_of(good_prefix()), Bytes(1 << 20), UCP_AM_SEND_FLAG_RNDV},
        {"other message", kMessageId - 1, bytes_of(good_prefix()), Bytes(8)},
        {"the first message", 0, bytes_of(good_prefix()), Bytes(8)},
    };
}

TEST(UcxGarbage, MessagesOfAStrangerAreCountedAndDropped) {
    in_child([] {
        auto wire = make_ucx(ucx_options(Seat(0), 2));
        Recorder recorder;
        Stranger stranger(*wire);
        std::uint64_t expected = 0;
        const auto all = attempts();
        for (const Attempt& attempt : all) {
            stranger.send(attempt.id, attempt.header, attempt.payload, attempt.flags);
            ++expected;
            poll_until(*wire, recorder, [&] {
                stranger.progress();
                return wire->counters().garbage >= expected;
            });
            COPPICE_CHECK(wire->counters().garbage == expected);
        }
        COPPICE_CHECK(recorder.messages.empty() && recorder.failures.empty() && wire->counters().received == 0);
    });
}

TEST(UcxGarbage, AMessageOfAnUnknownNumberIsDropped) {
    in_child([] {
        auto wire = make_ucx(ucx_options(Seat(0), 2));
        Recorder recorder;
        Stranger stranger(*wire);
        const Bytes header = bytes_of(good_prefix()), payload(8);
        const Bytes marker = bytes_of({.token = 1});
        stranger.send(5000, header, payload);
        stranger.send(kMessageId, marker, payload);  // comes behind it
        poll_until(*wire, recorder, [&] {
            stranger.progress();
            return wire->counters().garbage > 0;
        });
        COPPICE_CHECK(recorder.messages.empty());
    });
}

// ------------------------------------------------------------------------------------- bytes that are no UCX at all

int connected(std::uint16_t port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    COPPICE_CHECK(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    return fd;
}

TEST(UcxGarbage, BytesThatAreNotUcxDoNoHarm) {
    in_child([] {
        Group group(2);
        const auto ports = listening_ports();
        COPPICE_CHECK(!ports.empty());
        std::mt19937_64 random(7);
        std::vector<int> sockets;
        for (std::uint16_t port : ports)
            for (std::size_t size : {0, 1, 4, 7, 8, 64, 1000, 20'000}) {
                const int fd = connected(port);
                Bytes noise(size);
                for (auto& byte : noise)
                    byte = static_cast<std::byte>(random());
                // The listener may close at any time: that is one of the right answers.
                if (size > 0) (void)::send(fd, noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
                if (size % 8 == 0)
                    close(fd);
                else
                    sockets.push_back(fd);
            }
        for (std::uint32_t i = 0; i < 200; ++i)
            group.send(i % 2, 1 - i % 2, pattern(i, 100));
        group.poll_until(
            [&] { return group.recorders[0].messages.size() + group.recorders[1].messages.size() >= 200; });
        for (auto& recorder : group.recorders) {
            COPPICE_CHECK(recorder.messages.size() == 100 && recorder.failures.empty());
            for (const auto& message : recorder.messages)
                COPPICE_CHECK(message.payload.size() == 100);
        }
        for (int fd : sockets)
            close(fd);
    });
}

}  // namespace
}  // namespace coppice::testing
