#include "bootstrap/callback.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "bootstrap/piece.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::string_view kCarrier = "the exchange callback";
constexpr std::string_view kDuty = "it must gather `bytes` bytes of every rank in rank order";

constexpr PieceHeader kNothing{0, 0, 0, 0, 0, 0, 0, 0};

// The first byte of what a rank gives in the second call, which tells it from a place that was left empty.
constexpr std::byte kHere{1};

}  // namespace

Result<std::unique_ptr<CallbackBootstrap>> CallbackBootstrap::create(coppice_exchange_fn exchange, void* argument,
                                                                     Rank rank, std::uint32_t size,
                                                                     std::span<const std::uint32_t> ranks) {
    if (exchange == nullptr) return fail(COPPICE_ERR_INVALID_ARGUMENT, "no exchange function was given");
    if (size == 0) return fail(COPPICE_ERR_OUT_OF_RANGE, "a group needs at least one rank: size is 0");
    if (size > kMaxProcesses) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "size {} is above the largest group of {}", size, kMaxProcesses);
    }
    if (rank.value >= size) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "rank {} is outside of 0…{}", rank.value, size - 1);
    }
    const auto subset = Subset::of(ranks, rank, size);
    if (!subset) return tl::unexpected(subset.error());
    return std::unique_ptr<CallbackBootstrap>(new CallbackBootstrap(exchange, argument, rank, size, *subset));
}

tl::unexpected<Error> CallbackBootstrap::failed(int code) const {
    return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: the exchange callback failed and returned {}", rank_.value, code);
}

std::vector<std::byte> CallbackBootstrap::piece_of(Rank rank, const Opening& opening,
                                                   std::span<const std::byte> rest) const {
    const std::size_t bytes = opening.header.bytes;
    const std::span<const std::byte> begin(opening.bytes, std::min(bytes, sizeof opening.bytes));
    std::vector<std::byte> piece(begin.begin(), begin.end());
    if (bytes > sizeof opening.bytes) {
        const std::span<const std::byte> own = rest.subspan(rest.size() / size_ * rank.value, rest.size() / size_);
        // The exchange has heard of a death between the two calls: a rank that had said how much it would give gave nothing.
        if (own.front() != kHere) return {};
        const std::span<const std::byte> end = own.subspan(1, bytes - sizeof opening.bytes);
        piece.insert(piece.end(), end.begin(), end.end());
    }
    return piece;
}

Result<std::vector<std::vector<std::byte>>> CallbackBootstrap::allgather(std::span<const std::byte> mine,
                                                                         std::uint64_t /*deadline_ns*/) {
    if (mine.size() > kMaxBlob) {
        return fail(COPPICE_ERR_TOO_LARGE, "rank {} offers {} bytes to the exchange; {} are allowed", rank_.value,
                    mine.size(), kMaxBlob);
    }
    try {
        Opening own;
        own.header.rank = rank_.value;
        own.header.size = size_;
        own.header.round = round_++;
        own.header.bytes = static_cast<std::uint32_t>(mine.size());
        own.header.subset = subset_;
        std::ranges::copy(mine.first(std::min(mine.size(), sizeof own.bytes)), own.bytes);
        std::vector<Opening> openings(size_, Opening{.header = kNothing, .bytes = {}});
        if (const int code = exchange_(argument_, &own, sizeof own, openings.data()); code != 0) return failed(code);
        std::size_t longest = 0;
        for (std::uint32_t r = 0; r < size_; ++r) {
            const PieceHeader& header = openings[r].header;
            // An exchange that knows of a death leaves that rank's place empty.
            if (r != rank_.value && std::memcmp(&header, &kNothing, sizeof header) == 0) continue;
            if (auto ok = check_piece(own.header, header, r, kCarrier, kDuty); !ok) return tl::unexpected(ok.error());
            longest = std::max<std::size_t>(longest, header.bytes);
        }
        std::vector<std::byte> rest;
        if (longest > sizeof own.bytes) {
            std::vector<std::byte> padded(1 + longest - sizeof own.bytes);
            padded.front() = kHere;
            if (mine.size() > sizeof own.bytes) std::ranges::copy(mine.subspan(sizeof own.bytes), padded.begin() + 1);
            rest.resize(padded.size() * size_);
            if (const int code = exchange_(argument_, padded.data(), padded.size(), rest.data()); code != 0) {
                return failed(code);
            }
            if (rest[rest.size() / size_ * rank_.value] != kHere) {
                return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: {} gathered garbage in its second call: {}", rank_.value,
                            kCarrier, kDuty);
            }
        }
        std::vector<std::vector<std::byte>> result(size_);
        for (std::uint32_t r = 0; r < size_; ++r)
            result[r] = piece_of(Rank(r), openings[r], rest);
        return result;
    } catch (const std::bad_alloc&) {
        return fail(COPPICE_ERR_NO_MEMORY, "rank {}: no memory for the exchange among {} ranks", rank_.value, size_);
    }
}

}  // namespace coppice::bootstrap
