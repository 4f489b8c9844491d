#include "bootstrap/store.hpp"

#include <cstring>
#include <mutex>
#include <new>

#include "bootstrap/piece.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::string_view kDuty = "start the same build of Coppice everywhere";

std::uint32_t next_generation() {
    static std::mutex mutex;
    static std::uint32_t generation = 0;
    const std::lock_guard lock(mutex);
    return generation++;
}

}  // namespace

StoreBootstrap::StoreBootstrap(std::unique_ptr<Store> store)
    : store_(std::move(store)), generation_(next_generation()) {}

Result<std::vector<std::vector<std::byte>>> StoreBootstrap::exchange(std::span<const std::byte> mine,
                                                                     std::uint64_t deadline_ns) {
    PieceHeader header;
    header.rank = rank().value;
    header.size = size();
    header.round = round_++;
    header.bytes = static_cast<std::uint32_t>(mine.size());
    const std::string key = fmt::format("coppice.{}.{}", generation_, header.round);
    std::vector<std::byte> piece;
    append(piece, header);
    append_bytes(piece, mine);
    if (auto put = store_->put(key, piece); !put) return tl::unexpected(std::move(put.error()));
    if (auto met = store_->fence(deadline_ns); !met) return tl::unexpected(std::move(met.error()));
    std::vector<std::vector<std::byte>> result(size());
    for (std::uint32_t r = 0; r < size(); ++r) {
        auto got = store_->get(Rank(r), key, deadline_ns);
        if (!got) return tl::unexpected(std::move(got.error()));
        if (!*got) continue;
        std::span<const std::byte> rest(**got);
        PieceHeader theirs;
        if (!take(rest, theirs)) theirs.magic = 0;
        if (auto ok = check_piece(header, theirs, r, store_->carrier(), kDuty); !ok) return tl::unexpected(ok.error());
        if (theirs.bytes != rest.size()) {
            return fail(COPPICE_ERR_BOOTSTRAP, "{} gave {} of the {} bytes of rank {}", store_->carrier(), rest.size(),
                        theirs.bytes, r);
        }
        result[r].assign(rest.begin(), rest.end());
    }
    return result;
}

Result<std::vector<std::vector<std::byte>>> StoreBootstrap::allgather(std::span<const std::byte> mine,
                                                                      std::uint64_t deadline_ns) {
    if (broken_) return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: an earlier exchange of this group failed", rank().value);
    if (mine.size() > kMaxBlob) {
        return fail(COPPICE_ERR_TOO_LARGE, "rank {} offers {} bytes to the exchange; {} are allowed", rank().value,
                    mine.size(), kMaxBlob);
    }
    broken_ = true;
    try {
        auto result = exchange(mine, deadline_ns);
        broken_ = !result;
        return result;
    } catch (const std::bad_alloc&) {
        return fail(COPPICE_ERR_NO_MEMORY, "rank {}: no memory for the exchange among {} ranks", rank().value, size());
    }
}

}  // namespace coppice::bootstrap
