// What transports do that have one-sided reads: they arrive whole, in their order, whatever the process does that is read from; and what is not open
// costs its reader the connection, and nobody else anything.
#include <signal.h>

#include <cstring>

#include "transport/conformance.hpp"

namespace coppice::testing {

namespace {

using transport::Exposure;
using transport::Reads;
using transport::RemoteMemory;
using transport::SendStatus;

// Words of the stage.
constexpr std::size_t kAddress = 0;
constexpr std::size_t kKey = 1;
constexpr std::size_t kIsOpen = 2;
constexpr std::size_t kGo = 3;
constexpr std::size_t kRead = 4;
constexpr std::size_t kFenced = 5;

constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr std::size_t kPieces = 64;
constexpr std::size_t kPiece = kBytes / kPieces;

// Memory that a rank has open.
struct Open {
    Open(Member& member, Bytes bytes) : memory(std::move(bytes)) {
        const auto made = member.wire().expose(memory);
        if (!made) throw CheckFailed(made.error().message);
        exposure = *made;
    }
    Bytes memory;
    Exposure exposure;
};

void show(Member& member, const Open& open) {
    member.stage().words[kAddress] = open.exposure.address;
    member.stage().words[kKey] = open.exposure.key;
    member.stage().words[kIsOpen] = 1;
}

RemoteMemory shown(Member& member) {
    member.poll_until([&] { return member.stage().words[kIsOpen] != 0; }, "something to read");
    return {.address = member.stage().words[kAddress], .key = static_cast<std::uint32_t>(member.stage().words[kKey])};
}

// Asks for one piece; false when the connection has ended.
bool ask(Member& member, RemoteMemory what, Open& into, std::size_t piece, Reads& reads) {
    what.address += piece * kPiece;
    const auto place = std::span(into.memory).subspan(piece * kPiece, kPiece);
    SendStatus status = SendStatus::again;
    member.poll_until(
        [&] {
            status = member.wire().read(Seat{0}, what, place, into.exposure, &reads);
            return status != SendStatus::again;
        },
        "room to read");
    return status == SendStatus::sent;
}

// One read, however it ends.
bool read_arrives(Member& member, const RemoteMemory& what, Open& into) {
    Reads reads;
    if (!ask(member, what, into, 0, reads)) return false;
    member.poll_until([&] { return reads.under_way == 0; }, "a read to end");
    return reads.arrived == 1;
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OneSidedReads);  // other transports have none

TEST_P(OneSidedReads, ReadsArriveInTheirOrderAlsoFromARankThatIsStopped) {
    start(2, [](Member& member) {
        COPPICE_CHECK(member.wire().capabilities().native_read);
        if (member.self() == Seat{0}) {
            const Open open(member, pattern(7, kBytes));
            show(member, open);
            member.poll_until([&] { return member.stage().words[kRead] != 0; }, "the reader");
            COPPICE_CHECK(member.wire().may_be_read_by(Seat{1}));
            member.wire().withdraw(open.exposure);
            return member.leave();
        }
        const RemoteMemory what = shown(member);
        Open into(member, Bytes(kBytes));
        COPPICE_CHECK(read_arrives(member, what, into));
        member.stage().words[kGo] = 1;
        member.poll_until([&] { return member.stage().words[kGo] == 2; }, "the stop");
        Reads reads;
        const Bytes expected = pattern(7, kBytes);
        for (std::size_t piece = 0, seen = 0; piece < kPieces; ++piece) {
            COPPICE_CHECK(ask(member, what, into, piece, reads));
            for (; seen < reads.arrived; ++seen)
                COPPICE_CHECK(
                    std::memcmp(into.memory.data() + seen * kPiece, expected.data() + seen * kPiece, kPiece) == 0);
        }
        member.poll_until([&] { return reads.under_way == 0; }, "all reads");
        COPPICE_CHECK(reads.arrived == kPieces && is_pattern(into.memory, 7));
        COPPICE_CHECK(member.wire().counters().reads == kPieces + 1);
        member.wire().withdraw(into.exposure);
        member.stage().words[kRead] = 1;
        member.leave();
        COPPICE_CHECK(member.recorder.failures.empty());
    });
    await_word(kGo, 1);
    processes_.signal(0, SIGSTOP);
    stage().words[kGo] = 2;
    await_word(kRead, 1);
    processes_.signal(0, SIGCONT);
    expect_all_well();
}

// A peer that names a wrong key, or reads beyond what is open, loses its own connection, and this rank nothing else.
TEST_P(OneSidedReads, AReadOfWhatIsNotOpenEndsOneConnectionAlone) {
    for (const int wrong : {0, 1, 2}) {
        begin_again();
        start(3, [wrong](Member& member) {
            if (member.self() == Seat{0}) {
                const Open open(member, pattern(7, kBytes));
                if (wrong == 0) member.wire().withdraw(open.exposure);
                show(member, open);
                member.poll_until([&] { return member.recorder.failed(Seat{1}); }, "the end of a connection");
                COPPICE_CHECK(!member.wire().may_be_read_by(Seat{1}));
            }
            if (member.self() == Seat{1}) {
                RemoteMemory what = shown(member);
                if (wrong == 1) what.address += kBytes - kPiece / 2;
                if (wrong == 2) what.key ^= 0x55;
                Open into(member, Bytes(kBytes));
                COPPICE_CHECK(!read_arrives(member, what, into));
                member.poll_until([&] { return member.recorder.failed(Seat{0}); }, "the end of a connection");
                COPPICE_CHECK(into.memory == Bytes(kBytes));
                return;
            }
            const Seat other{2 - member.self().value};
            COPPICE_CHECK(member.send(other, header_of(1), pattern(1, 3000)) == SendStatus::sent);
            member.poll_until([&] { return member.recorder.count(other) == 1; }, "the other one");
            COPPICE_CHECK(!member.recorder.failed(other));
            member.stage().words[kRead].fetch_add(1);
            member.poll_until([&] { return member.stage().words[kRead] == 2; }, "the other one to be well");
        });
        expect_all_well();
    }
}

TEST_P(OneSidedReads, ReadsFromARankThatIsKilledAreSettled) {
    start(2, [](Member& member) {
        if (member.self() == Seat{0}) {
            const Open open(member, pattern(7, kBytes));
            show(member, open);
            member.poll_until([] { return false; }, "death");
        }
        const RemoteMemory what = shown(member);
        Open into(member, Bytes(kBytes));
        Reads reads;
        std::uint64_t asked = 0;
        while (ask(member, what, into, asked % kPieces, reads)) {
            if (++asked == 2 * kPieces) member.stage().words[kGo] = 1;
        }
        member.poll_until([&] { return reads.under_way == 0 && member.recorder.failed(Seat{0}); }, "the death");
        COPPICE_CHECK(reads.arrived <= asked && is_pattern(into.memory, 7));
        COPPICE_CHECK(!ask(member, what, into, 0, reads));
    });
    await_word(kGo, 1);
    processes_.signal(0, SIGKILL);
    expect_killed(0);
    expect_well(1);
}

TEST_P(OneSidedReads, ARankThatIsFencedReadsNoMore) {
    start(2, [](Member& member) {
        if (member.self() == Seat{0}) {
            const Open open(member, pattern(7, kBytes));
            show(member, open);
            member.poll_until([&] { return member.stage().words[kRead] == 1; }, "a read");
            member.wire().fence(Seat{1});
            COPPICE_CHECK(!member.wire().may_be_read_by(Seat{1}));
            member.poll();  // UCX ends the connection there
            member.stage().words[kFenced] = 1;
            member.poll_until([&] { return member.stage().words[kRead] == 2; }, "another read");
            return;
        }
        const RemoteMemory what = shown(member);
        Open into(member, Bytes(kBytes));
        COPPICE_CHECK(read_arrives(member, what, into));
        member.stage().words[kRead] = 1;
        member.poll_until([&] { return member.stage().words[kFenced] == 1; }, "the fence");
        COPPICE_CHECK(!read_arrives(member, what, into));
        member.stage().words[kRead] = 2;
    });
    expect_all_well();
}

}  // namespace coppice::testing
