#include "transport/verbs/open_device.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "base/process.hpp"

namespace coppice::transport::verbs {
namespace {

// Never destroyed: a program's contexts may be static objects.
struct Users {
    std::mutex mutex;
    std::map<const ibv_context*, std::uint32_t> of;
};
Users& users() {
    static auto* const one = new Users;
    return *one;
}

}  // namespace

void OpenDevice::take(const ibv_context* context) {
    const std::scoped_lock lock(users().mutex);
    std::uint32_t& count = users().of[context];
    context_ = context;
    if (++count > 1) return;
    process::close_in_children(context->cmd_fd);
    process::close_in_children(context->async_fd);
}

void OpenDevice::forget() {
    if (context_ == nullptr) return;
    const std::scoped_lock lock(users().mutex);
    const ibv_context* const context = std::exchange(context_, nullptr);
    if (--users().of[context] > 0) return;
    users().of.erase(context);
    process::forget_descriptor(context->cmd_fd);
    process::forget_descriptor(context->async_fd);
}

}  // namespace coppice::transport::verbs
