// The status pages of the ranks (src/status/page.hpp), kept open so that coppice-status can still read that of a rank that was
// killed. They go when the launcher does.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <utility>

namespace coppice::run {

class Pages {
  public:
    // `most`: descriptors that may be taken for it.
    explicit Pages(std::size_t most) : most_(most) {}
    ~Pages();
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    // What that process shows now. Nothing where it shows none, or where there are no descriptors.
    void keep(pid_t process);
    // Closes those whose contexts were destroyed in peace.
    void drop_closed();

  private:
    using File = std::pair<dev_t, ino_t>;

    std::size_t most_;
    std::map<File, int> kept_;
};

}  // namespace coppice::run
