// Threads of the library take no signals: a thread inherits the mask of the one that makes it.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace coppice {

// Blocks all signals of this thread until it goes, also when an exception takes it along.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

}  // namespace coppice
