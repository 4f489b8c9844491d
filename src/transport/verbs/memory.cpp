#include "transport/verbs/memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "transport/verbs/library.hpp"

namespace coppice::transport::verbs {

std::string reason_of(int error) {
    if (error == EAGAIN) return "this process has as many RDMA objects as its control group may (rdma.max)";
    return std::strerror(error);
}

tl::unexpected<Error> registration_failed(int error, std::size_t bytes, const char* what) {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const bool is_locked_out = error == ENOMEM || error == EPERM;  // where nothing at all may be locked
    if (is_locked_out && limit.rlim_cur != RLIM_INFINITY)
        return fail(
            COPPICE_ERR_NO_RESOURCES,
            "verbs: {} KiB could not be locked for {}: this process may lock {} KiB in all ('ulimit -l'); allow "
            "more with 'ulimit -l unlimited', or for good by a line \"* - memlock unlimited\" in "
            "/etc/security/limits.conf",
            bytes / 1024, what, limit.rlim_cur / 1024);
    return fail(COPPICE_ERR_NO_RESOURCES, "verbs: the device could not register {} KiB for {}: {}", bytes / 1024, what,
                reason_of(error));
}

Result<Region> Region::make(ibv_pd* domain, std::size_t bytes, int access, const char* what) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    Region region;
    region.bytes_ = (bytes + page - 1) / page * page;
    void* const memory = mmap(nullptr, region.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return fail(COPPICE_ERR_NO_MEMORY, "verbs: no memory for {}: {}", what, std::strerror(errno));
    region.base_ = static_cast<std::byte*>(memory);
    region.mr_ = reg_mr(domain, memory, region.bytes_, access);
    if (region.mr_ == nullptr) return registration_failed(errno, region.bytes_, what);
    return region;
}

void Region::revoke() {
    if (mr_ != nullptr) library.ibv_dereg_mr(mr_);
    mr_ = nullptr;
}

Region::~Region() {
    revoke();
    if (base_ != nullptr) munmap(base_, bytes_);
}

bool Window::make(ibv_pd* domain) {
    window_ = ibv_alloc_mw(domain, IBV_MW_TYPE_2);
    if (window_ != nullptr) key_ = ibv_inc_rkey(window_->rkey);
    return window_ != nullptr;
}

void Window::revoke() {
    if (window_ != nullptr) ibv_dealloc_mw(window_);
    window_ = nullptr;
}

ibv_send_wr Window::opening(const Region& region) const {
    ibv_send_wr request{};
    request.opcode = IBV_WR_BIND_MW;
    request.bind_mw.mw = window_;
    request.bind_mw.rkey = key_;
    request.bind_mw.bind_info = {.mr = region.registration(),
                                 .addr = reinterpret_cast<std::uint64_t>(region.base()),
                                 .length = region.bytes(),
                                 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return request;
}

void Pool::add(Region region) {
    const auto first = size();
    for (std::size_t at = 0; at + kStride <= region.bytes(); at += kStride)
        buffers_.push_back({region.base() + at, region.local_key()});
    free_.reserve(size());
    for (std::uint32_t index = size(); index-- > first;)
        free_.push_back(index);
    regions_.push_back(std::move(region));
}

}  // namespace coppice::transport::verbs
