// The descriptors of the device that a transport's connections use, which forked children close.
//
// The connection manager opens a device once for all that use it in a process, and closes it with the last. So they are
// forgotten with the last transport, whichever that is.
#pragma once

#include <infiniband/verbs.h>

namespace coppice::transport::verbs {

class OpenDevice {
  public:
    OpenDevice() = default;
    OpenDevice(const OpenDevice&) = delete;
    OpenDevice& operator=(const OpenDevice&) = delete;
    ~OpenDevice() { forget(); }

    // At most once.
    void take(const ibv_context* context);
    // Before the device may be closed: the numbers may be others' then.
    void forget();

  private:
    const ibv_context* context_ = nullptr;
};

}  // namespace coppice::transport::verbs
