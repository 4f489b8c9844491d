#include "pages.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <iterator>

#include "status/reader.hpp"

namespace coppice::run {

Pages::~Pages() {
    for (const auto& [file, descriptor] : kept_)
        ::close(descriptor);
}

void Pages::keep(pid_t process) {
    const auto places = status::pages_of(process);
    if (!places) return;
    for (const status::PagePlace& place : *places) {
        const auto descriptor =
            kept_.size() < most_ ? status::open_page(place) : tl::expected<int, status::ReadError>(-1);
        if (!descriptor || *descriptor < 0) return;
        struct stat about {};
        const bool is_known = ::fstat(*descriptor, &about) != 0 ||
                              !kept_.try_emplace(File{about.st_dev, about.st_ino}, *descriptor).second;
        if (is_known) ::close(*descriptor);
    }
}

void Pages::drop_closed() {
    for (auto at = kept_.begin(); at != kept_.end();) {
        const auto page = status::read_page(at->second);
        const auto next = std::next(at);
        if (page && page->state == status::State::closed) {
            ::close(at->second);
            kept_.erase(at);
        }
        at = next;
    }
}

}  // namespace coppice::run
