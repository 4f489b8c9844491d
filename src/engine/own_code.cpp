#include "engine/own_code.hpp"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace coppice::engine {

namespace {

// Nothing depends on its success: kernels before 5.14 don't know it.
void map(std::uintptr_t begin, std::uintptr_t end) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    begin -= begin % page;
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
}

// Called for every loaded file until one is ours.
int map_if_ours(dl_phdr_info* file, std::size_t /*size*/, void* /*argument*/) {
    const auto here = reinterpret_cast<std::uintptr_t>(&map_own_code);
    const auto each_segment = [file](auto&& action) {
        for (int i = 0; i < file->dlpi_phnum; ++i) {
            const auto& segment = file->dlpi_phdr[i];
            const std::uintptr_t begin = file->dlpi_addr + segment.p_vaddr;
            if (segment.p_type == PT_LOAD) action(begin, begin + segment.p_filesz);
        }
    };
    bool ours = false;
    each_segment([&](std::uintptr_t begin, std::uintptr_t end) { ours = ours || (here >= begin && here < end); });
    if (ours) each_segment(map);
    return ours ? 1 : 0;
}

}  // namespace

void map_own_code() {
    dl_iterate_phdr(map_if_ours, nullptr);
}

}  // namespace coppice::engine
