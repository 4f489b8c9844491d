// The status pages of other processes (page.hpp), kept open so that coppice-status can still read that of one that was killed. They go
// with the process that keeps them: the launcher, or ranks of the same host.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <utility>

#include "status/reader.hpp"

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
    // The same of one whose descriptor that process has told: what it has open besides is not gone through.
    void keep(pid_t process, int descriptor);
    // Closes those whose contexts were destroyed in peace.
    void drop_closed();

  private:
    // False: there is no room for more.
    bool keep_at(const PagePlace& place);

    using File = std::pair<dev_t, ino_t>;

    std::size_t most_;
    std::map<File, int> kept_;
};

}  // namespace coppice::status
