#include "transport/shm/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/host.hpp"
#include "base/process.hpp"
#include "transport/shm/obituary.hpp"

namespace coppice::transport::shm {

namespace {

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

std::uint64_t random_word() {
    std::uint64_t word = 0;
    if (getrandom(&word, sizeof word, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof word))
        word = static_cast<std::uint64_t>(getpid()) << 32 ^ reinterpret_cast<std::uintptr_t>(&word) ^
               process_start_time(getpid());
    return word;
}

Result<void> check_file_size(Seat self, std::size_t need) {
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < need)
        return fail(COPPICE_ERR_NO_RESOURCES,
                    "shm: rank {} needs a shared segment of {} bytes (mostly address space), but the limit of file "
                    "sizes (RLIMIT_FSIZE) is {}; raise it with ulimit -f, or choose a smaller window",
                    self.value, need, limit.rlim_cur);
    return {};
}

tl::unexpected<Error> no_descriptor(Seat self, int error) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return fail(COPPICE_ERR_NO_RESOURCES,
                "shm: rank {} cannot open the file descriptors that it needs for its shared segment (3 more): {}; the "
                "limit (RLIMIT_NOFILE) is {}, raise it with ulimit -n",
                self.value, std::strerror(error), limit.rlim_cur);
}

tl::unexpected<Error> no_memory(Seat self, std::size_t need, int error) {
    return fail(
        COPPICE_ERR_NO_MEMORY,
        "shm: rank {} got no memory for its shared segment, {} bytes: {}; free memory, choose a smaller window, "
        "or raise the limit of the address space (ulimit -v)",
        self.value, need, std::strerror(error));
}

void make_objects(std::byte* base, const Layout& layout) {
    new (base + layout.mailroom_at) Mailroom;
    for (std::uint32_t index = 0; index < layout.inboxes; ++index)
        new (base + layout.claims_at + index * sizeof(Claim)) Claim;
}

}  // namespace

Mapping::~Mapping() {
    if (base_ != nullptr) munmap(base_, size_);
}

OwnSegment::Descriptor::~Descriptor() {
    process::close_own(number);
}

Result<OwnSegment> OwnSegment::make(Seat self, const Layout& layout) {
    if (auto fits = check_file_size(self, layout.size); !fits) return tl::unexpected(fits.error());
    Descriptor fd(process::open_own([] { return memfd_create("coppice", MFD_CLOEXEC | MFD_ALLOW_SEALING); }));
    if (fd.number < 0) return no_descriptor(self, errno);
    OwnSegment segment(layout, std::move(fd));
    segment.close_reserve();
    if (segment.reserve_.number < 0) return no_descriptor(self, errno);

    if (ftruncate(segment.fd(), static_cast<off_t>(layout.size)) != 0) return no_memory(self, layout.size, errno);
    const std::size_t always = layout.panels_at + layout.inboxes_at - layout.mailroom_at;
    if (!allocate(segment.fd(), 0, layout.panels_at) ||
        !allocate(segment.fd(), layout.mailroom_at, layout.inboxes_at - layout.mailroom_at))
        return no_memory(self, always, errno);
    fcntl(segment.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    void* const base = mmap(nullptr, layout.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment.fd(), 0);
    if (base == MAP_FAILED) return no_memory(self, layout.size, errno);
    segment.mapping_ = Mapping(static_cast<std::byte*>(base), layout.size);
    if (!populate(segment.base(), layout.panels_at) ||
        !populate(segment.base() + layout.mailroom_at, layout.inboxes_at - layout.mailroom_at))
        return no_memory(self, always, ENOMEM);
    if (!segment.make_panel(0)) return no_memory(self, layout.panel_stride, errno);

    make_objects(segment.base(), layout);
    Header& header = *new (segment.base()) Header;
    header.magic = kMagic;
    header.version = kVersion;
    header.window = layout.window;
    header.nonce = random_word();
    header.size = layout.size;
    header.rank = self.value;
    header.group_size = layout.group_size;
    header.inboxes = layout.inboxes;
    if (auto held = hold(header.obituary); !held) return tl::unexpected(held.error());
    segment.owner_ = getpid();
    return segment;
}

OwnSegment::~OwnSegment() {
    if (mapping_ && is_ours()) let_go(header().obituary);
}

bool OwnSegment::make_panel(std::uint32_t number) {
    const std::size_t at = layout_.panels_at + number * layout_.panel_stride;
    if (!allocate(fd(), at, layout_.panel_stride)) return false;
    if (!populate(panel(number), layout_.panel_stride)) return false;
    clear_panel(number);
    return true;
}

void OwnSegment::clear_panel(std::uint32_t number) {
    std::byte* const at = panel(number);
    new (at) PanelHeader;
    std::memset(at + layout_.log_at, 0, layout_.lines_at - layout_.log_at);
    for (std::uint32_t line = 0; line < layout_.window; ++line)
        new (at + layout_.lines_at + line * kLineStride) Line;
}

void OwnSegment::clear_inbox(std::uint32_t number) {
    const std::size_t at = layout_.inboxes_at + number * layout_.inbox.stride;
    const int punched = fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                                  static_cast<off_t>(layout_.inbox.stride));
    // Where this kernel can't, its memory stays with it.
    if (punched != 0) std::memset(base() + at, 0, layout_.inbox.slots_at);
}

