// Starts processes late on simulated hosts where the launcher may not: without root it gives up its rights over their namespaces before
// any rank runs (hosts.hpp). This process, forked before that, keeps them, and does nothing but to start what the launcher asks for.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "cores.hpp"

namespace coppice::run {

class Starter {
  public:
    struct Wish {
        std::uint32_t number = 0;
        std::uint32_t incarnation = 0;
        int core = Cores::kAny;
    };
    // The child's ends of its pipes for what it prints, what it complains of, and why it could not be started; the first two may be −1.
    using Pipes = std::array<int, 3>;
    // In the new process, which is the launcher's child: runs PROGRAM, or ends.
    using Become = std::function<void(const Wish&, const Pipes&)>;

    // Null, with errno, when it can't be made. The calling process has a single thread, and no descriptors that the processes must not keep open.
    static std::unique_ptr<Starter> create(const Become& become);
    ~Starter();
    Starter(const Starter&) = delete;
    Starter& operator=(const Starter&) = delete;

    // The process's id; −1, with errno: it was not started.
    pid_t start(const Wish& wish, const Pipes& pipes) const;

  private:
    explicit Starter(int socket) : socket_(socket) {}

    int socket_;
};

}  // namespace coppice::run
