// What a group is made with, and renewed with. Programs include <coppice/coppice.hpp>, of which this is a part.
#pragma once

#include <coppice/membership.h>
#include <coppice/status.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace coppice {
inline namespace v0 {

// What is left empty or 0 takes the value of its environment variable, else the default.
struct GroupOptions {
    // An allgather: `mine` in, the same number of bytes of every rank out, in rank order. Returns whether it went well;
    // what it throws comes out of create (try_create: kBootstrap). Called by the creating thread within creation only.
    // Empty: the launcher tells rank and size, and those below are ignored.
    std::function<bool(std::span<const std::byte> mine, std::span<std::byte> all)> exchange = {};
    std::uint32_t rank = 0;
    std::uint32_t size = 0;

    std::string tree = {};        // "binomial", "kary:4", "lame:2", …
    std::string correction = {};  // "optimized:2", "checked", …
    std::string hierarchy = {};   // "host", "flat"
    std::uint32_t window = 0;
    Timeout timeout{0};  // for creation

    // It may ask Group::failed and nothing else of the library, and must not throw; what it throws is dropped. Called once per
    // failed rank, from within any call of the library, or from the progress thread where that was asked for.
    std::function<void(std::uint32_t rank)> on_failure = {};

    // How long the destructor of the group waits for ranks that still need this one's payloads.
    Timeout leave_timeout = std::chrono::seconds(60);

    std::string algorithm = {};  // "tree", "ocg", "ccg", …

    std::string agreement_tree = {};  // "auto", "binomial", "bin/star", …

    std::string switches = {};  // above this host: "pod1/leaf3"

    // A group of some ranks: those that the launcher, or `size`, counts. ranks[i] becomes rank i; they alone create it, all with
    // the same list. Empty: all ranks.
    std::vector<std::uint32_t> ranks = {};

    // As in C: the structure is copied, and its argument has to live as long as the group and those that are made of it.
    const coppice_witness_t* witness = nullptr;
};

// Of a renewal. `most` 0: as many as wait. With `as_others`, which is NULL in C, the rest does not count: this rank goes by
// the options of the others. Without it, {} stands for the defaults, which have to be the others' options, too.
struct RenewOptions {
    std::uint32_t least = 0;
    std::uint32_t most = 0;
    bool newcomers_come_last = false;
    bool as_others = false;

    coppice_renew_options_t to_c() const noexcept {
        coppice_renew_options_t options = COPPICE_RENEW_OPTIONS_INIT;
        options.least = least;
        options.most = most;
        if (newcomers_come_last) options.numbering = COPPICE_NUMBERS_LAST;
        return options;
    }
};

struct Membership {
    coppice_view_t view{};
    std::vector<coppice_member_t> members;  // by rank
};

}  // namespace v0
}  // namespace coppice
