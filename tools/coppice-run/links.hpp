// --count-links: packets over the leaves' up-links, as their ends at the leaf bridges have counted them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coppice::run {

struct LinkCount {
    std::uint64_t up = 0;  // packets from the leaf to the bridge above
    std::uint64_t down = 0;
    std::optional<std::uint64_t>
        payload_up{};  // those of `up` that bring TCP's payload; nothing where the kernel can't say
};

// What /proc/net/dev says of each leaf's up-link; zeros where it does not know it.
std::vector<LinkCount> read_links(std::string_view devices, std::uint32_t leaves);

// Counts from when it is made. Of the calling process's network, which has to be that of the bridges; to be made with the rights over it.
class LinkCounter {
  public:
    explicit LinkCounter(std::uint32_t leaves);
    ~LinkCounter();
    LinkCounter(const LinkCounter&) = delete;
    LinkCounter& operator=(const LinkCounter&) = delete;

    // Since it was made. Once.
    std::vector<LinkCount> count() const;

  private:
    std::vector<LinkCount> start_;
    std::vector<int> sockets_;  // by leaf
};

// What was counted, for people: a line for each leaf and one for all. `operations`: 0, or what to divide by.
std::vector<std::string> describe_links(const std::vector<LinkCount>& counts, std::uint64_t operations);

}  // namespace coppice::run
