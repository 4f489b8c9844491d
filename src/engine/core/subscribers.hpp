// The components of a group, in the order in which they are told of changes and called.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/collective.hpp"

namespace coppice::engine {

class Subscribers {
  public:
    void add(Collective& collective) { all_.push_back(&collective); }
    std::span<Collective* const> all() const { return all_; }

    // What members of this host, dead or alive, have written down that concerns components.
    void hear_last_words() const {
        for (Collective* const collective : all_)
            collective->hear_last_words();
    }
    void members_failed(const protocol::FailedSet& news) const {
        for (Collective* const collective : all_)
            collective->members_failed(news);
    }
    void member_failed(const Death& death) const {
        for (Collective* const collective : all_)
            collective->member_failed(death);
    }
    void member_left(Rank rank) const {
        for (Collective* const collective : all_)
            collective->member_left(rank);
    }
    // Ends what waits, in every component.
    void end_all(coppice_status_t status, const std::string& why) const {
        for (Collective* const collective : all_)
            collective->end_all(status, why);
    }
    // Why the group was revoked, where a component did it.
    std::optional<Error> reason_to_revoke() const {
        for (Collective* const collective : all_)
            if (auto reason = collective->reason_to_revoke()) return reason;
        return std::nullopt;
    }

  private:
    std::vector<Collective*> all_;
};

}  // namespace coppice::engine
