#include "transport/ucx/get.hpp"

#include <algorithm>
#include <utility>

#include "transport/ucx/library.hpp"
#include "transport/ucx/wire.hpp"

namespace coppice::transport::ucx {

Result<Exposure> OwnMemory::expose(std::span<std::byte> memory) {
    forget_withdrawn();
    auto piece = std::make_unique<Piece>();
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_PROT;
    params.address = memory.data();
    params.length = memory.size();
    params.prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE | UCP_MEM_MAP_PROT_REMOTE_READ;
    ucs_status_t status = library.ucp_mem_map(context_, &params, &piece->mapping);
    if (status != UCS_OK) piece->mapping = nullptr;
    if (status == UCS_OK) status = library.ucp_rkey_pack(context_, piece->mapping, &piece->key, &piece->key_size);
    const bool fits = status == UCS_OK && piece->key_size > 0 && piece->key_size <= kMaxKey;
    if (!fits) {
        unmap(*piece);
        return fail(COPPICE_ERR_NO_RESOURCES,
                    "ucx: {} KiB of a large payload could not be registered: {}; is 'ulimit -l' large enough?",
                    memory.size() / 1024,
                    status == UCS_OK ? "its key is too large" : library.ucs_status_string(status));
    }
    piece->number = next_++;
    const std::uint32_t number = piece->number;
    pieces_.push_back(std::move(piece));
    return Exposure{.address = reinterpret_cast<std::uint64_t>(memory.data()), .key = number, .own_key = number};
}

void OwnMemory::withdraw(std::uint32_t number) {
    const auto at = std::ranges::find(pieces_, number, &Piece::number);
    if (at == pieces_.end()) return;
    if ((*at)->mapping != nullptr) library.ucp_mem_unmap(context_, std::exchange((*at)->mapping, nullptr));
    forget_withdrawn();
}

OwnMemory::Key OwnMemory::key_of(std::uint32_t number) {
    const auto at = std::ranges::find(pieces_, number, &Piece::number);
    if (at == pieces_.end() || (*at)->mapping == nullptr) return {};
    return {{static_cast<const std::byte*>((*at)->key), (*at)->key_size}, &(*at)->in_flight};
}

void OwnMemory::unmap(Piece& piece) {
    if (piece.mapping != nullptr) library.ucp_mem_unmap(context_, std::exchange(piece.mapping, nullptr));
    if (piece.key != nullptr) library.ucp_rkey_buffer_release(std::exchange(piece.key, nullptr));
}

void OwnMemory::forget_withdrawn() {
    std::erase_if(pieces_, [this](const auto& piece) {
        if (piece->mapping != nullptr || piece->in_flight > 0) return false;
        unmap(*piece);
        return true;
    });
}

void OwnMemory::clear() {
    for (const auto& piece : pieces_)
        unmap(*piece);
    pieces_.clear();
}

PeerKey* PeerKeys::obtain(std::uint32_t number) {
    const auto known = std::ranges::find(keys_, number, &PeerKey::number);
    if (known != keys_.end()) {
        std::rotate(known, known + 1, keys_.end());
        return keys_.back().get();
    }
    if (keys_.size() >= kMost) {
        const auto is_idle = [](const auto& key) { return key->users == 0 && key->state != PeerKey::State::asked; };
        const auto oldest = std::ranges::find_if(keys_, is_idle);
        if (oldest == keys_.end()) return nullptr;
        if ((*oldest)->handle != nullptr) library.ucp_rkey_destroy((*oldest)->handle);
        keys_.erase(oldest);
    }
    return keys_.emplace_back(std::make_unique<PeerKey>(PeerKey{.number = number})).get();
}

bool PeerKeys::note(std::uint32_t number, std::span<const std::byte> key) {
    const auto known = std::ranges::find(keys_, number, &PeerKey::number);
    if (known == keys_.end() || (*known)->state != PeerKey::State::asked || key.size() > kMaxKey) return false;
    (*known)->state = key.empty() ? PeerKey::State::refused : PeerKey::State::noted;
    (*known)->bytes = padded_key(key);
    return true;
}

void PeerKeys::attach(PeerKey& key, ucp_ep_h endpoint) {
    const bool unpacked = library.ucp_ep_rkey_unpack(endpoint, key.bytes.data(), &key.handle) == UCS_OK;
    if (!unpacked) key.handle = nullptr;
    key.state = unpacked ? PeerKey::State::good : PeerKey::State::refused;
    key.bytes.clear();
}

void PeerKeys::forget() {
    for (const auto& key : keys_)
        if (key->handle != nullptr) library.ucp_rkey_destroy(key->handle);
    keys_.clear();
}

}  // namespace coppice::transport::ucx
