// What a user is told where the device takes no memory (verbs/memory.hpp), without a device.
#include "transport/verbs/memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>

namespace coppice::transport::verbs {
namespace {

// Of this process, while it lives.
class LockLimit {
  public:
    explicit LockLimit(rlim_t bytes) {
        EXPECT_EQ(getrlimit(RLIMIT_MEMLOCK, &before_), 0);
        const rlimit less{bytes, before_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &less), 0);
    }
    ~LockLimit() { setrlimit(RLIMIT_MEMLOCK, &before_); }
    LockLimit(const LockLimit&) = delete;
    LockLimit& operator=(const LockLimit&) = delete;

  private:
    rlimit before_{};
};

std::string told(int error) {
    return registration_failed(error, std::size_t{1536} * 1024, "a large payload").value().message;
}

// The kernel says one thing where there is too little room under the limit, and another where nothing may be locked.
TEST(Registration, ThatALimitForbidsNamesItAndTheRemedy) {
    const LockLimit none(0);
    for (const int error : {ENOMEM, EPERM}) {
        const std::string text = told(error);
        for (const char* const part :
             {"1536 KiB could not be locked for a large payload", "may lock 0 KiB", "ulimit -l"})
            EXPECT_NE(text.find(part), std::string::npos) << error << ": " << text;
    }
    EXPECT_EQ(told(EINVAL).find("ulimit"), std::string::npos) << "something else";
}

}  // namespace
}  // namespace coppice::transport::verbs
