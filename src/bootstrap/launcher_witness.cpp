#include "bootstrap/launcher_witness.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/process.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/launcher_protocol.hpp"

namespace coppice::bootstrap {
namespace witness {
namespace {

constexpr std::size_t kAlignment = 128;
constexpr std::size_t aligned(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
constexpr std::size_t kHeader = aligned(sizeof(Header));
constexpr std::size_t kNumber = aligned(sizeof(Number));
constexpr std::size_t kVote = aligned(sizeof(Vote));
constexpr std::uint32_t kTooLong = UINT32_MAX;

}  // namespace

Memory::~Memory() {
    if (at_ != nullptr) ::munmap(at_, bytes_);
}

Memory::Memory(Memory&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_), numbers_(other.numbers_) {}

std::size_t Memory::bytes_for(std::uint32_t numbers) {
    return kHeader + numbers * (kNumber + kEntries * kVote);
}

std::optional<Memory> Memory::map(int descriptor, std::uint32_t numbers) {
    Memory memory;
    memory.bytes_ = bytes_for(numbers);
    memory.numbers_ = numbers;
    void* const at = ::mmap(nullptr, memory.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (at == MAP_FAILED) return std::nullopt;
    memory.at_ = static_cast<std::byte*>(at);
    return memory;
}

std::optional<Memory> Memory::map(int descriptor) {
    struct stat about {};
    const int seals = ::fcntl(descriptor, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(descriptor, &about) != 0) return std::nullopt;
    Header header;
    if (::pread(descriptor, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return std::nullopt;
    const bool is_one = header.magic == kMagic && header.version == kVersion && header.numbers <= kMaxLauncherRanks &&
                        static_cast<std::size_t>(about.st_size) >= bytes_for(header.numbers);
    return is_one ? map(descriptor, header.numbers) : std::nullopt;
}

Number& Memory::number(std::uint32_t number) const {
    return shared::at<Number>(at_ + kHeader + number * kNumber);
}

Vote& Memory::vote(std::uint32_t number, std::uint32_t entry) const {
    return shared::at<Vote>(at_ + kHeader + numbers_ * kNumber + (std::size_t{number} * kEntries + entry) * kVote);
}

}  // namespace witness

// Never destroyed: a program's groups may be static objects, and then end behind those of this file.
const Witness* LauncherWitness::of_this_process() {
    static const Witness* const one = []() -> const Witness* {
        const char* const path = std::getenv("COPPICE_WITNESS");
        if (path == nullptr || *path == '\0') return nullptr;
        const auto environment = read_launcher_environment();
        if (!environment || !*environment) return nullptr;
        return open(path, (*environment)->rank.value).release();
    }();
    return one;
}

std::unique_ptr<Witness> LauncherWitness::open(const std::string& path, std::uint32_t number) {
    const int descriptor = process::open_own([&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); });
    if (descriptor < 0) return nullptr;
    auto memory = witness::Memory::map(descriptor);
    process::close_own(descriptor);
    if (!memory || number >= memory->numbers()) return nullptr;
    return std::unique_ptr<Witness>(new LauncherWitness(std::move(*memory), number));
}

namespace {

// First that its process has ended, then what it was called: a reader looks for the latter in between.
void forget_all_of(witness::Number& number, std::uint32_t claim) {
    for (witness::Entry& entry : number.entries)
        if (entry.owner.get() == claim) entry.ended.set(0);
    for (witness::Entry& entry : number.entries)
        entry.owner.replace(claim, 0);
}

}  // namespace

std::optional<Witness::Place> LauncherWitness::take(const About& about) const {
    witness::Number& own = memory_.number(number_);
    const std::uint64_t word = own.claim.get();
    const auto claim = static_cast<std::uint32_t>(word);
    if (claim == 0 || word != witness::claim_word(claim, ::getpid())) return std::nullopt;
    // Free ones first: what an earlier process of this number has said last, others may have yet to read.
    for (std::uint32_t look = 0; look < 2 * witness::kEntries; ++look) {
        const std::uint32_t i = look % witness::kEntries;
        witness::Entry& entry = own.entries[i];
        const std::uint32_t before = entry.owner.get();
        const bool may_take = look < witness::kEntries ? before == 0 : before != 0 && entry.ended.get() == before;
        if (!may_take) continue;
        // One name that is gone would look as if its process had never had it.
        if (before != 0) forget_all_of(own, before);
        if (!entry.owner.replace(0, claim)) continue;
        memory_.vote(number_, i).stamp.publish(0);
        entry.rank.set(about.rank);
        entry.group.set(about.group);
        return Place{.about = about, .entry = i, .owner = claim};
    }
    return std::nullopt;
}

void LauncherWitness::give_back(const Place& place) const {
    witness::Entry& entry = memory_.number(number_).entries[place.entry];
    if (entry.owner.get() != place.owner) return;
    entry.group.set(0);  // who takes it next may end before it has said what it is about
    entry.owner.replace(place.owner, 0);
}

bool LauncherWitness::write(const Place& place, std::span<const std::byte> bytes) const {
    witness::Vote& vote = memory_.vote(number_, place.entry);
    const std::uint64_t stamp = vote.stamp.own() + 1;
    witness::Vote::Place& at = vote.places[stamp & 1];
    at.length = bytes.size() > witness::kMostBytes ? witness::kTooLong : static_cast<std::uint32_t>(bytes.size());
    if (at.length != witness::kTooLong) std::ranges::copy(bytes, at.bytes);
    vote.stamp.publish(stamp);
    return true;
}

std::optional<std::vector<std::byte>> LauncherWitness::last_words_of(const About& about) const {
    // In a group of all ranks that has not been shrunk a rank's number is the launcher's.
    for (std::uint32_t i = 0; i < memory_.numbers(); ++i) {
        const std::uint32_t number = (about.rank + i) % memory_.numbers();
        for (std::uint32_t entry = 0; entry < witness::kEntries; ++entry)
            if (auto words = read(about, number, entry)) return words;
    }
    return std::nullopt;
}

bool LauncherWitness::knows(const About& about) const {
    for (std::uint32_t number = 0; number < memory_.numbers(); ++number) {
        for (const witness::Entry& entry : memory_.number(number).entries) {
            const bool is_meant = entry.group.get() == about.group && entry.rank.get() == about.rank;
            if (is_meant && entry.owner.get() != 0) return true;
        }
    }
    return false;
}

std::optional<std::vector<std::byte>> LauncherWitness::read(const About& about, std::uint32_t number,
                                                            std::uint32_t entry_number) const {
    const witness::Entry& entry = memory_.number(number).entries[entry_number];
    const std::uint32_t owner = entry.owner.get();
    if (owner == 0 || entry.ended.get() != owner) return std::nullopt;
    if (entry.group.get() != about.group || entry.rank.get() != about.rank) return std::nullopt;
    const witness::Vote& vote = memory_.vote(number, entry_number);
    const std::uint64_t stamp = vote.stamp.read();
    std::vector<std::byte> bytes;
    if (stamp != 0) {
        const witness::Vote::Place& at = vote.places[stamp & 1];
        const std::uint32_t length = shared::read_once(at.length);
        if (length > witness::kMostBytes) return std::nullopt;
        bytes.assign(at.bytes, at.bytes + length);
    }
    // Another process of that number may have taken the entry meanwhile.
    return entry.owner.get() == owner ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace coppice::bootstrap
