// The launcher as a witness of deaths: memory that it shares with all processes that it has started.
//
// A rank writes its last vote there (engine/collectives/shrink/last_votes.hpp) before it says so to anybody. When the kernel has told the
// launcher that the process has ended, it marks what that process has written: from then on the death is certain, and the vote is known.
// Nothing is sent and nobody is asked, so a launcher that is stopped or gone holds up nobody; it has just not spoken.
//
//   header | per number of the launcher's: claim, entries | per number and entry: stamp, two places of length and bytes
//
// - A *claim* says which process may write in the name of a number. The launcher makes it when it starts a process, and when another
//   one connects by that number. It watches that very process by a pidfd: a rank may be a shell around the program, and its number may be used again.
// - An *entry* belongs to one claim, and is about one rank of one group. Who takes it writes its claim as owner; the launcher writes the claims
//   that have ended. An entry whose owner has ended may be taken by a later process of the same number, when none is free. So a reader looks at the owner
//   before and after it has copied what it wants.
// - What is not there is not certain: of a process of another launcher, or with more groups at once than there are entries.
//
// Who may write: every process of the job, as with the segments of a host (docs/security.md). Nobody can change the memory's size.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/shared_words.hpp"
#include "bootstrap/witness.hpp"

namespace coppice::bootstrap {

namespace witness {

inline constexpr std::uint32_t kMagic = 0x74695743;  // "CWit"
inline constexpr std::uint32_t kVersion = 3;
// Groups of a process at once whose last votes are kept, and the process itself, once for all that is made of one group (presence.hpp).
inline constexpr std::uint32_t kEntries = 32;
inline constexpr std::size_t kMostBytes = Witness::kMostBytes;

struct Header {
    std::uint32_t magic = 0;
    std::uint32_t version = 0;
    std::uint32_t numbers = 0;
};

struct Entry {
    shared::State<std::uint32_t> owner;  // a claim; 0: it is free
    shared::State<std::uint32_t> ended;  // the claim of the last owner that has ended
    shared::State<std::uint64_t> group;
    shared::State<std::uint32_t> rank;
};

struct Number {
    shared::State<std::uint64_t> claim;  // which one, and above it the process; 0: none yet
    Entry entries[kEntries];
};

struct Vote {
    struct Place {
        std::uint32_t length;
        std::byte bytes[kMostBytes];
    };
    shared::Published<std::uint64_t> stamp;  // counts what was written; its lowest bit says where. 0: nothing was
    Place places[2];
};

// Where these lie. Owns the mapping.
class Memory {
  public:
    Memory() = default;
    ~Memory();
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&&) = delete;

    static std::size_t bytes_for(std::uint32_t numbers);
    // None: it can't be mapped, or is not a witness's.
    static std::optional<Memory> map(int descriptor, std::uint32_t numbers);
    static std::optional<Memory> map(int descriptor);

    std::uint32_t numbers() const { return numbers_; }
    Header& header() const { return *reinterpret_cast<Header*>(at_); }
    Number& number(std::uint32_t number) const;
    Vote& vote(std::uint32_t number, std::uint32_t entry) const;

  private:
    std::byte* at_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint32_t numbers_ = 0;
};

constexpr std::uint64_t claim_word(std::uint32_t claim, pid_t process) {
    return std::uint64_t{static_cast<std::uint32_t>(process)} << 32 | claim;
}

}  // namespace witness

// A rank's side.
class LauncherWitness final : public Witness {
  public:
    // COPPICE_WITNESS and COPPICE_RANK, once in the life of the process; null: no launcher of this process is a witness.
    static const Witness* of_this_process();
    // The same, from this file and as that number.
    static std::unique_ptr<Witness> open(const std::string& path, std::uint32_t number);

    // None: this process has used all its entries, or is not the one of which the launcher knows under that number.
    std::optional<Place> take(const About& about) const override;
    void give_back(const Place& place) const override;
    bool write(const Place& place, std::span<const std::byte> bytes) const override;
    std::optional<std::vector<std::byte>> last_words_of(const About& about) const override;
    bool knows(const About& about) const override;

  private:
    LauncherWitness(witness::Memory memory, std::uint32_t number) : memory_(std::move(memory)), number_(number) {}
    std::optional<std::vector<std::byte>> read(const About& about, std::uint32_t number, std::uint32_t entry) const;

    witness::Memory memory_;
    std::uint32_t number_;
};

}  // namespace coppice::bootstrap
