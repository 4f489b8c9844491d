// The witness's memory, into which each process of the job may write: what a rank reads there of others' last words, and where it finds
// entries of its own.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "bootstrap/witness_keeper.hpp"
#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::bootstrap;

namespace {

constexpr std::uint32_t kNumbers = 3;

// As the launcher makes it, for processes that are all this one.
struct Memory {
    Memory() : keeper(WitnessKeeper::create(kNumbers)) {
        FUZZ_CHECK(keeper != nullptr);
        const int file = ::open(keeper->path().c_str(), O_RDWR | O_CLOEXEC);
        auto mapped = witness::Memory::map(file);
        FUZZ_CHECK(mapped && mapped->numbers() == kNumbers);
        words.emplace(std::move(*mapped));
        ::close(file);
        for (std::uint32_t number = 0; number < kNumbers; ++number)
            ranks[number] = LauncherWitness::open(keeper->path(), number);
        FUZZ_CHECK(LauncherWitness::open(keeper->path(), kNumbers) == nullptr);
    }
    std::span<std::byte> all() const {
        return {reinterpret_cast<std::byte*>(&words->header()), witness::Memory::bytes_for(kNumbers)};
    }
    // As if it had just been made.
    void clear() const {
        std::ranges::fill(all().subspan(sizeof(witness::Header)), std::byte{0});
        words->header() = {.magic = witness::kMagic, .version = witness::kVersion, .numbers = kNumbers};
        for (std::uint32_t number = 0; number < kNumbers; ++number)
            words->number(number).claim.set(witness::claim_word(1, ::getpid()));
    }

    std::unique_ptr<WitnessKeeper> keeper;
    std::optional<witness::Memory> words;
    std::array<std::unique_ptr<Witness>, kNumbers> ranks;
};

class Job {
  public:
    explicit Job(const Memory& memory) : memory_(memory) {}

    void take(std::uint32_t number, const Witness::About& about) {
        const auto place = memory_.ranks[number]->take(about);
        if (!place) return;
        FUZZ_CHECK(place->entry < witness::kEntries && (is_damaged_ || memory_.ranks[number]->knows(about)));
        // Where it was an earlier process's, all of that one's are gone.
        if (const auto before = said_.find({number, place->entry}); before != said_.end() && before->second.has_ended)
            std::erase_if(said_, [claim = before->second.claim, number](const auto& one) {
                return one.first.first == number && one.second.claim == claim;
            });
        FUZZ_CHECK(is_damaged_ || !said_.contains({number, place->entry}));
        said_[{number, place->entry}] = {.about = about, .claim = place->owner};
        places_[number].push_back(*place);
    }
    void write(std::uint32_t number, std::span<const std::byte> bytes) {
        if (places_[number].empty()) return;
        const Witness::Place& place = places_[number].back();
        FUZZ_CHECK(memory_.ranks[number]->write(place, bytes));
        said_[{number, place.entry}].words = fuzz::exact(bytes);
    }
    void give_back(std::uint32_t number) {
        if (places_[number].empty()) return;
        memory_.ranks[number]->give_back(places_[number].back());
        said_.erase({number, places_[number].back().entry});
        places_[number].pop_back();
    }
    // The process of that number ends, and the next one takes part.
    void end(std::uint32_t number) {
        witness::Number& its = memory_.words->number(number);
        const auto claim = static_cast<std::uint32_t>(its.claim.get());
        for (witness::Entry& entry : its.entries)
            if (entry.owner.get() == claim) entry.ended.set(claim);
        for (auto& [place, said] : said_)
            if (place.first == number && said.claim == claim) said.has_ended = true;
        its.claim.set(witness::claim_word(claim + 1, ::getpid()));
        places_[number].clear();
    }
    void damage(fuzz::Input& input) {
        is_damaged_ = true;
        const std::span<std::byte> all = memory_.all();
        const std::size_t at = input.number<std::uint32_t>() % all.size();
        const auto bytes = input.take(std::min<std::size_t>(input.number<std::uint8_t>(), all.size() - at));
        std::ranges::copy(bytes, all.begin() + static_cast<std::ptrdiff_t>(at));
    }
    // Of a dead one's words: how many they are, and how often they were written.
    void damage_words(fuzz::Input& input) {
        is_damaged_ = true;
        const auto number = input.number<std::uint8_t>() % kNumbers;
        witness::Vote& vote = memory_.words->vote(number, input.number<std::uint8_t>() % witness::kEntries);
        vote.places[0].length = vote.places[1].length =
            input.number<std::uint32_t>() >> (input.number<std::uint8_t>() % 32);
        vote.stamp.publish(input.number<std::uint64_t>());
    }

    // What a dead one wrote last, and of the living nothing.
    void look(std::uint32_t number, const Witness::About& about) const {
        const auto words = memory_.ranks[number]->last_words_of(about);
        FUZZ_CHECK(!words || words->size() <= Witness::kMostBytes);
        static_cast<void>(memory_.ranks[number]->knows(about));
        if (is_damaged_) return;
        bool is_there = false;
        bool is_it = false;
        for (const auto& [place, said] : said_) {
            if (!said.has_ended || said.about.group != about.group || said.about.rank != about.rank) continue;
            if (said.words.size() > Witness::kMostBytes) continue;
            is_there = true;
            is_it = is_it || (words && *words == said.words);
        }
        FUZZ_CHECK(words ? is_it : !is_there);
    }

  private:
    struct Said {
        Witness::About about{};
        std::uint32_t claim = 0;
        std::vector<std::byte> words{};
        bool has_ended = false;
    };

    const Memory& memory_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Said> said_;  // by number and entry
    std::array<std::vector<Witness::Place>, kNumbers> places_;      // of the living
    bool is_damaged_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Memory memory;
    memory.clear();
    fuzz::Input input(data, size);
    Job job(memory);
    while (!input.empty()) {
        const std::uint32_t command = input.number<std::uint8_t>();
        const std::uint32_t number = (command >> 3) % kNumbers;
        const Witness::About about{.group = 1 + (command >> 5) % 3, .rank = command >> 7U};
        switch (command % 8) {
            case 0:
            case 1:
                job.take(number, about);
                break;
            case 2:
            case 3:
                job.write(number, fuzz::exact(input.take(input.number<std::uint16_t>() % (Witness::kMostBytes + 2))));
                break;
            case 4:
                job.give_back(number);
                break;
            case 5:
                job.end(number);
                break;
            case 6:
                job.damage(input);
                break;
            default:
                job.damage_words(input);
        }
        job.look(number, about);
    }
    return 0;
}
