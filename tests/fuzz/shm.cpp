// What other processes of a host write into a rank's shared memory (shm): inboxes, and the counters by which their readers answer;
// claims, doorbells and who fences; and what a rank reads in the memory of others: lines, counters, logs, where its bulk is.
#include <sys/mman.h>

#include <array>
#include <memory>
#include <optional>

#include "fuzz.hpp"
#include "transport/shm/link.hpp"
#include "transport/shm/segment.hpp"
#include "transport/shm/shm_transport.hpp"

using namespace coppice;
using namespace coppice::transport;
using shm::Inbox;
using shm::Outbox;

namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t bytes, std::uint32_t seed) {
    Bytes made(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        made[i] = static_cast<std::byte>(seed + i + (i >> 8));
    return made;
}

// Writes what the input says anywhere there.
void damage(std::span<std::byte> memory, fuzz::Input& input) {
    const std::size_t at = input.number<std::uint32_t>() % memory.size();
    const auto bytes = input.take(std::min<std::size_t>(input.number<std::uint8_t>(), memory.size() - at));
    std::ranges::copy(bytes, memory.begin() + static_cast<std::ptrdiff_t>(at));
}

// --------------------------------------------------------------------------------------------------------- inboxes ---

// An inbox alone, with pages around it that nobody may touch.
class Pages {
  public:
    explicit Pages(std::size_t bytes) : bytes_(bytes) {
        void* const all = ::mmap(nullptr, bytes + 2 * shm::kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        FUZZ_CHECK(all != MAP_FAILED);
        begin_ = static_cast<std::byte*>(all) + shm::kPage;
        FUZZ_CHECK(::mprotect(begin_, bytes, PROT_READ | PROT_WRITE) == 0);
    }
    std::span<std::byte> bytes() const { return {begin_, bytes_}; }
    void clear() const { FUZZ_CHECK(::madvise(begin_, bytes_, MADV_DONTNEED) == 0); }

  private:
    std::byte* begin_;
    std::size_t bytes_;
};

constexpr shm::InboxShape kShape(1);
constexpr std::uint64_t kKey = 0x0123456789abcdef;

// A writer that plays by the rules, and a reader that keeps what it likes. All comes as it was sent, however often the other end's words
// are damaged that nobody believes; once the messages are, what comes stays within the inbox.
class Link {
  public:
    explicit Link(std::span<std::byte> memory) : memory_(memory), outbox_(kShape), inbox_(kShape) {
        outbox_.attach(memory.data(), kKey);
        inbox_.attach(memory.data(), kKey);
    }

    void put(fuzz::Input& input, bool is_told_what_was_consumed = true) {
        const auto seed = input.number<std::uint8_t>();
        const Bytes header = pattern(seed % (kMaxHeader + 1), seed);
        const Bytes payload = pattern(input.number<std::uint16_t>() % (kMaxPayload + 1), seed + 1U);
        const bool at_once = outbox_.takes_at_once(header.size(), payload.size());
        const bool is_put = outbox_.put(header, payload);
        FUZZ_CHECK(is_put || !at_once);
        FUZZ_CHECK(is_put || is_damaged_ || !is_told_what_was_consumed || sent_.size() - taken_ >= kShape.descriptors ||
                   !fits(header, payload));
        if (is_put) sent_.push_back({header, payload});
    }

    void take(bool keep) {
        Inbox::View view;
        const auto found = inbox_.peek(view);
        if (found == Inbox::Found::garbage) FUZZ_CHECK(is_damaged_);
        if (found != Inbox::Found::message) {
            FUZZ_CHECK(is_damaged_ || taken_ == sent_.size());
            return;
        }
        const std::span header(view.header, view.header_length);
        const std::span payload(view.payload, view.payload_length);
        FUZZ_CHECK(header.size() <= kMaxHeader && payload.size() <= kMaxPayload);
        FUZZ_CHECK(fuzz::within({view.header, kMaxHeader}, memory_) && fuzz::within(payload, memory_));
        const bool is_in_slot = view.slot != shm::Descriptor::kInline;
        FUZZ_CHECK(!is_in_slot || view.slot < kShape.slots);
        // Not one that somebody still looks at.
        FUZZ_CHECK(!is_in_slot || std::ranges::find(kept_, view.slot) == kept_.end());
        if (!is_damaged_) {
            FUZZ_CHECK(taken_ < sent_.size());
            FUZZ_CHECK(fuzz::same(header, sent_[taken_].header) && fuzz::same(payload, sent_[taken_].payload));
        }
        ++taken_;
        inbox_.take(view, keep);
        if (keep && is_in_slot) kept_.push_back(view.slot);
        FUZZ_CHECK(inbox_.holds() == !kept_.empty());
    }

    void release(std::uint32_t slot) {
        const bool is_kept = std::erase(kept_, slot) > 0;
        FUZZ_CHECK(inbox_.release(slot) == is_kept);
        FUZZ_CHECK(!inbox_.release(slot));
    }

    // The messages, if that is what is there.
    void damage_any(fuzz::Input& input) {
        is_damaged_ = true;
        damage(memory_, input);
    }
    // A message, mostly where the next one is waited for.
    void forge(fuzz::Input& input) {
        is_damaged_ = true;
        const auto what = input.number<std::uint8_t>();
        const std::size_t number = what % 4 == 0 ? input.number<std::uint8_t>() : taken_;
        const std::size_t at = number % kShape.descriptors * sizeof(shm::Descriptor);
        auto& in = shared::at<shm::Descriptor>(memory_.data() + kShape.descriptors_at + at);
        in.payload_length = input.number<std::uint32_t>() >> (input.number<std::uint8_t>() % 32);
        in.header_length = what % 8 == 1 ? input.number<std::uint16_t>() : kMaxHeader;
        const auto slot = input.number<std::uint8_t>();
        in.slot = slot < 128 ? slot % (kShape.slots + 2) : shm::Descriptor::kInline;
        in.stamp.publish(kKey + number + 1);
    }
    // What the reader says that it has consumed: more than was sent, or less than it said before, counts for nothing.
    void misstate(fuzz::Input& input) {
        auto& consumed = shared::at<shared::Published<std::uint64_t>>(memory_.data());
        const std::uint64_t before = consumed.read();
        const bool too_much = input.number<std::uint8_t>() % 2 == 0;
        consumed.publish(too_much ? sent_.size() + 1 + input.number<std::uint32_t>() : 0);
        put(input, false);
        consumed.publish(before);
    }

  private:
    struct Sent {
        Bytes header;
        Bytes payload;
    };
    // Whether a slot is needed, and then one is free for certain.
    bool fits(const Bytes& header, const Bytes& payload) const {
        return shm::round_up(header.size(), 8) + payload.size() <= shm::Descriptor::kData ||
               kept_.size() + (sent_.size() - taken_) < kShape.slots;
    }

    std::span<std::byte> memory_;
    Outbox outbox_;
    Inbox inbox_;
    std::vector<Sent> sent_;
    std::size_t taken_ = 0;
    std::vector<std::uint32_t> kept_;  // slots
    bool is_damaged_ = false;
};

void read_inbox(fuzz::Input& input) {
    static const Pages pages(kShape.stride);
    pages.clear();
    Link link(pages.bytes());
    while (!input.empty()) {
        const auto command = input.number<std::uint8_t>();
        switch (command % 8) {
            case 0:
            case 1:
                link.put(input);
                break;
            case 2:
            case 3:
            case 4:
                link.take((command & 8) != 0);
                break;
            case 5:
                link.release((command >> 3) % (kShape.slots + 2));
                break;
            case 6:
                link.misstate(input);
                break;
            default:
                if ((command & 8) != 0)
                    link.forge(input);
                else
                    link.damage_any(input);
        }
    }
}

// -------------------------------------------------------------------------------------------------------- segments ---

constexpr std::uint32_t kGroup = 4;

struct Heard final : Receiver {
    bool message(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload,
                 Buffer buffer) override {
        FUZZ_CHECK(from.value < kGroup && header.size() <= kMaxHeader && payload.size() <= kMaxPayload);
        headers[from.value].emplace_back(header.begin(), header.end());
        payloads[from.value].emplace_back(payload.begin(), payload.end());
        if (buffer != 0) buffers.push_back(buffer);
        return buffer != 0;
    }
    void peer_failed(Seat, FailureCause) override {}
    void peer_left(Seat) override {}
    void fenced(Seat by) override { FUZZ_CHECK(by.value < kGroup); }

    std::array<std::vector<Bytes>, kGroup> headers;
    std::array<std::vector<Bytes>, kGroup> payloads;
    std::vector<Buffer> buffers;
};

std::unique_ptr<ShmTransport> made(std::uint32_t self) {
    ShmOptions options;
    options.self = Seat(self);
    options.group_size = kGroup;
    options.window = 1;
    options.second_look_ns = 0;
    auto transport = ShmTransport::create(options);
    FUZZ_CHECK(transport.has_value());
    return std::move(*transport);
}

constexpr shm::Layout kLayout(1, kGroup, kGroup, 0);

// A rank's segment as all processes of the host may map it.
class Mapped {
  public:
    explicit Mapped(const ShmTransport& transport) : address_(*shm::decode(Seat(0), transport.address())) {
        FUZZ_CHECK(address_.segment_size == kLayout.size);
        void* const all = ::mmap(nullptr, kLayout.size, PROT_READ | PROT_WRITE, MAP_SHARED, address_.fd, 0);
        FUZZ_CHECK(all != MAP_FAILED);
        begin_ = static_cast<std::byte*>(all);
    }
    ~Mapped() { ::munmap(begin_, kLayout.size); }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;

    const shm::Address& address() const { return address_; }
    shm::Header& header() const { return *reinterpret_cast<shm::Header*>(begin_); }
    shm::Mailroom& mailroom() const { return shared::at<shm::Mailroom>(begin_ + kLayout.mailroom_at); }
    shm::Claim& claim(std::uint32_t inbox) const {
        return shared::at<shm::Claim>(begin_ + kLayout.claims_at + inbox * sizeof(shm::Claim));
    }
    std::span<std::byte> first_panel() const { return {begin_ + kLayout.panels_at, kLayout.panel_stride}; }
    // Of an inbox what has memory from the start.
    std::span<std::byte> inbox(std::uint32_t number) const {
        return {begin_ + kLayout.inboxes_at + number * kLayout.inbox.stride, kLayout.inbox.slots_at};
    }

  private:
    shm::Address address_;
    std::byte* begin_;
};

// Rank 1 sends what it should, and somebody writes into all that rank 1 does not need of the memory of rank 0: claims, inboxes, who fences.
// Rank 0 hears all of rank 1, and of others nothing but what they can have said.
void read_mailroom(fuzz::Input& input) {
    const auto mine = made(0);
    const auto peer = made(1);
    const auto third = made(2);
    FUZZ_CHECK(mine->add_peer(Seat(1), peer->address()) && peer->add_peer(Seat(0), mine->address()));
    if (input.number<std::uint8_t>() % 2 == 0) FUZZ_CHECK(mine->add_peer(Seat(2), third->address()).has_value());
    Heard heard;
    std::uint32_t in_flight = 0;
    std::uint32_t sent = 0;
    const auto send = [&] {
        const Bytes header = pattern(40, sent);
        FUZZ_CHECK(peer->send(Seat(0), header, pattern(sent % 300, sent), &in_flight) == SendStatus::sent);
        ++sent;
        mine->poll(heard);
        FUZZ_CHECK(heard.headers[1].size() == sent && heard.headers[1].back() == header);
        FUZZ_CHECK(heard.payloads[1].back() == pattern((sent - 1) % 300, sent - 1));
    };
    send();  // it has its inbox
    const Mapped memory(*mine);
    const std::array<std::uint64_t, 4> nonces{memory.address().nonce, shm::decode(Seat(1), peer->address())->nonce,
                                              shm::decode(Seat(2), third->address())->nonce, 0};
    bool has_claimed_for_third = false;
    const auto nonce = [&](std::uint8_t which) {
        return which % 8 < nonces.size() ? nonces[which % 8] : input.number<std::uint64_t>();
    };
    for (int commands = 0; commands < 64 && !input.empty(); ++commands) {
        const auto command = input.number<std::uint8_t>();
        const auto inbox = static_cast<std::uint32_t>(1 + input.number<std::uint8_t>() % (kLayout.inboxes - 1));
        shm::Mailroom& mail = memory.mailroom();
        switch (command % 8) {
            case 0:
                memory.claim(inbox).holder.set(nonce(command >> 3));
                memory.claim(inbox).rank = command % 16 == 0 ? input.number<std::uint32_t>() : command >> 4;
                memory.claim(inbox).ready.publish(input.number<std::uint8_t>() % 4);
                has_claimed_for_third |= memory.claim(inbox).holder.get() == nonces[2];
                break;
            case 1:
                damage(memory.inbox(inbox), input);
                break;
            case 2:
                mail.doorbell[input.number<std::uint8_t>() % (shm::kMaxLocal / 64)].ring(input.number<std::uint64_t>() &
                                                                                         ~std::uint64_t{1});
                break;
            case 3:
                mail.fencers[input.number<std::uint16_t>() % shm::kMaxLocal].publish(nonce(command >> 3));
                mail.fences.restart(input.number<std::uint32_t>());
                mail.is_fenced.publish(command >> 3);
                break;
            case 4:
                mail.claimed.restart(input.number<std::uint64_t>());
                mail.listeners.set(command >> 3);
                mail.listens.set(command >> 4);
                break;
            case 5: {  // a message, as whoever has that inbox would write it
                auto& in = shared::at<shm::Descriptor>(memory.inbox(inbox).data() + kLayout.inbox.descriptors_at);
                in.payload_length = input.number<std::uint16_t>();
                in.header_length = input.number<std::uint8_t>();
                in.slot = (command & 8) != 0 ? shm::Descriptor::kInline : input.number<std::uint8_t>();
                in.stamp.publish(shm::link_key(nonces[0], memory.claim(inbox).holder.get()) + 1);
                mail.doorbell[0].ring(std::uint64_t{1} << inbox);
                break;
            }
            case 6:
                if (!heard.buffers.empty()) mine->release(heard.buffers[inbox % heard.buffers.size()]);
                break;
            default:
                send();
        }
        mine->poll(heard);
        FUZZ_CHECK(heard.headers[0].empty() && heard.headers[3].empty() && heard.headers[1].size() == sent);
        FUZZ_CHECK(heard.headers[2].empty() || has_claimed_for_third);
    }
    send();
}

// Rank 1 writes what it likes into what it shows to rank 0.
void read_board(fuzz::Input& input) {
    const auto mine = made(0);
    const auto peer = made(1);
    FUZZ_CHECK(mine->add_peer(Seat(1), peer->address()) && mine->seal_board({Seat(1)}));
    const Mapped theirs(*peer);
    const std::span<std::byte> panel = theirs.first_panel();
    Board& board = mine->board(0);
    for (int commands = 0; commands < 64 && !input.empty(); ++commands) {
        const auto command = input.number<std::uint8_t>();
        if ((command & 1) != 0) damage(panel, input);
        if ((command & 2) != 0) {
            auto& line = shared::at<shm::Line>(panel.data() + kLayout.lines_at);
            line.length = input.number<std::uint32_t>() >> (command >> 3);
            line.root = command >> 6;
            line.stamp.publish(input.number<std::uint8_t>() + 1);
        }
        if ((command & 8) != 0)
            shared::at<shm::PanelHeader>(panel.data())
                .log_length.value.publish(input.number<std::uint64_t>() >> (command >> 2));
        if ((command & 4) != 0) {
            const auto descriptor = input.number<std::uint8_t>();
            theirs.header().bulk_file.publish(input.number<std::uint64_t>() << 32 | descriptor % 64);
        }
        const Sequence sequence(input.number<std::uint8_t>());
        PublishedLine line;
        if (board.look(Rank(1), sequence, line)) {
            FUZZ_CHECK(line.length <= kMaxPayload);
            Bytes copy(input.number<std::uint16_t>() % (kMaxPayload + 1));
            const std::span<const std::byte> payload(line.payload, line.length);
            std::size_t length = SIZE_MAX;
            if (board.copy_published(Rank(1), sequence, copy, &length))
                FUZZ_CHECK(length == line.length && fuzz::same(std::span(copy).first(length), payload));
            else
                FUZZ_CHECK(line.root != 1 || line.detail != 0 || line.length > copy.size());
        }
        const std::uint32_t logged = board.log_length(Rank(1));
        FUZZ_CHECK(logged <= kGroup);
        for (std::uint32_t i = 0; i < logged; ++i)
            static_cast<void>(board.logged(Rank(1), i));
        FUZZ_CHECK(board.logged(Rank(1), kGroup + command).value == kGroup);
        static_cast<void>(board.consumed(Rank(1)));
        static_cast<void>(board.stable(Rank(1)));
        static_cast<void>(board.departed(Rank(1)));
        FUZZ_CHECK(!board.look(Rank(2), sequence, line) && board.region(Rank(3), {}) == nullptr);
        // Nothing but a bulk file of its own is one.
        FUZZ_CHECK(board.bulk(Rank(1), input.number<std::uint32_t>(), input.number<std::uint16_t>()) == nullptr);
    }
}

// Places in a bulk that is there.
void read_bulk(fuzz::Input& input) {
    const auto mine = made(0);
    const auto peer = made(1);
    FUZZ_CHECK(mine->add_peer(Seat(1), peer->address()) && mine->seal_board({Seat(1)}));
    FUZZ_CHECK(peer->add_peer(Seat(0), mine->address()) && peer->seal_board({Seat(0)}));
    constexpr std::size_t kMost = 64 * 1024;
    const Bytes payload = pattern(1 + input.number<std::uint16_t>(), 5);
    const Board::Bulk bulk = peer->board(0).take_bulk(payload.size(), kMost);
    FUZZ_CHECK(bulk.data != nullptr && bulk.place != 0);
    std::ranges::copy(payload, bulk.data);
    const std::byte* const seen = mine->board(0).bulk(Rank(1), bulk.place, payload.size());
    FUZZ_CHECK(seen != nullptr && fuzz::same({seen, payload.size()}, payload));
    while (!input.empty()) {
        const auto place = input.number<std::uint64_t>() >> (input.number<std::uint8_t>() % 64);
        const auto bytes = input.number<std::uint64_t>() >> (input.number<std::uint8_t>() % 64);
        const std::byte* const part = mine->board(0).bulk(Rank(1), place, bytes);
        FUZZ_CHECK((part != nullptr) ==
                   (place >= shm::kPage && place <= shm::kPage + kMost && bytes <= shm::kPage + kMost - place));
        if (part == nullptr || bytes == 0) continue;
        FUZZ_CHECK(part == seen + (place - bulk.place));
        static_cast<void>(static_cast<const volatile std::byte*>(part)[0]);
        static_cast<void>(static_cast<const volatile std::byte*>(part)[bytes - 1]);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    switch (input.number<std::uint8_t>() % 5) {
        case 0:
        case 1:
            read_inbox(input);
            break;
        case 2:
            read_mailroom(input);
            break;
        case 3:
            read_board(input);
            break;
        default:
            read_bulk(input);
    }
    return 0;
}
