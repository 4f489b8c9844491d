// The status pages of other processes (page.hpp), kept open so that coppice-status can still read that of one that was killed. They go
// with the process that keeps them: the launcher, or ranks of the same host.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <utility>

namespace coppice::status {

class KeptPages {
  public:
    // `most`: descriptors that may be taken for it.
    explicit KeptPages(std::size_t most) : most_(most) {}
    ~KeptPages();
    KeptPages(const KeptPages&) = delete;
    KeptPages& operator=(const KeptPages&) = delete;

    // What that process shows now. Nothing where it shows none, or where there are no descriptors.
    void keep(pid_t process);
    // Closes those whose contexts were destroyed in peace.
    void drop_closed();

  private:
    using File = std::pair<dev_t, ino_t>;

    std::size_t most_;
    std::map<File, int> kept_;
};

}  // namespace coppice::status