bool OwnSegment::is_ours() const {
    return owner_ == getpid();
}

void OwnSegment::open_reserve() {
    process::close_own(reserve_.take());
}

void OwnSegment::close_reserve() {
    if (reserve_.number < 0)
        reserve_.number = process::open_own([this] { return fcntl(fd_.number, F_DUPFD_CLOEXEC, 0); });
}

// In pieces: a signal ends the call, and takes back what it has given. A profiler's timer would not let a long one come to its end, ever.
bool allocate(int file, std::size_t at, std::size_t bytes) {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    for (const std::size_t end = at + bytes; at < end;) {
        const std::size_t piece = std::min(kPiece, end - at);
        if (fallocate(file, 0, static_cast<off_t>(at), static_cast<off_t>(piece)) == 0)
            at += piece;
        else if (errno != EINTR)
            return false;
    }
    return true;
}

bool populate(std::byte* begin, std::size_t size) {
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    const std::uintptr_t first = address / kPage * kPage;
    const std::size_t length = round_up(address + size - first, kPage);
    while (madvise(reinterpret_cast<void*>(first), length, MADV_POPULATE_WRITE) != 0) {
        // Kernels before 5.14 don't know it: there the first store takes the page, as everywhere else in Linux.
        if (errno == EINVAL) return true;
        if (errno != EINTR && errno != EAGAIN) return false;
    }
    return true;
}

namespace {

tl::unexpected<MapError> map_error(MapFailure why, const Address& address, const char* what, int error) {
    const coppice_status_t status = why == MapFailure::gone    ? COPPICE_ERR_PEER_FAILED
                                    : why == MapFailure::retry ? COPPICE_ERR_NO_RESOURCES
                                                               : COPPICE_ERR_NO_TRANSPORT;
    return tl::unexpected(MapError{
        why,
        Error{status, fmt::format("shm: cannot map the segment of rank {} (process {}): {}{}{}", address.rank,
                                  address.pid, what, error != 0 ? ": " : "", error != 0 ? std::strerror(error) : "")}});
}

// The address's process may have ended in between: then everything else that went wrong follows from that.
tl::unexpected<MapError> why_not(const Address& address, const char* what, int error) {
    if (process_state(address.pid, address.start_time) == ProcessState::gone)
        return map_error(MapFailure::gone, address, "the process has ended", 0);
    const bool lacking = error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN || error == EINTR;
    return map_error(lacking ? MapFailure::retry : MapFailure::wrong, address, what, error);
}

struct Closer {
    int fd;
    ~Closer() { process::close_own(fd); }
};

}  // namespace

tl::expected<PeerSegment, MapError> map_peer(const Address& address, const Layout& layout) {
    char path[64];
    *fmt::format_to_n(path, sizeof path - 1, "/proc/{}/fd/{}", address.pid, address.fd).out = '\0';
    const int fd = process::open_own([&] { return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK); });
    if (fd < 0)
        return why_not(address,
                       errno == EACCES ? "it belongs to another user, or may not be looked into (prctl PR_SET_DUMPABLE)"
                                       : "its segment cannot be opened",
                       errno);
    const Closer closer{fd};
    struct stat file {};
    if (fstat(fd, &file) != 0 || static_cast<std::uint64_t>(file.st_size) != layout.size ||
        (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
        return why_not(address, "what its address points to is no segment of this group", 0);

    PeerSegment peer;
    void* const board = mmap(nullptr, layout.mailroom_at, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (board == MAP_FAILED) return why_not(address, "no address space", errno);
    peer.board = Mapping(static_cast<std::byte*>(board), layout.mailroom_at);
    const std::size_t rest = layout.size - layout.mailroom_at;
    void* const mailroom = mmap(nullptr, rest, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                                static_cast<off_t>(layout.mailroom_at));
    if (mailroom == MAP_FAILED) return why_not(address, "no address space", errno);
    peer.mailroom = Mapping(static_cast<std::byte*>(mailroom), rest);

    const Header& header = peer.header();
    if (header.magic != kMagic || header.version != kVersion || header.nonce != address.nonce ||
        header.size != layout.size || header.rank != address.rank || header.window != layout.window ||
        header.group_size != layout.group_size || header.inboxes != layout.inboxes)
        return why_not(address, "its segment is not the one that its address names", 0);
    return peer;
}

}  // namespace coppice::transport::shm
