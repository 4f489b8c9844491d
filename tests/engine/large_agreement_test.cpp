// Agreements among 64K ranks whose failed are scattered so that no message carries their names in one piece: this is
// how sets of any kind get through, part by part, whatever room there is.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <tuple>

#include "engine/collectives/agreement/agreements.hpp"
#include "protocol/agreement/failed_codec.hpp"

namespace coppice::engine {
namespace {

using protocol::AgreementBody;
using protocol::AgreementKind;
using protocol::FailedSet;

constexpr std::uint32_t kRanks = 65536;
constexpr GroupId kGroup{.token = 0x1234, .epoch = Epoch(3)};
constexpr std::uint8_t kUp = static_cast<std::uint8_t>(AgreementKind::up);
constexpr std::uint8_t kDown = static_cast<std::uint8_t>(AgreementKind::down);
constexpr std::uint8_t kRequest = static_cast<std::uint8_t>(AgreementKind::result_request);

struct Message {
    Rank to;
    std::vector<std::byte> header;
    std::vector<std::byte> payload;
};

// Keeps what is sent.
class Mailbox final : public transport::Transport {
  public:
    std::deque<Message> sent;
    bool stutters = false;  // has room for every second message only

    const transport::Capabilities& capabilities() const override { return capabilities_; }
    transport::Counters counters() const override { return {}; }
    std::vector<std::byte> address() const override { return {}; }
    Result<void> add_peer(Seat, std::span<const std::byte>) override { return {}; }
    void watch(Seat) override {}
    transport::SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t*) override {
        EXPECT_LE(payload.size(), transport::kMaxPayload);
        if (stutters && ++calls_ % 2 == 0) return transport::SendStatus::again;
        sent.push_back({Rank(to.value), {header.begin(), header.end()}, {payload.begin(), payload.end()}});
        return transport::SendStatus::sent;
    }
    transport::SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                std::uint32_t* in_flight) override {
        return send(to, header, payload, in_flight);
    }
    std::size_t poll(transport::Receiver&) override { return 0; }
    void release(transport::Buffer) override {}
    void fence(Seat) override {}
    void forget(Seat) override {}
    bool leave() override { return true; }

  private:
    std::size_t calls_ = 0;
    transport::Capabilities capabilities_{.name = "mailbox", .inline_size = transport::kMaxPayload};
};

// One rank's agreements, and what they send.
struct Member {
    std::shared_ptr<TransportSet> transport_set = std::make_shared<TransportSet>(kRanks);
    Mailbox* mailbox = nullptr;
    Members members;
    Router router{transport_set, kRanks};
    std::unique_ptr<Agreements> agreements;
    std::uint64_t value = 0;
    Request request;

    explicit Member(std::uint32_t rank) : members(Rank(rank), topology::Nodes::flat(kRanks)) {
        auto mine = std::make_unique<Mailbox>();
        mailbox = mine.get();
        const std::uint8_t index = transport_set->add(std::move(mine));
        for (std::uint32_t peer = 0; peer < kRanks; ++peer)
            transport_set->route(Seat(peer), index);
        agreements = std::make_unique<Agreements>(members, router, nullptr, kGroup, Agreements::Shape{});
    }
    Rank self() const { return members.self(); }
    void start(std::uint64_t contribution) {
        value = contribution;
        request = Request{};
        const AgreementCall call{.operation = {.op = protocol::Operator::bit_or},
                                 .value = reinterpret_cast<std::byte*>(&value),
                                 .bytes = sizeof value};
        const auto started = agreements->start(call, request);
        ASSERT_TRUE(started) << started.error().message;
    }
    // False: garbage.
    bool receive(Rank from, const Message& message) {
        const auto header = decode(message.header, message.payload.size(), kGroup);
        return header && agreements->message(from, *header, message.payload);
    }
};

FailedSet every(std::uint32_t step, std::uint32_t first, const std::set<std::uint32_t>& alive) {
    FailedSet failed;
    for (std::uint32_t rank = first; rank < kRanks; rank += step) {
        if (!alive.contains(rank)) failed.insert(rank);
    }
    return failed;
}

std::vector<Message> in_parts(Rank to, std::uint8_t kind, std::uint64_t sequence, std::span<const std::byte> body) {
    std::vector<Message> parts;
    do {
        const auto part = body.first(std::min(body.size(), transport::kMaxPayload));
        body = body.subspan(part.size());
        const Encoded header = encode({.token = kGroup.token,
                                       .tag = {Channel::agreement, kind},
                                       .sequence = sequence,
                                       .detail = static_cast<std::uint32_t>(body.size()),
                                       .length = static_cast<std::uint32_t>(part.size()),
                                       .epoch = kGroup.epoch.value});
        const std::span<const std::byte> bytes = header;
        parts.push_back({to, {bytes.begin(), bytes.end()}, {part.begin(), part.end()}});
    } while (!body.empty());
    return parts;
}

