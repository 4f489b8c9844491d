#include "status/kept_pages.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <iterator>

#include "base/process.hpp"

namespace coppice::status {

namespace {

// Forked children have none of them: a helper that outlives the job shows nothing of it.
void drop(int descriptor) {
    process::forget_descriptor(descriptor);
    ::close(descriptor);
}

}  // namespace

KeptPages::~KeptPages() {
    if (process::in_forked_child()) return;
    for (const auto& [file, descriptor] : kept_)
        drop(descriptor);
}

void KeptPages::keep(pid_t process) {
    const auto places = pages_of(process);
    if (!places) return;
    for (const PagePlace& place : *places)
        if (!keep_at(place)) return;
}

void KeptPages::keep(pid_t process, int descriptor) {
    const PagePlace place{process, descriptor};
    if (is_page(place)) keep_at(place);
}

bool KeptPages::keep_at(const PagePlace& place) {
    const auto descriptor = kept_.size() < most_ ? open_page(place) : tl::expected<int, ReadError>(-1);
    if (!descriptor || *descriptor < 0) return false;
    struct stat about {};
    const auto page = read_page(*descriptor);
    const auto owner = look_at(place.holder);
    const bool is_new = page && owner && is_owner(*page, *owner) && ::fstat(*descriptor, &about) == 0 &&
                        kept_.try_emplace(File{about.st_dev, about.st_ino}, *descriptor).second;
    if (is_new) {
        process::close_in_children(*descriptor);
    } else {
        ::close(*descriptor);
    }
    return true;
}

void KeptPages::drop_closed() {
    for (auto at = kept_.begin(); at != kept_.end();) {
        const auto page = read_page(at->second);
        const auto next = std::next(at);
        if (page && page->state == State::closed) {
            drop(at->second);
            kept_.erase(at);
        }
        at = next;
    }
}

}  // namespace coppice::status
