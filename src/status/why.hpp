// Why ranks wait, from all of their pages together: who waits for whom, and where that ends. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "status/gather.hpp"

namespace coppice::show {

// "broadcast 17 from rank 2", "barrier 3", "leaving the group".
std::string name_of(const status::Operation& operation);
const char* name_of(status::Kind kind);
const char* name_of(status::Why why);
const char* name_of(status::Standing standing);
// "9f31ab02.0": the token and the epoch.
std::string name_of(const status::Group& group);
// "0, 2 and 5-9"
std::string ranks_text(const std::vector<std::uint32_t>& ascending);

class Reasons {
  public:
    // `pages` outlives this object.
    explicit Reasons(const std::vector<Seen>& pages);

    // "waits for rank 5, which waits for rank 4, which speaks for its host and has not entered broadcast 17"; "" for one that
    // does not say for whom it waits.
    std::string chain(const Seen& seen, const status::Operation& operation) const;
    // What programs have done to themselves, of all groups: a sentence each.
    std::vector<std::string> findings() const;

  private:
    using GroupName = std::pair<std::uint32_t, std::uint32_t>;  // token, epoch
    struct Place {
        const Seen* seen = nullptr;
        std::uint32_t group = 0;  // index in its report
        const status::Group& facts() const { return seen->page.report.groups[group]; }
    };
    using Members = std::map<std::uint32_t, Place>;  // by rank

    const Place* find(const GroupName& group, std::uint32_t rank) const;
    static bool has_entered(const Place& place, const status::Operation& operation);
    static const status::Operation* same_at(const Place& place, const status::Operation& operation);
    static const status::Operation* blocked_at(const Place& place);
    static std::string elsewhere(const Place& place);
    void follow(const GroupName& group, const status::Operation& operation, std::vector<std::uint32_t>& been,
                std::string& text) const;

    void find_held(const GroupName& group, const Members& members, std::vector<std::string>& found) const;
    void find_roots(const GroupName& group, const Members& members, std::vector<std::string>& found) const;
    void find_different(const GroupName& group, const Members& members, std::vector<std::string>& found) const;
    void find_absent(const GroupName& group, const Members& members, std::vector<std::string>& found) const;

    std::map<GroupName, Members> groups_;
};

}  // namespace coppice::show