std::uint32_t rest_of(const Message& message) {
    return decode(message.header, message.payload.size(), kGroup)->detail;
}

class Survivors : public ::testing::Test {
  protected:
    // Delivers everything until nothing moves. How many messages.
    std::size_t run() {
        std::size_t delivered = 0;
        // What was refused in one round goes in the next.
        for (int quiet = 0; quiet < 2;) {
            ++quiet;
            for (Member* member : {&a, &b, &c}) {
                member->agreements->progress(true);
                while (!member->mailbox->sent.empty()) {
                    const Message message = std::move(member->mailbox->sent.front());
                    member->mailbox->sent.pop_front();
                    longest_rest = std::max(longest_rest, rest_of(message));
                    Member* const to = find(message.to);
                    if (to == nullptr) continue;  // it is dead
                    EXPECT_TRUE(to->receive(member->self(), message));
                    quiet = 0;
                    ++delivered;
                }
            }
        }
        return delivered;
    }
    Member* find(Rank rank) {
        for (Member* member : {&a, &b, &c}) {
            if (member->self() == rank) return member;
        }
        return nullptr;
    }
    // All have ended alike, without anybody but themselves.
    void expect_agreed(coppice_status_t status) {
        for (Member* member : {&a, &b, &c}) {
            ASSERT_TRUE(member->agreements->peek(member->request)) << member->self().value;
            EXPECT_EQ(member->request.status, status) << member->request.message;
            EXPECT_EQ(member->value, 7U);
            EXPECT_EQ(member->request.agreed->count(), kRanks - 3);
            for (const std::uint32_t alive : kAlive)
                EXPECT_FALSE(member->request.agreed->contains(alive));
        }
    }
    void start_all() {
        a.start(1);
        b.start(2);
        c.start(4);
    }

    const std::set<std::uint32_t> kAlive{0, 40000, kRanks - 1};
    const FailedSet even = every(2, 0, kAlive);
    const FailedSet odd = every(2, 1, kAlive);
    Member a{0}, b{40000}, c{kRanks - 1};
    std::uint32_t longest_rest = 0;
};

// Each survivor knows of every second death, and has acknowledged of those every second one: both sets are bitmaps.
TEST_F(Survivors, AgreeWhicheverRanksKnowOfWhichDeaths) {
    for (Member* member : {&a, &b, &c}) {
        const FailedSet& known = member == &b ? even : odd;
        member->agreements->peers_failed(known);
        FailedSet noted = every(4, member == &b ? 0 : 1, kAlive);
        member->agreements->acknowledge(noted);
    }
    start_all();
    run();
    // What only dead ranks could have told the survivors notice in the end.
    a.agreements->peers_failed(even);
    b.agreements->peers_failed(odd);
    c.agreements->peers_failed(even);
    run();
    expect_agreed(COPPICE_ERR_PEER_FAILED);
    EXPECT_GT(longest_rest, transport::kMaxPayload) << "two bitmaps are three parts";

    for (Member* member : {&a, &b, &c}) {
        member->agreements->acknowledge(even);
        member->agreements->acknowledge(odd);
    }
    start_all();
    run();
    expect_agreed(COPPICE_OK);
}

// The acknowledged alone do not fit into a message.
TEST_F(Survivors, SendWhatIsTooLongForAMessageInParts) {
    FailedSet all = even;
    all.unite(odd);
    for (Member* member : {&a, &b, &c}) {
        member->agreements->peers_failed(all);
        member->agreements->acknowledge(even);
    }
    start_all();
    EXPECT_GE(run(), 6U) << "two UPs of two parts each, two DOWNs";
    EXPECT_GT(longest_rest, 0U);
    expect_agreed(COPPICE_ERR_PEER_FAILED);
}

