#include "transport/conformance.hpp"
#include "base/mix.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

namespace coppice::testing {

Bytes pattern(std::uint64_t seed, std::size_t length) {
    Bytes bytes(length);
    for (std::size_t at = 0; at < length; ++at)
        bytes[at] = static_cast<std::byte>(mix(seed * 8192 + at / 8 + kWeyl) >> (8 * (at % 8)));
    return bytes;
}

bool is_pattern(std::span<const std::byte> bytes, std::uint64_t seed) {
    const Bytes expected = pattern(seed, bytes.size());
    return std::equal(bytes.begin(), bytes.end(), expected.begin());
}

Bytes header_of(std::uint64_t first, std::uint64_t second) {
    Bytes header(16);
    std::memcpy(header.data(), &first, 8);
    std::memcpy(header.data() + 8, &second, 8);
    return header;
}

std::uint64_t header_word(std::span<const std::byte> header, std::size_t index) {
    std::uint64_t word = ~std::uint64_t{0};
    if (header.size() >= 8 * (index + 1)) std::memcpy(&word, header.data() + 8 * index, 8);
    return word;
}

std::string factory_name(const ::testing::TestParamInfo<Factory*>& info) {
    return info.param->name();
}

bool Recorder::message(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload,
                       transport::Buffer buffer) {
    if (failed(from)) throw CheckFailed("a message of a failed peer was delivered");
    if (keep && buffer != 0) {
        kept.push_back({from, Bytes(header.begin(), header.end()), payload, buffer});
        return true;
    }
    Received received{from, Bytes(header.begin(), header.end()), Bytes(payload.begin(), payload.end())};
    if (on_message)
        on_message(received);
    else
        messages.push_back(std::move(received));
    return false;
}

void Recorder::peer_failed(Seat peer, transport::FailureCause cause) {
    if (failed(peer)) throw CheckFailed("a failure was reported twice");
    failures.push_back({peer, cause});
}

std::size_t shared_mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find("memfd:coppice") != std::string::npos ? 1 : 0;
    return count;
}

std::size_t Recorder::count(Seat from) const {
    return static_cast<std::size_t>(
        std::count_if(messages.begin(), messages.end(), [&](const Received& m) { return m.from == from; }));
}

bool Recorder::failed(Seat peer) const {
    return std::any_of(failures.begin(), failures.end(), [&](const Failure& f) { return f.peer == peer; });
}

Member::Member(Factory& factory, Stage& stage, Seat self, std::uint32_t size)
    : stage_(stage), self_(self), size_(size) {
    auto made = factory.make(self, size);
    if (!made) throw CheckFailed("make: " + made.error().message);
    transport_ = std::move(*made);
}

void Member::interpose(const transport::FaultPlan& plan) {
    transport_ = std::make_unique<transport::FaultyTransport>(std::move(transport_), plan,
                                                              std::make_shared<transport::MessageCount>(plan));
}

void Member::publish_address() {
    const Bytes mine = transport_->address();
    COPPICE_CHECK(!mine.empty() && mine.size() <= sizeof(Stage::Address::bytes));
    Stage::Address& slot = stage_.addresses[self_.value];
    std::copy(mine.begin(), mine.end(), slot.bytes);
    slot.length.store(static_cast<std::uint32_t>(mine.size()));
}

Bytes Member::address_of(Seat peer) {
    Stage::Address& slot = stage_.addresses[peer.value];
    poll_until([&] { return slot.length.load() != 0; }, "a peer's address");
    return Bytes(slot.bytes, slot.bytes + slot.length.load());
}

void Member::meet() {
    publish_address();
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
        if (peer == self_.value) continue;
        const auto added = transport_->add_peer(Seat{peer}, address_of(Seat{peer}));
        if (!added) throw CheckFailed("add_peer: " + added.error().message);
    }
    barrier();
}

void Member::poll() {
    transport_->poll(recorder);
}

void Member::poll_until(const std::function<bool()>& condition, const char* what) {
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (!condition()) {
        poll();
        sched_yield();
        if (now_ns() > deadline) throw CheckFailed(std::string("waited in vain for ") + what);
    }
}

transport::SendStatus Member::send(Seat to, const Bytes& header, const Bytes& payload) {
    std::uint32_t in_flight = 0;
    transport::SendStatus status = transport::SendStatus::again;
    poll_until(
        [&] {
            status = transport_->send(to, header, payload, &in_flight);
            return status != transport::SendStatus::again;
        },
        "room to send");
    poll_until([&] { return in_flight == 0; }, "a payload to leave");
    return status;
}

void Member::barrier() {
    ++barriers_;
    stage_.arrived[self_.value].store(barriers_);
    for (std::uint32_t peer = 0; peer < size_; ++peer)
        poll_until([&] { return stage_.arrived[peer].load() >= barriers_ || recorder.failed(Seat{peer}); },
                   "a barrier");
}

void Member::leave() {
    barrier();
    poll_until([&] { return transport_->leave(); }, "leaving");
    barrier();
}

Ranks::Ranks() {
    begin_again();
}

void Ranks::begin_again() {
    processes_.clear();
    memory_ = std::make_unique<SharedMemory>(sizeof(Stage));
}

void Ranks::start(std::uint32_t size, const Body& body, bool raw) {
    for (std::uint32_t rank = 0; rank < size; ++rank)
        processes_.start([&, rank] {
            Member member(factory(), stage(), Seat{rank}, size);
            if (!raw) member.meet();
            body(member);
            return 0;
        });
    waited_.assign(size, false);
}

std::size_t Ranks::start_one(Seat rank, std::uint32_t size, const Body& body, std::uint32_t incarnation) {
    processes_.start([this, rank, size, body, incarnation] {
        factory().incarnation = incarnation;
        Member member(factory(), stage(), rank, size);
        member.publish_address();
        body(member);
        return 0;
    });
    waited_.push_back(false);
    return waited_.size() - 1;
}

bool Ranks::expect_well(std::size_t rank, std::uint64_t deadline_ns) {
    waited_[rank] = true;
    const Ending ending = processes_.wait(rank, deadline_ns);
    EXPECT_TRUE(ending.well()) << "rank " << rank << ": " << ending.text();
    return ending.well();
}

void Ranks::expect_killed(std::size_t rank) {
    waited_[rank] = true;
    const Ending ending = processes_.wait(rank);
    EXPECT_TRUE(ending.killed_by(SIGKILL)) << "rank " << rank << ": " << ending.text();
}

void Ranks::expect_all_well() {
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (std::ranges::find(waited_, false) != waited_.end()) {
        for (std::size_t rank = 0; rank < waited_.size(); ++rank) {
            if (waited_[rank] || (!processes_.has_ended(rank) && now_ns() < deadline)) continue;
            if (expect_well(rank, deadline)) continue;
            return kill_the_rest();  // a rank that fails a check leaves the others waiting for it
        }
        usleep(200);
    }
}

void Ranks::kill_the_rest() {
    for (std::size_t rank = 0; rank < waited_.size(); ++rank)
        if (!waited_[rank]) processes_.signal(rank, SIGKILL);
    waited_.assign(waited_.size(), true);
}

void Ranks::expect_all_well_but(std::size_t killed) {
    expect_killed(killed);
    expect_all_well();
}

void Ranks::await_word(std::size_t index, std::uint64_t least) {
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (stage().words[index].load() < least && now_ns() < deadline)
        usleep(100);
    ASSERT_GE(stage().words[index].load(), least);
}

}  // namespace coppice::testing
