// What a witness has of a process's presence: whatever it says of its last words.
#include "bootstrap/presence.hpp"

#include <memory>
#include <optional>

#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::bootstrap;

namespace {

constexpr Presence::Who kSelf{.number = 1, .incarnation = 2};

// Its answers are the input's, until all are over: then what it was told last.
class InputWitness final : public Witness {
  public:
    explicit InputWitness(fuzz::Input& input) : input_(input) {}
    std::optional<Place> take(const About& about) const override {
        watches_ = input_.number<std::uint8_t>() % 2 == 1;
        if (!watches_) return std::nullopt;
        return Place{.about = about, .entry = 1, .owner = 1};
    }
    void give_back(const Place&) const override {}
    bool write(const Place&, std::span<const std::byte> bytes) const override {
        FUZZ_CHECK(bytes.size() <= kMostBytes);
        if (input_.number<std::uint8_t>() % 2 == 0) return false;
        written_ = fuzz::exact(bytes);
        return true;
    }
    std::optional<std::vector<std::byte>> last_words_of(const About&) const override {
        if (is_over_) return written_;
        const auto way = input_.number<std::uint8_t>() % 4;
        if (way == 0) return read_ = std::nullopt;
        if (way == 1 && read_) return read_;
        return read_ = fuzz::exact(input_.piece());
    }
    bool knows(const About&) const override { return !is_over_ && input_.number<std::uint8_t>() % 4 == 0; }

    void be_over() { is_over_ = true; }
    bool watches() const { return watches_; }
    const std::optional<std::vector<std::byte>>& read() const { return read_; }

  private:
    fuzz::Input& input_;
    mutable std::optional<std::vector<std::byte>> read_;
    mutable std::vector<std::byte> written_;
    mutable bool watches_ = false;
    bool is_over_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto witness = std::make_shared<InputWitness>(input);
    Presence presence(witness, input.number<std::uint64_t>(), kSelf);
    std::optional<std::uint32_t> unknown;  // up to this epoch
    while (!input.empty()) {
        const std::uint32_t epoch = input.number<std::uint32_t>() / 2;  // no group has the last one
        if (input.number<std::uint8_t>() % 2 == 0) {
            if (presence.note_unknown(epoch) && (!unknown || *unknown < epoch)) unknown = epoch;
            continue;
        }
        if (!presence.was_never_there({.number = input.number<std::uint32_t>()}, {.group = 3}, epoch)) continue;
        // Then it has ended, and its last words are none, or an epoch that is not later.
        FUZZ_CHECK(witness->read());
        std::uint32_t from = 0;
        FUZZ_CHECK(witness->read()->empty() || witness->read()->size() == sizeof from);
        if (!witness->read()->empty()) std::memcpy(&from, witness->read()->data(), sizeof from);
        FUZZ_CHECK(from <= epoch);
    }
    // As others read it once this process has ended: it may have voted up to that epoch.
    witness->be_over();
    if (unknown && witness->watches()) FUZZ_CHECK(!presence.was_never_there(kSelf, {.group = 3}, *unknown));
    return 0;
}