// No other message may come between the parts of one.
TEST_F(Survivors, SendPartsAsThereIsRoom) {
    FailedSet all = even;
    all.unite(odd);
    Member* const survivors[] = {&a, &b, &c};
    Request more[3][2];
    std::uint64_t values[3][2] = {};
    for (std::size_t i = 0; i < 3; ++i) {
        survivors[i]->agreements->peers_failed(all);
        survivors[i]->agreements->acknowledge(odd);
        survivors[i]->mailbox->stutters = true;
        survivors[i]->start(std::uint64_t{1} << i);
        for (std::size_t k = 0; k < 2; ++k) {
            const AgreementCall call{.operation = {.op = protocol::Operator::bit_or},
                                     .value = reinterpret_cast<std::byte*>(&values[i][k]),
                                     .bytes = sizeof values[i][k]};
            ASSERT_TRUE(survivors[i]->agreements->start(call, more[i][k]));
        }
    }
    run();
    EXPECT_GT(longest_rest, 0U);
    expect_agreed(COPPICE_ERR_PEER_FAILED);
    for (std::size_t i = 0; i < 3; ++i) {
        for (Request& request : more[i]) {
            EXPECT_TRUE(survivors[i]->agreements->peek(request));
            EXPECT_EQ(request.status, COPPICE_ERR_PEER_FAILED);
        }
    }
}

// What the root has to say of scattered deaths, among survivors that are played here.
TEST_F(Survivors, TakeADecisionInParts) {
    c.agreements->peers_failed(odd);
    c.start(4);
    c.agreements->progress(true);
    const std::uint64_t decided = 5;
    AgreementBody body;
    body.operation = protocol::encode_operation({.op = protocol::Operator::bit_or});
    body.unacknowledged = true;
    body.value = std::as_bytes(std::span(&decided, 1));
    body.failed = &odd;
    std::vector<std::byte> bytes;
    body.write(bytes);
    ASSERT_GT(bytes.size(), transport::kMaxPayload);
    const std::vector<Message> parts = in_parts(c.self(), kDown, 0, bytes);
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_TRUE(c.receive(Rank(0), parts[0]));
    EXPECT_FALSE(c.agreements->peek(c.request));
    EXPECT_TRUE(c.receive(Rank(0), parts[1]));
    ASSERT_TRUE(c.agreements->peek(c.request));
    EXPECT_EQ(c.request.status, COPPICE_ERR_PEER_FAILED);
    EXPECT_EQ(c.value, decided);
    EXPECT_EQ(*c.request.agreed, odd);
}

// The caller, whose function combines the values, is elsewhere when the second part comes, and so is it for what follows.
TEST_F(Survivors, TakeADecisionWhosePartsComeWhileTheCallerIsHereAndWhileItIsAway) {
    c.agreements->peers_failed(odd);
    c.value = 4;
    const AgreementCall call{.operation = {.op = protocol::Operator::user},
                             .combine = [](void*, void*, const void*, std::size_t) {},
                             .value = reinterpret_cast<std::byte*>(&c.value),
                             .bytes = sizeof c.value};
    Request next;
    std::uint64_t next_value = 0;
    AgreementCall next_call{.operation = {.op = protocol::Operator::bit_or},
                            .value = reinterpret_cast<std::byte*>(&next_value),
                            .bytes = sizeof next_value};
    ASSERT_TRUE(c.agreements->start(call, c.request));
    ASSERT_TRUE(c.agreements->start(next_call, next));
    c.agreements->progress(true);

    const std::uint64_t decided = 5;
    AgreementBody body;
    body.unacknowledged = true;
    body.value = std::as_bytes(std::span(&decided, 1));
    body.failed = &odd;
    std::vector<Message> messages;
    for (const protocol::Operator op : {protocol::Operator::user, protocol::Operator::bit_or}) {
        const std::uint8_t agreement = messages.empty() ? 0 : 1;
        body.operation = protocol::encode_operation({.op = op});
        body.lag = agreement;  // the first one is not decided everywhere
        std::vector<std::byte> bytes;
        body.write(bytes);
        for (Message& part : in_parts(c.self(), kDown, agreement, bytes))
            messages.push_back(std::move(part));
    }
    ASSERT_EQ(messages.size(), 4U);
    for (std::size_t i = 0; i < messages.size(); ++i) {
        c.agreements->allow_callbacks(i == 0);
        EXPECT_TRUE(c.receive(Rank(0), messages[i])) << i;
    }
    EXPECT_FALSE(c.agreements->peek(c.request));
    c.agreements->allow_callbacks(true);
    c.agreements->progress(true);
    for (Request* request : {&c.request, &next}) {
        ASSERT_TRUE(c.agreements->peek(*request)) << c.agreements->waiting_for(*request);
        EXPECT_EQ(request->status, COPPICE_ERR_PEER_FAILED) << request->message;
    }
    EXPECT_EQ(c.value, decided);
    EXPECT_EQ(next_value, decided);
}

