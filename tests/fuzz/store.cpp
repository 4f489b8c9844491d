// What a launcher's store gives for what other ranks have put: pieces of an exchange, and which processes these ranks are.
#include "bootstrap/store.hpp"

#include <map>
#include <memory>
#include <optional>

#include "bootstrap/piece.hpp"
#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::bootstrap;

namespace {

constexpr std::uint32_t kRanks = 4;
constexpr Rank kSelf{1};
constexpr Rank kHonest{2};  // says what a rank of this very process says
constexpr std::uint32_t kSome[] = {kHonest.value, 3, kSelf.value};
constexpr std::uint64_t kNoWait = 0;

class InputStore final : public Store {
  public:
    InputStore(fuzz::Input& input, bool fences_later) : input_(input), fences_later_(fences_later) {}
    Rank rank() const override { return kSelf; }
    std::uint32_t size() const override { return kRanks; }
    const char* name() const override { return "input"; }
    std::string carrier() const override { return "the input"; }
    bool waits_for_single_ranks() const override { return true; }
    bool fences_in_later_sessions() const override { return fences_later_; }
    Result<void> put(const std::string& key, std::span<const std::byte> value) override {
        FUZZ_CHECK(values_.emplace(key, fuzz::exact(value)).second || key.find(".dead.") != std::string::npos);
        return {};
    }
    Result<void> fence(std::uint64_t) override { return {}; }
    Result<std::optional<std::vector<std::byte>>> get(Rank from, const std::string& key, std::uint64_t) override {
        auto piece = make(from, key);
        if (key.find(".dead.") == std::string::npos) given_[inside_(from)] = piece;
        return piece;
    }
    void number_as(std::uint32_t (*inside)(Rank)) { inside_ = inside; }
    // What it gave last in this round for the rank of that number in the session.
    const std::optional<std::vector<std::byte>>& given(std::uint32_t rank) { return given_[rank]; }
    void begin_round() { given_.clear(); }

  private:
    std::optional<std::vector<std::byte>> make(Rank from, const std::string& key) {
        enum : std::uint8_t { kChanged, kAsItIs, kAnything, kNothing, kWays };
        const auto own = values_.find(key);
        if (from == kSelf) {
            FUZZ_CHECK(own != values_.end());
            return own->second;
        }
        const std::uint8_t way = input_.number<std::uint8_t>() % kWays;
        if (own == values_.end()) {  // whether it holds a rank for dead
            if (from == kHonest || way != kAnything) return std::nullopt;
            return fuzz::exact(input_.piece());
        }
        if (from == kHonest && way != kNothing) return as_of(from, own->second);
        if (way == kNothing) return std::nullopt;
        if (way == kAnything) return fuzz::exact(input_.piece());
        std::vector<std::byte> piece = as_of(from, own->second);
        if (way == kChanged) {
            const auto at = input_.number<std::uint8_t>();
            const auto change = input_.take(input_.number<std::uint8_t>());
            if (at < piece.size()) std::memcpy(&piece[at], change.data(), std::min(change.size(), piece.size() - at));
            piece.resize(std::min<std::size_t>(piece.size(), input_.number<std::uint16_t>()));
        }
        return piece;
    }
    std::vector<std::byte> as_of(Rank from, std::vector<std::byte> piece) const {
        PieceHeader header;
        std::memcpy(&header, piece.data(), sizeof header);
        header.rank = inside_(from);
        std::memcpy(piece.data(), &header, sizeof header);
        return piece;
    }

    fuzz::Input& input_;
    bool fences_later_;
    std::uint32_t (*inside_)(Rank) = [](Rank rank) { return rank.value; };
    std::map<std::string, std::vector<std::byte>> values_;
    std::map<std::uint32_t, std::optional<std::vector<std::byte>>> given_;
};

void check_entry(std::span<const std::byte> entry, const std::optional<std::vector<std::byte>>& given, bool is_first) {
    FUZZ_CHECK(entry.size() <= kMaxBlob);
    if (!given) {
        FUZZ_CHECK(entry.empty());
        return;
    }
    const std::size_t before = sizeof(PieceHeader) + (is_first ? sizeof(StoreHistory::Process) : 0);
    FUZZ_CHECK(given->size() == before + entry.size() && fuzz::same(std::span(*given).subspan(before), entry));
    PieceHeader header;
    std::memcpy(&header, given->data(), sizeof header);
    FUZZ_CHECK(header.bytes == entry.size());
}

// Two rounds of a session: the first one brings processes, too.
void play(fuzz::Input& input, StoreHistory& history, bool fences_later, bool is_of_some) {
    auto store = std::make_unique<InputStore>(input, fences_later);
    if (is_of_some)
        store->number_as([](Rank rank) {
            return static_cast<std::uint32_t>(std::ranges::find(kSome, rank.value) - std::begin(kSome));
        });
    InputStore& source = *store;
    const auto made = StoreBootstrap::create(std::move(store),
                                             is_of_some ? std::span(kSome) : std::span<const std::uint32_t>(), history);
    FUZZ_CHECK(made.has_value());
    const std::uint32_t size = is_of_some ? std::size(kSome) : kRanks;
    const std::uint32_t honest = is_of_some ? 0 : kHonest.value;
    const bool met_honest = history.met.contains(kHonest.value) && history.met[kHonest.value];
    for (const std::size_t bytes : {std::size_t{5}, std::size_t{70}}) {
        const std::vector<std::byte> mine(bytes, std::byte{3});
        source.begin_round();
        const auto all = (*made)->allgather(mine, kNoWait);
        if (!all) {
            FUZZ_CHECK(!all.error().message.empty());
            FUZZ_CHECK(!(*made)->allgather(mine, kNoWait));
            return;
        }
        FUZZ_CHECK(all->size() == size && fuzz::same((*all)[(*made)->rank().value], mine));
        for (std::uint32_t rank = 0; rank < size; ++rank)
            check_entry((*all)[rank], source.given(rank), bytes == 5);
        // Its process lives, so it is waited for, and not left out.
        const bool is_there = fuzz::same((*all)[honest], mine);
        FUZZ_CHECK(is_there || ((*all)[honest].empty() && ((*made)->has_store() || !met_honest)));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    StoreHistory history;
    const bool fences_later = input.number<std::uint8_t>() % 2 == 1;
    play(input, history, fences_later, false);
    for (const auto& [rank, process] : history.met)
        FUZZ_CHECK(rank < kRanks && (rank != kSelf.value || process));
    play(input, history, fences_later, false);
    for (int session = 0; session < 2; ++session)
        play(input, history, fences_later, true);
    return 0;
}
