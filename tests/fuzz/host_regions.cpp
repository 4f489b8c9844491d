// What ranks of a host show to each other in the regions of their memory (transport::Board): rows of large payloads with their
// descriptors, and contributions to agreements. Any word of them may be anything.
#include <array>
#include <memory>

#include "engine/collectives/agreement/contributions.hpp"
#include "engine/collectives/payload/row.hpp"
#include "fuzz.hpp"

using namespace coppice;
using engine::Contributions;
using engine::Descriptor;

namespace {

// --------------------------------------------------------------------------------------------------- descriptors ---

// Each has one form, and its chunks are the payload.
void check_descriptor(const Descriptor& descriptor) {
    FUZZ_CHECK(descriptor.bytes > 0 && descriptor.bytes <= engine::kMaxBroadcast);
    FUZZ_CHECK(descriptor.chunk >= engine::kLeastChunk && descriptor.chunk <= engine::kMostChunk);
    const std::uint32_t last = descriptor.chunks() - 1;
    FUZZ_CHECK(descriptor.at(last) + descriptor.length(last) == descriptor.bytes);
    FUZZ_CHECK(descriptor.length(last) > 0 && descriptor.length(last) <= descriptor.chunk);
    FUZZ_CHECK(last == 0 || (descriptor.length(0) == descriptor.chunk && descriptor.at(1) == descriptor.chunk));
}

void read_descriptor(fuzz::Input& input) {
    const bool is_sound = (input.number<std::uint8_t>() & 1U) != 0;
    std::vector<std::byte> bytes = fuzz::exact(input.take(sizeof(Descriptor) + input.number<std::uint8_t>() % 2));
    if (is_sound && bytes.size() == sizeof(Descriptor)) {  // an attacker gets the checksum right
        Descriptor made;
        std::memcpy(&made, bytes.data(), sizeof made);
        made = Descriptor::of(made.bytes >> (made.bytes % 64), made.chunk % (2 * engine::kMostChunk));
        std::memcpy(bytes.data(), &made, sizeof made);
    }
    const auto descriptor = Descriptor::read(bytes);
    if (!descriptor) return;
    FUZZ_CHECK(fuzz::same(descriptor->as_bytes(), bytes));
    check_descriptor(*descriptor);
}

// ---------------------------------------------------------------------------------------------------------- rows ---

void read_row(fuzz::Input& input) {
    engine::RowWords words;
    const std::uint64_t bytes = input.number<std::uint64_t>();
    const auto chunk = input.number<std::uint32_t>() % (2 * engine::kMostChunk);
    const engine::Row shown{.sequence = Sequence(input.number<std::uint64_t>()),
                            .root = Rank(input.number<std::uint32_t>()),
                            .descriptor = Descriptor::of(bytes >> (bytes % 64), chunk),
                            .place = input.number<std::uint64_t>(),
                            .have = input.number<std::uint32_t>() >> (bytes % 32)};
    words.write(shown);
    words.stamp.publish(shown.sequence.value + 1);
    const bool can_be = Descriptor::read(shown.descriptor.as_bytes()) && shown.have <= shown.descriptor.chunks();
    if (const auto row = words.read()) {
        FUZZ_CHECK(row->is_wrong == !can_be && row->sequence == shown.sequence);
        FUZZ_CHECK(row->is_wrong || (row->root == shown.root && row->descriptor == shown.descriptor &&
                                     row->place == shown.place && row->have == shown.have));
    } else {
        FUZZ_CHECK(shown.sequence.value == UINT64_MAX);
    }
    const auto changes = input.take(input.number<std::uint8_t>() % (sizeof words + 1));
    const auto all = std::as_writable_bytes(std::span(&words, 1));
    for (std::size_t i = 0; i < changes.size(); ++i)
        all[i] ^= changes[i];
    const auto row = words.read();
    FUZZ_CHECK(row.has_value() == (words.stamp.read() != 0));
    if (!row || row->is_wrong) return;
    check_descriptor(row->descriptor);
    FUZZ_CHECK(row->have <= row->descriptor.chunks());
    engine::RowWords written;
    written.write(*row);
    FUZZ_CHECK(written.have.read() == words.have.read());
}

// ------------------------------------------------------------------------------------------------- contributions ---

constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kLines = 4;

// The regions of two ranks, and nothing else.
class Regions final : public transport::Board {
  public:
    Regions()
        : declared_(Contributions::host_region(kRanks, kLines)),
          regions_(std::span(&declared_, 1)),
          memory_{made(), made()} {}

    transport::Regions::Place find_region(std::string_view name) const override { return regions_.find(name); }
    std::byte* own_region(transport::Regions::Place place) override { return begin(0) + place.at; }
    const std::byte* region(Rank member, transport::Regions::Place place) const override {
        return member.value < memory_.size() ? begin(member.value) + place.at : nullptr;
    }
    std::span<std::byte> bytes_of(std::uint32_t rank) { return {begin(rank), declared_.bytes}; }

