#include "protocol/agreement/failed_codec.hpp"

#include <bit>

namespace coppice::protocol {
namespace {

constexpr std::byte kNobody{0};
constexpr std::byte kRanges{1};
constexpr std::byte kBitmap{2};

std::size_t size_of_number(std::uint32_t number) {
    return number == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(number)) + 6) / 7;
}

void write_number(std::uint32_t number, std::vector<std::byte>& out) {
    while (number >= 0x80) {
        out.push_back(static_cast<std::byte>(number | 0x80));
        number >>= 7;
    }
    out.push_back(static_cast<std::byte>(number));
}

bool read_number(std::span<const std::byte>& bytes, std::uint32_t& number) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size() && i < 5; ++i) {
        const auto byte = std::to_integer<std::uint8_t>(bytes[i]);
        value |= std::uint64_t{byte & 0x7fU} << (7 * i);
        if ((byte & 0x80U) != 0) continue;
        if ((i > 0 && byte == 0) || value > UINT32_MAX) return false;  // longer than need be, or too large
        number = static_cast<std::uint32_t>(value);
        bytes = bytes.subspan(i + 1);
        return true;
    }
    return false;
}

std::size_t size_of_ranges(const FailedSet& failed) {
    std::size_t size = size_of_number(static_cast<std::uint32_t>(failed.intervals().size()));
    std::uint32_t next = 0;
    for (const FailedSet::Interval& interval : failed.intervals()) {
        size += size_of_number(interval.first - next) + size_of_number(interval.last - interval.first + 1);
        next = interval.last + 1;
    }
    return size;
}

struct Bitmap {
    std::uint32_t gap;
    std::uint32_t bytes;
};

Bitmap bitmap_of(const FailedSet& failed) {
    const std::uint32_t first = failed.intervals().front().first / 8;
    return {first, failed.intervals().back().last / 8 - first + 1};
}

bool ranges_are_smaller(const FailedSet& failed) {
    const Bitmap bitmap = bitmap_of(failed);
    return size_of_ranges(failed) <= size_of_number(bitmap.gap) + size_of_number(bitmap.bytes) + bitmap.bytes;
}

bool read_ranges(std::span<const std::byte>& bytes, std::uint32_t ranks, FailedSet& failed) {
    std::uint32_t count = 0;
    if (!read_number(bytes, count) || count == 0 || count > bytes.size() / 2) return false;
    std::uint64_t next = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
        std::uint32_t gap = 0;
        std::uint32_t length = 0;
        if (!read_number(bytes, gap) || !read_number(bytes, length)) return false;
        if (length == 0 || (i > 0 && gap == 0)) return false;
        const std::uint64_t first = next + gap;
        next = first + length;
        if (next > ranks) return false;
        failed.append({static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(next - 1)});
    }
    return ranges_are_smaller(failed);
}

bool read_bitmap(std::span<const std::byte>& bytes, std::uint32_t ranks, FailedSet& failed) {
    std::uint32_t gap = 0;
    std::uint32_t size = 0;
    if (!read_number(bytes, gap) || !read_number(bytes, size)) return false;
    if (size == 0 || size > bytes.size() || std::uint64_t{gap} + size > (std::uint64_t{ranks} + 7) / 8) return false;
    const std::span<const std::byte> bitmap = bytes.first(size);
    if (bitmap.front() == std::byte{0} || bitmap.back() == std::byte{0}) return false;
    for (std::uint32_t i = 0; i < size; ++i) {
        for (auto rest = std::to_integer<std::uint32_t>(bitmap[i]); rest != 0; rest &= rest - 1) {
            const std::uint64_t rank = (std::uint64_t{gap} + i) * 8 + static_cast<unsigned>(std::countr_zero(rest));
            if (rank >= ranks) return false;
            failed.append({static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(rank)});
        }
    }
    bytes = bytes.subspan(size);
    return !ranges_are_smaller(failed);
}

}  // namespace

void write_failed(const FailedSet& failed, std::vector<std::byte>& out) {
    if (failed.empty()) {
        out.push_back(kNobody);
        return;
    }
    if (ranges_are_smaller(failed)) {
        out.push_back(kRanges);
        write_number(static_cast<std::uint32_t>(failed.intervals().size()), out);
        std::uint32_t next = 0;
        for (const FailedSet::Interval& interval : failed.intervals()) {
            write_number(interval.first - next, out);
            write_number(interval.last - interval.first + 1, out);
            next = interval.last + 1;
        }
        return;
    }
    const Bitmap bitmap = bitmap_of(failed);
    out.push_back(kBitmap);
    write_number(bitmap.gap, out);
    write_number(bitmap.bytes, out);
    const std::size_t start = out.size();
    out.resize(start + bitmap.bytes);
    for (const FailedSet::Interval& interval : failed.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank)
            out[start + rank / 8 - bitmap.gap] |= static_cast<std::byte>(1U << (rank % 8));
    }
}

bool read_failed(std::span<const std::byte>& bytes, std::uint32_t ranks, FailedSet& failed) {
    failed.clear();
    if (bytes.empty()) return false;
    const std::byte form = bytes.front();
    bytes = bytes.subspan(1);
    if (form == kNobody) return true;
    const bool taken = form == kRanges   ? read_ranges(bytes, ranks, failed)
                       : form == kBitmap ? read_bitmap(bytes, ranks, failed)
                                         : false;
    if (!taken) failed.clear();
    return taken;
}

}  // namespace coppice::protocol
