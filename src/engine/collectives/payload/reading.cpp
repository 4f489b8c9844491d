#include "engine/collectives/payload/reading.hpp"

#include <algorithm>
#include <cstring>

#include "base/shared_words.hpp"

namespace coppice::engine {

namespace {

constexpr std::uint64_t kCheckedAtOnce = std::uint64_t{4} << 20;

}  // namespace

struct OpenPayload::Word {
    shared::Published<std::uint64_t> have;
    shared::Published<std::uint64_t> seal;
};

Result<std::unique_ptr<OpenPayload>> OpenPayload::make(transport::Transport& wire, std::span<std::byte> payload,
                                                       const Descriptor& descriptor, std::uint64_t seed) {
    std::unique_ptr<OpenPayload> made(new OpenPayload(wire, payload, descriptor, seed));
    const std::size_t bytes = made->landings_at() + kMostReadings * sizeof(HaveWord);
    made->memory_ = PayloadMemory::allocate(bytes);
    if (!made->memory_)
        return fail(COPPICE_ERR_NO_MEMORY, "there is no memory for {} bytes beside a large payload", bytes);
    std::memset(made->memory_.data(), 0, bytes);
    const auto chunks = wire.expose(payload);
    if (!chunks) return tl::unexpected(chunks.error());
    const auto desk = wire.expose({made->memory_.data(), bytes});
    if (!desk) {
        wire.withdraw(*chunks);
        return tl::unexpected(desk.error());
    }
    made->chunks_ = *chunks;
    made->desk_ = *desk;
    made->is_registered_ = true;
    made->offer_ = {.chunks = chunks->address,
                    .desk = desk->address,
                    .chunks_key = chunks->key,
                    .desk_key = desk->key,
                    .of = descriptor.check};
    made->offer_.seal();
    shared::at<Word>(made->memory_.data()).seal.publish(HaveWord::sealed(seed, 0));
    return made;
}

OpenPayload::~OpenPayload() {
    if (!is_registered_) return;
    wire_.withdraw(chunks_);
    wire_.withdraw(desk_);
}

// Checks, then the word. A device that reads one half of a word before and the other behind this has read one whose seal is wrong.
bool OpenPayload::tell(std::uint32_t have) {
    if (have == told_) return true;
    for (std::uint64_t bytes = 0; checked_ < have && bytes < kCheckedAtOnce; ++checked_) {
        const std::uint32_t check = transport::crc32c(chunk(checked_));
        std::memcpy(checks(checked_, 1).data(), &check, sizeof check);
        bytes += descriptor_.length(checked_);
    }
    told_ = std::min(have, checked_);
    auto& word = shared::at<Word>(memory_.data());
    word.have.publish(told_);
    word.seal.publish(HaveWord::sealed(seed_, told_));
    return told_ == have;
}

std::span<std::byte> OpenPayload::landing(std::uint32_t slot) const {
    return {memory_.data() + landings_at() + slot * sizeof(HaveWord), sizeof(HaveWord)};
}

HaveWord OpenPayload::landed(std::uint32_t slot) const {
    HaveWord word;
    std::memcpy(&word, landing(slot).data(), sizeof word);
    return word;
}

std::span<std::byte> OpenPayload::checks(std::uint32_t first, std::uint32_t count) const {
    return {memory_.data() + kChecksAt + first * sizeof(std::uint32_t), count * sizeof(std::uint32_t)};
}

bool OpenPayload::is_right(std::uint32_t number) const {
    std::uint32_t check = 0;
    std::memcpy(&check, checks(number, 1).data(), sizeof check);
    return transport::crc32c(chunk(number)) == check;
}

std::uint32_t Reading::chunks_under_way() const {
    return static_cast<std::uint32_t>(std::ranges::count(asked, Item::What::chunk, &Item::what));
}

}  // namespace coppice::engine
