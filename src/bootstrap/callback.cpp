#include "bootstrap/callback.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "bootstrap/piece.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::string_view kCarrier = "the exchange callback";
constexpr std::string_view kDuty = "it must gather `bytes` bytes of every rank in rank order";

}  // namespace

Result<std::unique_ptr<CallbackBootstrap>> CallbackBootstrap::create(coppice_exchange_fn exchange, void* argument,
                                                                     Rank rank, std::uint32_t size) {
    if (exchange == nullptr) return fail(COPPICE_ERR_INVALID_ARGUMENT, "no exchange function was given");
    if (size == 0) return fail(COPPICE_ERR_OUT_OF_RANGE, "a group needs at least one rank: size is 0");
    if (size > kMaxProcesses) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "size {} is above the largest group of {}", size, kMaxProcesses);
    }
    if (rank.value >= size) {
        return fail(COPPICE_ERR_OUT_OF_RANGE, "rank {} is outside of 0…{}", rank.value, size - 1);
    }
    return std::unique_ptr<CallbackBootstrap>(new CallbackBootstrap(exchange, argument, rank, size));
}

Result<std::vector<std::vector<std::byte>>> CallbackBootstrap::allgather(std::span<const std::byte> mine,
                                                                         std::uint64_t /*deadline_ns*/) {
    if (mine.size() > kMaxBlob) {
        return fail(COPPICE_ERR_TOO_LARGE, "rank {} offers {} bytes to the exchange; {} are allowed", rank_.value,
                    mine.size(), kMaxBlob);
    }
    try {
        PieceHeader header;
        header.rank = rank_.value;
        header.size = size_;
        header.round = round_++;
        header.bytes = static_cast<std::uint32_t>(mine.size());
        constexpr PieceHeader nothing{0, 0, 0, 0, 0, 0, 0, 0};
        std::vector<PieceHeader> headers(size_, nothing);
        if (const int code = exchange_(argument_, &header, sizeof header, headers.data()); code != 0) {
            return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: the exchange callback failed and returned {}", rank_.value,
                        code);
        }
        std::size_t longest = 0;
        for (std::uint32_t r = 0; r < size_; ++r) {
            // An exchange that knows of a death leaves that rank's place empty.
            if (r != rank_.value && std::memcmp(&headers[r], &nothing, sizeof nothing) == 0) continue;
            if (auto ok = check_piece(header, headers[r], r, kCarrier, kDuty); !ok) return tl::unexpected(ok.error());
            longest = std::max<std::size_t>(longest, headers[r].bytes);
        }
        std::vector<std::vector<std::byte>> result(size_);
        if (longest == 0) return result;
        std::vector<std::byte> padded(longest);
        std::ranges::copy(mine, padded.begin());
        std::vector<std::byte> all(longest * size_);
        if (const int code = exchange_(argument_, padded.data(), longest, all.data()); code != 0) {
            return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: the exchange callback failed and returned {}", rank_.value,
                        code);
        }
        for (std::uint32_t r = 0; r < size_; ++r) {
            const std::span<const std::byte> piece(all.data() + longest * r, headers[r].bytes);
            // Or of a death between the two: it left the place of a rank empty that had said how much it would give.
            const bool is_empty =
                r != rank_.value && std::ranges::all_of(piece, [](std::byte byte) { return byte == std::byte{0}; });
            if (!is_empty) result[r].assign(piece.begin(), piece.end());
        }
        return result;
    } catch (const std::bad_alloc&) {
        return fail(COPPICE_ERR_NO_MEMORY, "rank {}: no memory for the exchange among {} ranks", rank_.value, size_);
    }
}

}  // namespace coppice::bootstrap