TEST_F(Survivors, TakeARequestInPartsAndAnswerIt) {
    c.agreements->peers_failed(odd);
    c.start(4);
    c.mailbox->sent.clear();
    FailedSet elders = odd;  // rank 2 is root: 0 and 1 are dead
    elders.insert(0);
    elders.insert(kRanks - 2);
    std::vector<std::byte> bytes;
    protocol::write_failed(elders, bytes);
    bool taken = true;
    for (const Message& part : in_parts(c.self(), kRequest, 0, bytes))
        taken = taken && c.receive(Rank(2), part);
    EXPECT_TRUE(taken);
    EXPECT_EQ(c.agreements->failed(), elders);
    c.agreements->progress(true);
    ASSERT_FALSE(c.mailbox->sent.empty());
    std::vector<std::byte> answer;
    for (const Message& part : c.mailbox->sent) {
        EXPECT_EQ(part.to, Rank(2));
        answer.insert(answer.end(), part.payload.begin(), part.payload.end());
    }
    FailedSet failed, acknowledged;
    AgreementBody body;
    ASSERT_TRUE(protocol::read_body(answer, 256, kRanks, failed, acknowledged, body));
    EXPECT_EQ(failed, elders);
}

const std::vector<std::byte> kPiece(100, std::byte{7});

TEST(Parts, MakeAWholeWhateverOthersSendMeanwhile) {
    Assembly assembly(1000);
    const PartOf message{.kind = kUp, .sequence = 3};
    EXPECT_EQ(assembly.take(Rank(1), message, kPiece, 200).state, Assembly::State::unfinished);
    EXPECT_EQ(assembly.take(Rank(2), message, kPiece, 100).state, Assembly::State::unfinished);
    EXPECT_EQ(assembly.take(Rank(3), message, kPiece, 0).state, Assembly::State::whole);
    EXPECT_EQ(assembly.take(Rank(1), message, kPiece, 100).state, Assembly::State::unfinished);
    EXPECT_EQ(assembly.take(Rank(2), message, kPiece, 0).body.size(), 200U);
    const auto whole = assembly.take(Rank(1), message, kPiece, 0);
    EXPECT_EQ(whole.state, Assembly::State::whole);
    EXPECT_EQ(whole.body.size(), 300U);
}

TEST(Parts, WhatDoesNotContinueIsGarbageAndForgotten) {
    const PartOf message{.kind = kUp, .sequence = 3};
    struct Wrong {
        PartOf message;
        std::size_t bytes;
        std::uint32_t rest;
    };
    for (const Wrong& wrong : {Wrong{{kDown, 3}, 100, 0}, Wrong{{kUp, 4}, 100, 0}, Wrong{message, 99, 0},
                               Wrong{message, 100, 100}, Wrong{message, 0, 100}, Wrong{message, 50, UINT32_MAX}}) {
        Assembly assembly(1000);
        EXPECT_EQ(assembly.take(Rank(1), message, kPiece, 100).state, Assembly::State::unfinished);
        const auto part = std::span(kPiece).first(wrong.bytes);
        EXPECT_EQ(assembly.take(Rank(1), wrong.message, part, wrong.rest).state, Assembly::State::garbage);
        EXPECT_EQ(assembly.take(Rank(1), message, kPiece, 100).state, Assembly::State::unfinished) << "anew";
        EXPECT_EQ(assembly.take(Rank(1), message, kPiece, 0).body.size(), 200U);
    }
}

TEST(Parts, NobodyMakesMoreThanTheLongestBody) {
    Assembly assembly(1000);
    EXPECT_EQ(assembly.take(Rank(1), {kUp, 0}, kPiece, 901).state, Assembly::State::garbage);
    EXPECT_EQ(assembly.take(Rank(1), {kUp, 0}, kPiece, UINT32_MAX).state, Assembly::State::garbage);
    EXPECT_EQ(assembly.take(Rank(1), {kUp, 0}, {}, 1).state, Assembly::State::garbage);
    EXPECT_EQ(assembly.take(Rank(1), {kUp, 0}, kPiece, 900).state, Assembly::State::unfinished);
}

TEST(Parts, OfTheDeadAreForgotten) {
    Assembly assembly(1000);
    FailedSet dead;
    dead.insert(2);
    for (const std::uint32_t rank : {1U, 2U, 3U})
        EXPECT_EQ(assembly.take(Rank(rank), {kUp, 0}, kPiece, 100).state, Assembly::State::unfinished);
    assembly.forget(Rank(1));
    assembly.forget(dead);
    EXPECT_EQ(assembly.take(Rank(1), {kUp, 0}, kPiece, 0).body.size(), 100U);
    EXPECT_EQ(assembly.take(Rank(2), {kUp, 0}, kPiece, 0).body.size(), 100U);
    EXPECT_EQ(assembly.take(Rank(3), {kUp, 0}, kPiece, 0).body.size(), 200U);
}

}  // namespace
}  // namespace coppice::engine
