#include "status/kept_pages.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/process.hpp"

namespace coppice::status {

namespace {

// Forked children have none of them: a helper that outlives the job shows nothing of it.

bool is_of_holder(int descriptor, pid_t holder) {
    const auto page = read_page(descriptor);
    const auto owner = look_at(holder);
    return page && owner && is_owner(*page, *owner);
}

}  // namespace

KeptPages::~KeptPages() {
    if (process::in_forked_child()) return;
    for (const Kept& one : kept_)
        process::close_own(one.descriptor);
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

bool KeptPages::has(const File& file) const {
    return std::ranges::find(kept_, file, &Kept::file) != kept_.end();
}

bool KeptPages::keep_at(const PagePlace& place) {
    if (most_ == 0) return false;
    if (kept_.size() >= most_) tidy(most_ - 1);
    const auto descriptor = kept_.size() < most_ ? open_page(place) : tl::expected<int, ReadError>(-1);
    if (!descriptor || *descriptor < 0) return false;
    process::close_in_children(*descriptor);
    struct stat about {};
    const bool is_there = ::fstat(*descriptor, &about) == 0;
    const File file{about.st_dev, about.st_ino};
    if (is_there && !has(file) && is_of_holder(*descriptor, place.holder)) {
        kept_.push_back({.file = file, .process = place.holder, .descriptor = *descriptor});
    } else {
        process::close_own(*descriptor);
    }
    return true;
}

void KeptPages::tidy() {
    tidy(most_);
}

void KeptPages::tidy(std::size_t most) {
    // Before anything is counted: nobody looks for them, and no other is to give way to them.
    std::erase_if(kept_, [](const Kept& one) {
        const bool closed = is_page_closed(one.descriptor);
        if (closed) process::close_own(one.descriptor);
        return closed;
    });
    // Those that ended before stand before those that end now.
    // Not the one of std::ranges, which Clang 14 cannot compile.
    std::stable_partition(kept_.begin(), kept_.end(), [](const Kept& one) { return one.ended; });
    std::size_t all = kept_.size();
    std::size_t ended = 0;
    for (Kept& one : kept_) {
        one.ended = one.ended || (::kill(one.process, 0) != 0 && errno == ESRCH);
        ended += one.ended ? 1 : 0;
    }
    std::erase_if(kept_, [&](const Kept& one) {
        if (!one.ended || (ended <= most_ended_ && all <= most)) return false;
        --ended;
        --all;
        process::close_own(one.descriptor);
        return true;
    });
}

}  // namespace coppice::status
