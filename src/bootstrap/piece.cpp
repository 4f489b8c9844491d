#include "bootstrap/piece.hpp"

namespace coppice::bootstrap {

Result<void> check_piece(const PieceHeader& mine, const PieceHeader& theirs, std::uint32_t rank,
                         std::string_view carrier, std::string_view duty) {
    if (theirs.magic != kFrameMagic || theirs.bytes > kMaxBlob) {
        return fail(COPPICE_ERR_BOOTSTRAP, "{} gave garbage in the place of rank {}: {}", carrier, rank, duty);
    }
    if (theirs.version != mine.version || theirs.word_size != mine.word_size) {
        return fail(COPPICE_ERR_MISMATCH,
                    "rank {} speaks version {} with {}-byte words, this rank (rank {}) version {} with "
                    "{}-byte words: "
                    "start the same build of Coppice everywhere",
                    rank, theirs.version, theirs.word_size, mine.rank, mine.version, mine.word_size);
    }
    if (theirs.subset != mine.subset) {
        return fail(COPPICE_ERR_MISMATCH,
                    "rank {} was given another list of ranks for the group than this rank (rank {}): give all the same",
                    rank, mine.rank);
    }
    if (theirs.size != mine.size) {
        return fail(COPPICE_ERR_MISMATCH, "rank {} was told that the group has {} ranks, this rank (rank {}) {}", rank,
                    theirs.size, mine.rank, mine.size);
    }
    if (theirs.rank != rank) {
        return fail(COPPICE_ERR_BOOTSTRAP,
                    "{} gave rank {}'s bytes in the place of rank {}: ranks must be distinct and the result in rank "
                    "order",
                    carrier, theirs.rank, rank);
    }
    if (theirs.round != mine.round) {
        return fail(COPPICE_ERR_BOOTSTRAP, "rank {} is at exchange {}, this rank (rank {}) at {}", rank, theirs.round,
                    mine.rank, mine.round);
    }
    return {};
}

}  // namespace coppice::bootstrap
