#include "engine/collectives/payload/shown.hpp"

#include "base/mix.hpp"

namespace coppice::engine {
namespace {

constexpr std::string_view kRegion = "payloads";
constexpr std::size_t kCacheLine = 64;

}  // namespace

// The first three are covered by the stamp. Behind those of the window there is one more: its stamp is 0 until its rank shows
// something for the first time.
struct alignas(kCacheLine) Shown::Words {
    shared::Relaxed<std::uint64_t> place;
    shared::Relaxed<std::uint64_t> bytes;
    shared::Relaxed<std::uint64_t> chunk_and_root;
    shared::Published<std::uint64_t> have;   // check << 32 | chunks
    shared::Published<std::uint64_t> stamp;  // sequence + 1
};

transport::Region Shown::host_region(const Settings& settings) {
    return {.name = kRegion, .bytes = (settings.window + 1) * sizeof(Words)};
}

Shown::Shown(const Core& core)
    : board_(core.publishing() ? core.board() : nullptr),
      most_bytes_(core.settings().payload_window),
      is_to_be_heard_(core.settings().detection_bound.value != 0) {
    if (board_ == nullptr) return;
    region_ = board_->find_region(kRegion);
    has_readers_ = board_->members().size() > 1;
    for (const Rank rank : board_->members()) {
        const Words* const words = rank == core.members().self() ? nullptr : words_of(rank);
        if (words != nullptr) firsts_.push_back(&words[board_->lines()].stamp);
    }
}

Shown::Words& Shown::own_words(Sequence sequence) const {
    std::byte* const rows = board_->own_region(region_);
    return shared::at<Words>(rows + sequence.value % board_->lines() * sizeof(Words));
}

const Shown::Words* Shown::words_of(Rank by) const {
    const std::byte* const rows = board_->region(by, region_);
    return rows == nullptr ? nullptr : &shared::at<Words>(rows);
}

std::uint64_t Shown::sealed(const Words& words, Sequence sequence, std::uint32_t have) {
    const std::uint64_t check =
        mix(mix(mix(words.place.get(), words.bytes.get()), words.chunk_and_root.get()), mix(sequence.value, have));
    return check << 32 | have;
}

// A payload that all have consumed may still be on its way here, and its row be a later one's by now: in begin() and tell() that one keeps it.
void Shown::begin(const Row& row) {
    Words& words = own_words(row.sequence);
    if (words.stamp.own() > row.sequence.value + 1) return;
    words.place.set(row.place);
    words.bytes.set(row.descriptor.bytes);
    words.chunk_and_root.set(std::uint64_t{row.descriptor.chunk} << 32 | row.root.value);
    words.have.publish(sealed(words, row.sequence, row.have));
    shared::at<Words>(board_->own_region(region_) + board_->lines() * sizeof(Words)).stamp.publish(1);
    board_->publish_word(words.stamp, row.sequence.value + 1);
}

void Shown::tell(Sequence sequence, std::uint32_t have) {
    Words& words = own_words(sequence);
    if (words.stamp.own() != sequence.value + 1) return;
    board_->publish_word(words.have, sealed(words, sequence, have));
}

// Wrong may also be one that is being written over, for a rank that is taken for dead, or that looks at what all have consumed.
std::optional<Shown::Row> Shown::row_of(const Words& words) const {
    const std::uint64_t stamp = words.stamp.read();
    if (stamp == 0) return std::nullopt;
    const std::uint64_t chunk_and_root = words.chunk_and_root.get();
    const Descriptor told = Descriptor::of(words.bytes.get(), static_cast<std::uint32_t>(chunk_and_root >> 32));
    const auto descriptor = Descriptor::read(told.as_bytes());
    const std::uint64_t word = words.have.read();
    const Sequence sequence(stamp - 1);
    const auto have = static_cast<std::uint32_t>(word);
    if (!descriptor || have > descriptor->chunks() || word != sealed(words, sequence, have))
        return Row{.sequence = sequence, .is_wrong = true};
    return Row{.sequence = sequence,
               .root = Rank(static_cast<std::uint32_t>(chunk_and_root)),
               .descriptor = *descriptor,
               .place = words.place.get(),
               .have = have};
}

std::optional<Shown::Row> Shown::look(Rank by, Sequence sequence) const {
    const Words* const words = words_of(by);
    if (words == nullptr) return std::nullopt;
    const auto row = row_of(words[sequence.value % board_->lines()]);
    return row && row->sequence == sequence ? row : std::nullopt;
}

std::vector<Shown::Row> Shown::look(Rank by) const {
    std::vector<Row> rows;
    const Words* const words = words_of(by);
    if (words == nullptr || words[board_->lines()].stamp.read() == 0) return rows;
    for (std::uint32_t i = 0; i < board_->lines(); ++i)
        if (const auto row = row_of(words[i]); row && !row->is_wrong) rows.push_back(*row);
    return rows;
}

}  // namespace coppice::engine
