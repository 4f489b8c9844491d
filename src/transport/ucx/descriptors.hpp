// The descriptors that UCX opens, which it leaves open for whatever this process forks or executes.
//
// A connection ends when the last process that has its socket is gone. So a child with a copy of it, even one that executes some
// other program, would make a dead rank look alive to ranks on other hosts. UCX has no setting for that and does not tell its
// descriptors. Those of a worker are what is open after it was made and was not before; connections are members of its epoll sets.
// Those of UCX's own threads are opened with the first worker of a process and closed with the last one, whichever that is.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace coppice::transport::ucx {

class Descriptors {
  public:
    Descriptors() = default;
    Descriptors(Descriptors&&) noexcept = default;
    Descriptors& operator=(Descriptors&&) = delete;
    ~Descriptors() { forget(); }
    // Before they are closed: their numbers may be others' then.
    void forget();
    // Afterwards: of those that were forgotten, what other workers still need.
    void keep_shared();

    struct Named {
        int number = -1;
        std::string name;  // where it leads
        auto operator<=>(const Named&) const = default;
    };
    // What is open now.
    static std::vector<Named> open();
    // What was opened since `before` is UCX's, but for the library's own and for files: programs that are executed don't get it,
    // and forked children close it. (So they do with a socket or the like that another thread of the program has opened meanwhile.)
    // Another thread may have closed one since, and UCX have got its number: such a one is new if it leads elsewhere.
    void take_new(const std::vector<Named>& before);
    // Connections have been made since: programs that are executed don't get them either.
    void close_connections_on_exec() const;
    // A host that does not answer at all is asked for its connections for seconds, not for two minutes.
    void bound_set_up() const;

  private:
    struct Forgotten {
        Named one;
        bool is_marked = false;  // so that another file with its number and name is told from it
    };
    std::uint64_t worker_ = 0;  // of this process, which one
    std::vector<Named> all_;
    std::vector<int> sets_;  // the epoll sets of them
    std::vector<Forgotten> forgotten_;
};

}  // namespace coppice::transport::ucx
