#include "transport/shm/bulk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/process.hpp"

namespace coppice::transport::shm {
namespace {

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

// The first page, so that no place is 0.
struct BulkHeader {
    std::uint64_t magic;
    std::uint64_t nonce;  // of the segment
};
// Each rank maps those of all others of its host, and has as much address space as 47 bits name.
constexpr std::uint64_t kLargest = std::uint64_t{32} << 30;
constexpr std::uint64_t kBulkMagic = 0x316b6c75'62706f43U;  // "Copbulk1"

bool may_be_so_large(std::uint64_t bytes) {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------- the owner's ---

OwnBulk::~OwnBulk() {
    drop();
}

void OwnBulk::drop() {
    size_ = prepared_ = 0;
    mapping_ = Mapping();
    process::close_own(std::exchange(fd_, -1));
}

// As large as the limits of this process let it be.
bool OwnBulk::make(OwnSegment& own, std::uint64_t most, std::size_t least) {
    std::uint64_t size = std::min(most, kLargest);
    while (size >= least && !make_file(kPage + round_up(size, kPage))) {
        drop();
        size /= 2;
    }
    if (size < least || !prepare(kPage)) return false;
    size_ = kPage + round_up(size, kPage);
    new (mapping_.base()) BulkHeader{.magic = kBulkMagic, .nonce = own.header().nonce};
    own.header().bulk_file.publish(std::uint64_t{size_ / kPage} << 32 | (static_cast<std::uint32_t>(fd_) + 1));
    return true;
}

bool OwnBulk::make_file(std::uint64_t size) {
    if (!may_be_so_large(size)) return false;
    fd_ = process::open_own([] { return memfd_create("coppice-bulk", MFD_CLOEXEC | MFD_ALLOW_SEALING); });
    if (fd_ < 0) return false;
    if (ftruncate(fd_, static_cast<off_t>(size)) != 0) return false;
    fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    void* const base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
    if (base == MAP_FAILED) return false;
    mapping_ = Mapping(static_cast<std::byte*>(base), size);
    (void)madvise(base, size, MADV_DONTFORK);  // a child would write to what the others read
    (void)madvise(base, size, MADV_DONTDUMP);  // most of it is nothing
    return true;
}

bool OwnBulk::prepare(std::size_t end) {
    if (end <= prepared_) return true;
    const std::size_t from = prepared_;
    prepared_ = end;
    if (allocate(fd_, from, end - from) && populate(mapping_.base() + from, end - from)) return true;
    shorten(from);
    return false;
}

// The first place that is large enough: what was used last is in the caches. What is missing now, a descriptor or memory, may be there when
// the next payload comes.
Board::Bulk OwnBulk::take(OwnSegment& own, std::size_t bytes, std::uint64_t most, std::uint32_t panel) {
    if (size_ == 0 && !make(own, most, bytes)) drop();
    if (bytes > size_) return {};
    const std::size_t wanted = round_up(bytes, kPage);
    std::size_t at = kPage;
    auto before = pieces_.begin();
    for (; before != pieces_.end() && before->at - at < wanted; ++before)
        at = before->at + before->bytes;
    if (at + wanted > size_ || !prepare(at + wanted)) return {};
    pieces_.insert(before, {.at = at, .bytes = wanted, .panel = panel});
    return {.data = mapping_.base() + at, .place = at};
}

void OwnBulk::give_back(std::uint64_t place, std::size_t keep) {
    std::erase_if(pieces_, [place](const Piece& piece) { return piece.at == place; });
    keep_ = keep;
    shorten();
}

void OwnBulk::shorten() {
    std::size_t end = kPage + round_up(keep_, kPage);
    if (!pieces_.empty()) end = std::max(end, pieces_.back().at + pieces_.back().bytes);
    shorten(end);
}

// What is behind that is no memory of this process any more.
void OwnBulk::shorten(std::size_t end) {
    if (end >= prepared_) return;
    const auto rest = static_cast<off_t>(prepared_ - end);
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(end), rest);
    prepared_ = end;
}

void OwnBulk::clear(std::uint32_t panels) {
    std::erase_if(pieces_, [panels](const Piece& piece) { return (panels >> piece.panel & 1) != 0; });
    if (keep_ > 0) shorten();
}

// ---------------------------------------------------------------------------------------------------------- a peer's ---

void PeerBulk::map(const Address& address, const PeerSegment& segment) {
    const std::uint64_t file = segment.header().bulk_file.read();
    const int number = static_cast<int>(static_cast<std::uint32_t>(file)) - 1;
    if (number < 0 || is_wrong_) return;
    char path[64];
    *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/fd/{}", address.pid, number).out = '\0';
    const int fd = process::open_own([&] { return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
    if (fd < 0) return;  // it has died, or there is no descriptor left just now
    const std::uint64_t size = (file >> 32) * kPage;
    struct stat status {};
    is_wrong_ = fstat(fd, &status) != 0 || static_cast<std::uint64_t>(status.st_size) != size || size <= kPage ||
                (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0;
    void* const base = is_wrong_ ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    process::close_own(fd);
    if (base == MAP_FAILED) return;
    (void)madvise(base, size, MADV_DONTDUMP);
    Mapping mapped(static_cast<std::byte*>(base), size);
    const auto& header = *reinterpret_cast<const BulkHeader*>(mapped.base());
    is_wrong_ = header.magic != kBulkMagic || header.nonce != address.nonce;
    if (is_wrong_) return;
    mapping_ = std::move(mapped);
    size_ = size;
}

const std::byte* PeerBulk::at(std::uint64_t place, std::size_t bytes) {
    if (!mapping_ || place < kPage || place > size_ || bytes > size_ - place) return nullptr;
    const std::size_t end = std::min(round_up(place + bytes, kPage), size_);
    if (end > seen_) {
        // One call for what would be a fault for every few pages. Where this kernel can't, these follow.
        (void)madvise(mapping_.base() + seen_, end - seen_, MADV_POPULATE_READ);
        seen_ = end;
    }
    return mapping_.base() + place;
}

}  // namespace coppice::transport::shm
