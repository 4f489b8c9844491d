#include "transport/ucx/put.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "transport/ucx/library.hpp"

namespace coppice::transport::ucx {
namespace {

// UCX 1.13 says to people only which of an endpoint's lanes have puts of their own ("put[0]: 0..<short>..81..<bcopy>.."),
// and says nothing where they are emulated.
bool has_native_puts(ucp_ep_h endpoint) {
    char* text = nullptr;
    std::size_t length = 0;
    FILE* const stream = open_memstream(&text, &length);
    if (stream == nullptr) return false;
    library.ucp_ep_print_info(endpoint, stream);
    std::fclose(stream);
    const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
    return std::string_view(text, length).find(" put[") != std::string_view::npos;
}

}  // namespace

Result<OwnSlots> OwnSlots::make(ucp_context_h context, std::uint16_t slots, std::uint32_t seed) {
    OwnSlots made;
    made.context_ = context;
    made.slots_ = slots;
    made.bytes_ = slots * kSlotStride;
    void* const memory = mmap(nullptr, made.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return fail(COPPICE_ERR_NO_MEMORY, "ucx: no memory for a peer's landing slots: {}", std::strerror(errno));
    made.base_ = static_cast<std::byte*>(memory);
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_PROT;
    params.address = memory;
    params.length = made.bytes_;
    params.prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE | UCP_MEM_MAP_PROT_REMOTE_WRITE;
    ucs_status_t status = library.ucp_mem_map(context, &params, &made.mapping_);
    if (status != UCS_OK) made.mapping_ = nullptr;
    if (status == UCS_OK) status = library.ucp_rkey_pack(context, made.mapping_, &made.key_, &made.key_size_);
    if (status != UCS_OK)
        return fail(COPPICE_ERR_NO_RESOURCES,
                    "ucx: {} KiB could not be registered for a peer's landing slots: {}; is 'ulimit -l' large enough?",
                    made.bytes_ / 1024, library.ucs_status_string(status));
    made.landing.attach(made.base_, slots, seed);
    return made;
}

OwnSlots& OwnSlots::operator=(OwnSlots&& other) noexcept {
    std::swap(landing, other.landing);
    std::swap(context_, other.context_);
    std::swap(mapping_, other.mapping_);
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(key_, other.key_);
    std::swap(key_size_, other.key_size_);
    std::swap(told_, other.told_);
    std::swap(slots_, other.slots_);
    return *this;
}

OwnSlots::~OwnSlots() {
    revoke();
    if (key_ != nullptr) library.ucp_rkey_buffer_release(key_);
    if (base_ != nullptr) munmap(base_, bytes_);
}

void OwnSlots::revoke() {
    if (mapping_ != nullptr) library.ucp_mem_unmap(context_, mapping_);
    mapping_ = nullptr;
}

void PeerSlots::note(const Offer& offer, std::span<const std::byte> key) {
    if (noted() || key_ != nullptr) return;
    address_ = offer.address;
    slots_ = offer.slots;
    noted_key_ = padded_key(key);
}

void PeerSlots::attach(ucp_ep_h endpoint, std::uint32_t seed) {
    const bool unpacked =
        has_native_puts(endpoint) && library.ucp_ep_rkey_unpack(endpoint, noted_key_.data(), &key_) == UCS_OK;
    if (!unpacked) key_ = nullptr;
    seed_ = seed;
    credit.attach(slots_);
    noted_key_.clear();
}

void PeerSlots::forget() {
    if (key_ != nullptr) library.ucp_rkey_destroy(key_);
    key_ = nullptr;
    noted_key_.clear();
}

}  // namespace coppice::transport::ucx
