// That a process takes part at all, as a witness knows it: from before its first group is made until it has none any more.
//
// A group's last votes are known by the group's name and rank (engine/collectives/shrink/last_votes.hpp), which a rank has with the witness
// from when it makes the group. One that ends before has no such name, though the others may have made the group with it. So each
// process has one more name, which all that may have to ask know as well, by its number and how many had that before. Where that process has
// ended, and has no name in a group, it has voted for nothing there; unless the group is one whose votes it has had forgotten.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "bootstrap/witness.hpp"

namespace coppice::bootstrap {

class Presence {
  public:
    struct Who {
        std::uint32_t number = 0;
        std::uint32_t incarnation = 0;
    };

    // `token`: the same for all processes that may be in a group together, and for no others.
    Presence(std::shared_ptr<const Witness> witness, std::uint64_t token, Who self);
    ~Presence();
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

    const Witness& witness() const { return *witness_; }
    // This process has voted, in a group of that epoch, what it has had forgotten or what was never kept. False: that could not be
    // noted yet, so nothing may be forgotten.
    bool note_unknown(std::uint32_t epoch);
    // Whether that process has ended, and never had that name, or has had nothing but silence forgotten by it.
    bool was_never_there(const Who& who, const Witness::About& name, std::uint32_t epoch) const;

  private:
    Witness::About name_of(const Who& who) const;
    // Of one that has ended: the first epoch from which on nothing was forgotten.
    std::optional<std::uint32_t> known_from(const Who& who) const;

    std::shared_ptr<const Witness> witness_;
    std::uint64_t token_;
    std::optional<Witness::Place> place_;
    std::uint32_t known_from_ = 0;
};

}  // namespace coppice::bootstrap
