// The status pages of other processes (page.hpp), kept open so that coppice-status can still read that of one that was killed. They go
// with the process that keeps them: the launcher, or ranks of the same host.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "status/reader.hpp"

namespace coppice::status {

class KeptPages {
  public:
    // `most`: descriptors that may be taken for it, one for each page; `most_ended`: how many of these for pages of processes that have
    // ended, the latest ones. A process has a page for each context.
    KeptPages(std::size_t most, std::size_t most_ended) : most_(most), most_ended_(most_ended) {}
    ~KeptPages();
    KeptPages(const KeptPages&) = delete;
    KeptPages& operator=(const KeptPages&) = delete;

    // What that process shows now. Nothing where it shows none, or where there are no descriptors: those of the living are not given up.
    void keep(pid_t process);
    // The same of one whose descriptor that process has told: what it has open besides is not gone through.
    void keep(pid_t process, int descriptor);
    // Closes those whose contexts were destroyed in peace, and the oldest ones of the ended. When a process has ended.
    void tidy();

  private:
    using File = std::pair<dev_t, ino_t>;
    struct Kept {
        File file;
        pid_t process;
        int descriptor;
        bool ended = false;
    };

    // False: there is no room for more.
    bool keep_at(const PagePlace& place);
    bool has(const File& file) const;
    // So that no more than that are left, if enough of them have ended.
    void tidy(std::size_t most);

    std::size_t most_;
    std::size_t most_ended_;
    std::vector<Kept> kept_;  // in the order of their ends, the living behind
};

}  // namespace coppice::status
