#include "engine/collectives/payload/shown.hpp"

namespace coppice::engine {
namespace {

constexpr std::string_view kRegion = "payloads";

}  // namespace

// Behind the rows of the window there is one more: its stamp is 0 until its rank shows something for the first time.
transport::Region Shown::host_region(const Settings& settings) {
    return {.name = kRegion, .bytes = (settings.window + 1) * sizeof(RowWords)};
}

Shown::Shown(const Core& core)
    : board_(core.local_peers().publishing() ? core.local_peers().board() : nullptr),
      most_bytes_(core.around().settings().payload_window),
      is_to_be_heard_(core.around().settings().detection_bound.value != 0) {
    if (board_ == nullptr) return;
    region_ = board_->find_region(kRegion);
    has_readers_ = board_->members().size() > 1;
    for (const Rank rank : board_->members()) {
        const RowWords* const words = rank == core.members().self() ? nullptr : words_of(rank);
        if (words != nullptr) firsts_.push_back(&words[board_->lines()].stamp);
    }
}

RowWords& Shown::own_words(Sequence sequence) const {
    std::byte* const rows = board_->own_region(region_);
    return shared::at<RowWords>(rows + sequence.value % board_->lines() * sizeof(RowWords));
}

const RowWords* Shown::words_of(Rank by) const {
    const std::byte* const rows = board_->region(by, region_);
    return rows == nullptr ? nullptr : &shared::at<RowWords>(rows);
}

// A payload that all have consumed may still be on its way here, and its row be a later one's by now: in begin() and tell() that one keeps it.
void Shown::begin(const Row& row) {
    RowWords& words = own_words(row.sequence);
    if (words.stamp.own() > row.sequence.value + 1) return;
    words.write(row);
    shared::at<RowWords>(board_->own_region(region_) + board_->lines() * sizeof(RowWords)).stamp.publish(1);
    board_->publish_word(words.stamp, row.sequence.value + 1);
}

void Shown::tell(Sequence sequence, std::uint32_t have) {
    RowWords& words = own_words(sequence);
    if (words.stamp.own() != sequence.value + 1) return;
    board_->publish_word(words.have, words.sealed(sequence, have));
}

std::optional<Shown::Row> Shown::look(Rank by, Sequence sequence) const {
    const RowWords* const words = words_of(by);
    if (words == nullptr) return std::nullopt;
    const auto row = words[sequence.value % board_->lines()].read();
    return row && row->sequence == sequence ? row : std::nullopt;
}

std::vector<Shown::Row> Shown::look(Rank by) const {
    std::vector<Row> rows;
    const RowWords* const words = words_of(by);
    if (words == nullptr || words[board_->lines()].stamp.read() == 0) return rows;
    for (std::uint32_t i = 0; i < board_->lines(); ++i)
        if (const auto row = words[i].read(); row && !row->is_wrong) rows.push_back(*row);
    return rows;
}

}  // namespace coppice::engine