    std::span<const Rank> members() const override { return {}; }
    std::uint32_t lines() const override { return kLines; }
    std::byte* line_memory(Sequence) override { return nullptr; }
    void will_publish(Sequence) override {}
    void publish(Sequence, std::uint32_t, std::uint32_t, std::uint32_t) override {}
    void publish_copy(Sequence, std::span<const std::byte>, std::uint32_t, std::uint32_t) override {}
    bool look(Rank, Sequence, transport::PublishedLine&) const override { return false; }
    bool copy_published(Rank, Sequence, std::span<std::byte>, std::size_t*) const override { return false; }
    void set_consumed(Sequence) override {}
    Sequence consumed(Rank) const override { return {}; }
    void set_stable(Sequence) override {}
    Sequence stable(Rank) const override { return {}; }
    void log_failure(Rank) override {}
    std::uint32_t log_length(Rank) const override { return 0; }
    Rank logged(Rank, std::uint32_t) const override { return Rank(0); }
    bool alive(Rank) const override { return true; }
    bool fenced() const override { return false; }
    void depart() override {}
    bool departed(Rank) const override { return false; }

  private:
    // Aligned as regions are, and of exactly that size.
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    using Memory = std::unique_ptr<std::byte, Free>;
    Memory made() const {
        auto* const memory = static_cast<std::byte*>(std::aligned_alloc(transport::kRegionAlignment, regions_.bytes()));
        std::memset(memory, 0, regions_.bytes());
        return Memory(memory);
    }
    std::byte* begin(std::uint32_t rank) const { return memory_[rank].get(); }

    transport::Region declared_;
    transport::Regions regions_;
    std::array<Memory, 2> memory_;
};

template <class Told>
void check_value(const Told& told, std::span<const std::byte> memory) {
    FUZZ_CHECK(told.value.size() <= protocol::AgreementPlan::kMaxValue && fuzz::within(told.value, memory));
    std::uint8_t change_waits = 0;  // as it is in memory
    std::memcpy(&change_waits, &told.change_waits, sizeof change_waits);
    FUZZ_CHECK(change_waits <= 1);
}

bool is_same(const protocol::Contribution& a, const protocol::Contribution& b) {
    return a.operation == b.operation && a.change_waits == b.change_waits && a.acknowledged == b.acknowledged &&
           fuzz::same(a.value, b.value);
}
bool is_same(const protocol::Summary& a, const protocol::Summary& b) {
    return a.operation == b.operation && a.change_waits == b.change_waits && a.unacknowledged == b.unacknowledged &&
           a.differs == b.differs && fuzz::same(a.value, b.value);
}

// Rank 0 writes as it should, and rank 1 what it likes.
void read_contributions(fuzz::Input& input) {
    Regions board;
    FUZZ_CHECK(Contributions::fits(board, kRanks, kLines));
    Contributions contributions(board, kRanks, kLines);
    while (!input.empty()) {
        const auto flags = input.number<std::uint8_t>();
        const std::uint64_t sequence = input.number<std::uint8_t>();
        const std::uint64_t period = flags >> 4;
        const auto value =
            fuzz::exact(input.take(input.number<std::uint16_t>() % (protocol::AgreementPlan::kMaxValue + 1)));
        const protocol::Contribution told{.operation = flags,
                                          .change_waits = (flags & 1) != 0,
                                          .acknowledged = static_cast<std::uint32_t>(value.size()),
                                          .value = value};
        contributions.publish(sequence, told);
        protocol::Contribution seen;
        FUZZ_CHECK(contributions.look(0, sequence, seen) && is_same(seen, told));
        const protocol::Summary summed{.operation = flags,
                                       .change_waits = (flags & 2) != 0,
                                       .unacknowledged = (flags & 4) != 0,
                                       .differs = flags,
                                       .value = value};
        contributions.publish_summary(sequence, period, summed);
        protocol::Summary sum;
        FUZZ_CHECK(contributions.look_summary(0, sequence, period, sum) && is_same(sum, summed));
        FUZZ_CHECK(!contributions.look(0, sequence + kLines, seen) && !contributions.look(2, sequence, seen));

        const std::span<std::byte> theirs = board.bytes_of(1);
        if ((flags & 8) != 0) std::ranges::copy(board.bytes_of(0), theirs.begin());
        const std::size_t at = input.number<std::uint16_t>() % theirs.size();
        const auto changes = input.take(std::min<std::size_t>(input.number<std::uint8_t>(), theirs.size() - at));
        std::ranges::copy(changes, theirs.begin() + static_cast<std::ptrdiff_t>(at));
        if (contributions.look(1, sequence, seen)) check_value(seen, theirs);
        if (contributions.look_summary(1, sequence, period, sum)) check_value(sum, theirs);
        FUZZ_CHECK(contributions.logged_acknowledged(1, kRanks + flags) == kRanks);
        static_cast<void>(contributions.logged_acknowledged(1, flags % kRanks));
        static_cast<void>(contributions.recoveries(1));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    switch (input.number<std::uint8_t>() % 3) {
        case 0:
            read_descriptor(input);
            break;
        case 1:
            read_row(input);
            break;
        default:
            read_contributions(input);
    }
    return 0;
}
