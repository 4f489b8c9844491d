#include "transport/source_filter.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace coppice::transport {
namespace {

constexpr std::uint32_t kNetwork = static_cast<std::uint32_t>(SKF_NET_OFF);
constexpr std::uint32_t kWholePacket = 0xFFFFFFFF;
constexpr std::uint32_t kNothing = 0;

using Program = std::vector<sock_filter>;

sock_filter statement(unsigned code, std::uint32_t value) {
    return {static_cast<std::uint16_t>(code), 0, 0, value};
}
// `yes` and `no`: how many instructions are left out.
sock_filter jump(unsigned test, std::uint32_t value, unsigned yes, unsigned no) {
    return {static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), static_cast<std::uint8_t>(yes),
            static_cast<std::uint8_t>(no), value};
}
sock_filter let_in() {
    return statement(BPF_RET | BPF_K, kWholePacket);
}
sock_filter drop() {
    return statement(BPF_RET | BPF_K, kNothing);
}

struct Range {
    std::uint32_t first;
    std::uint32_t last;
};

std::uint32_t word_at(const IpAddress& address, std::size_t at) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 4; ++i)
        word = word << 8 | address.bytes[at + i];
    return word;
}

// Of the admitted IPv4 addresses, ascending. Where there are too many of them the narrowest gaps are filled.
std::vector<Range> ranges_of(const Admission& admitted) {
    std::vector<Range> ranges;
    const auto add = [&ranges](std::uint32_t first, std::uint32_t last) {
        if (!ranges.empty() && first <= ranges.back().last + std::uint64_t{1}) {
            ranges.back().last = std::max(ranges.back().last, last);
        } else {
            ranges.push_back({first, last});
        }
    };
    std::vector<Range> all;
    if (admitted.loopback) all.push_back({0x7F000000, 0x7FFFFFFF});
    for (const IpAddress& address : admitted.hosts)
        if (address.version == 4) all.push_back({word_at(address, 0), word_at(address, 0)});
    std::ranges::sort(all, {}, &Range::first);
    for (const Range& one : all)
        add(one.first, one.last);
    if (ranges.size() <= kMostRanges) return ranges;

    std::vector<std::uint32_t> gaps;
    for (std::size_t i = 1; i < ranges.size(); ++i)
        gaps.push_back(ranges[i].first - ranges[i - 1].last);
    // So many gaps stay; of equally wide ones, all or none.
    std::ranges::nth_element(gaps, gaps.begin() + kMostRanges - 1, std::ranges::greater{});
    const std::uint32_t widest_filled = gaps[kMostRanges - 1];
    std::vector<Range> fewer;
    for (const Range& one : ranges) {
        if (!fewer.empty() && one.first - fewer.back().last <= widest_filled) {
            fewer.back().last = one.last;
        } else {
            fewer.push_back(one);
        }
    }
    return fewer;
}

// A search tree; the address is in the accumulator.
void search(std::span<const Range> ranges, Program& program) {
    if (ranges.empty()) {
        program.push_back(drop());
        return;
    }
    if (ranges.size() == 1) {
        program.push_back(jump(BPF_JGE, ranges[0].first, 0, 2));
        program.push_back(jump(BPF_JGT, ranges[0].last, 1, 0));
        program.push_back(let_in());
        program.push_back(drop());
        return;
    }
    const std::size_t half = ranges.size() / 2;
    program.push_back(jump(BPF_JGE, ranges[half].first, 0, 1));
    const std::size_t far_jump = program.size();  // conditional jumps reach 255 instructions only
    program.push_back(statement(BPF_JMP | BPF_JA, 0));
    search(ranges.first(half), program);
    program[far_jump].k = static_cast<std::uint32_t>(program.size() - far_jump - 1);
    search(ranges.subspan(half), program);
}

// The four words of the address are in scratch memory.
void compare_ipv6(const IpAddress& address, Program& program) {
    for (std::uint32_t word = 0; word < 4; ++word) {
        const unsigned rest = 2 * (3 - word) + 1;  // instructions behind this word's, for this address
        program.push_back(statement(BPF_LD | BPF_MEM, word));
        program.push_back(jump(BPF_JEQ, word_at(address, std::size_t{4} * word), 0, rest));
    }
    program.push_back(let_in());
}

// None where there are too many.
std::optional<Program> ipv6_part(const Admission& admitted) {
    std::vector<IpAddress> six;
    std::ranges::copy_if(admitted.hosts, std::back_inserter(six), [](const auto& one) { return one.version == 6; });
    if (six.size() > kMostIpv6) return std::nullopt;
    if (admitted.loopback) {
        six.push_back({.version = 6});
        six.back().bytes[15] = 1;
    }
    Program program;
    constexpr std::uint32_t kSource = 8;  // in the header
    for (std::uint32_t word = 0; word < 4; ++word) {
        program.push_back(statement(BPF_LD | BPF_W | BPF_ABS, kNetwork + kSource + 4 * word));
        program.push_back(statement(BPF_ST, word));
    }
    for (const IpAddress& address : six)
        compare_ipv6(address, program);
    program.push_back(drop());
    return program;
}

Program ipv4_part(const Admission& admitted) {
    constexpr std::uint32_t kSource = 12;  // in the header
    Program program{statement(BPF_LD | BPF_W | BPF_ABS, kNetwork + kSource)};
    search(ranges_of(admitted), program);
    return program;
}

}  // namespace

std::optional<std::vector<sock_filter>> source_filter(const Admission& admitted) {
    if (admitted.everybody) return std::nullopt;
    const Program version4 = ipv4_part(admitted);
    const auto version6 = ipv6_part(admitted);
    if (!version6) return std::nullopt;
    // The first byte of the header has the version in its upper half.
    Program program{statement(BPF_LD | BPF_B | BPF_ABS, kNetwork),
                    statement(BPF_ALU | BPF_RSH | BPF_K, 4),
                    jump(BPF_JEQ, 4, 3, 0),  // to the part of IPv4, which follows
                    jump(BPF_JEQ, 6, 1, 0),
                    drop(),
                    statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(version4.size()))};
    program.insert(program.end(), version4.begin(), version4.end());
    program.insert(program.end(), version6->begin(), version6->end());
    return program;
}

}  // namespace coppice::transport
