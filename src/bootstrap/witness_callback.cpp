#include "bootstrap/witness_callback.hpp"

#include "base/process.hpp"

namespace coppice::bootstrap {

static_assert(COPPICE_WITNESS_BYTES == Witness::kMostBytes);

std::optional<Witness::Place> WitnessCallback::take(const About& about) const {
    tell(about, {});
    return Place{.about = about};
}

void WitnessCallback::give_back(const Place& place) const {
    if (functions_.forget == nullptr) return;
    const std::lock_guard lock(mutex_);
    const process::InCallback callback;
    functions_.forget(functions_.argument, place.about.group, place.about.rank);
}

bool WitnessCallback::write(const Place& place, std::span<const std::byte> bytes) const {
    // There is no vote of one byte: that of a rank which had more to say than is kept.
    constexpr std::byte kTooLong{0};
    if (bytes.size() > kMostBytes) bytes = {&kTooLong, 1};
    return tell(place.about, bytes);
}

bool WitnessCallback::tell(const About& about, std::span<const std::byte> words) const {
    const std::lock_guard lock(mutex_);
    const process::InCallback callback;
    return functions_.tell(functions_.argument, about.group, about.rank, words.data(), words.size()) == 0;
}

bool WitnessCallback::ended(const About& about, Words& words, std::size_t& bytes) const {
    bytes = words.size();
    const std::lock_guard lock(mutex_);
    const process::InCallback callback;
    return functions_.ended(functions_.argument, about.group, about.rank, words.data(), &bytes) == 1;
}

bool WitnessCallback::knows(const About& about) const {
    Words words{};
    std::size_t bytes = 0;
    return ended(about, words, bytes);
}

std::optional<std::vector<std::byte>> WitnessCallback::last_words_of(const About& about) const {
    Words words{};
    std::size_t bytes = 0;
    if (!ended(about, words, bytes) || bytes > words.size() || bytes == 1) return std::nullopt;
    return std::vector<std::byte>(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(bytes));
}

}  // namespace coppice::bootstrap
