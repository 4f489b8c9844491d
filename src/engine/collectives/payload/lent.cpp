#include "engine/collectives/payload/lent.hpp"

#include <algorithm>

namespace coppice::engine {

std::byte* LentMemory::allocate(std::size_t bytes) {
    auto piece = std::make_unique<Piece>();
    piece->bytes = bytes;
    if (shown_.has_readers()) piece->bulk = shown_.take(bytes);
    if (piece->bulk.data == nullptr) piece->own = PayloadMemory::allocate(bytes);
    piece->data = piece->bulk.data != nullptr ? piece->bulk.data : piece->own.data();
    if (piece->data == nullptr) return nullptr;
    return pieces_.emplace_back(std::move(piece))->data;
}

bool LentMemory::give_back(const std::byte* address) {
    Piece* const piece = find(address);
    if (piece == nullptr || piece->data != address || piece->is_given_back) return false;
    piece->is_given_back = true;
    drop_if_over(*piece);
    return true;
}

LentMemory::Piece* LentMemory::find(const std::byte* address) const {
    for (const auto& piece : pieces_)
        if (address >= piece->data && address < piece->data + piece->bytes) return piece.get();
    return nullptr;
}

void LentMemory::end_use(Piece& piece) {
    --piece.users;
    drop_if_over(piece);
}

void LentMemory::drop_if_over(const Piece& piece) {
    if (piece.users > 0 || !piece.is_given_back) return;
    if (piece.bulk.data != nullptr) shown_.give_back(piece.bulk);
    std::erase_if(pieces_, [&piece](const auto& one) { return one.get() == &piece; });
}

}  // namespace coppice::engine
