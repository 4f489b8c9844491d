// Keeps UCX from writing on the host program's stdout while it works for us.
//
// UCX prints there what we report in our own way: a peer that cannot be connected to, a setting that does not apply.
// While a Hush lives, warnings and errors of this thread are caught; everything else, and other users of UCX in this
// process, are left alone. A user who sets UCX_LOG_LEVEL gets UCX's output as ever.
#pragma once

#include <string>

namespace coppice::transport::ucx {

class Hush {
  public:
    Hush() : outer_(active) { active = true; }
    ~Hush() { active = outer_; }
    Hush(const Hush&) = delete;
    Hush& operator=(const Hush&) = delete;

    // Makes UCX ask us, once per process. It is loaded.
    static void install();
    // What was caught first in this thread since the last call, "" if nothing: an explanation for people.
    static std::string take();

    static thread_local bool active;

  private:
    bool outer_;
};

}  // namespace coppice::transport::ucx
