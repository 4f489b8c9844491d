#include "starter.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace coppice::run {
namespace {

struct Started {
    pid_t pid = -1;
    int error = 0;
};

union Ancillary {
    cmsghdr head;
    std::array<char, CMSG_SPACE(sizeof(Starter::Pipes))> bytes;
};

msghdr message_of(iovec& text, Ancillary& with) {
    msghdr message{};
    message.msg_iov = &text;
    message.msg_iovlen = 1;
    message.msg_control = with.bytes.data();
    message.msg_controllen = with.bytes.size();
    return message;
}

// A descriptor that is not there goes as the socket itself: a message has a fixed number of them.
bool send_wish(int socket, const Starter::Wish& wish, Starter::Pipes pipes) {
    for (int& pipe : pipes)
        pipe = pipe < 0 ? socket : pipe;
    Starter::Wish copy = wish;
    iovec text{&copy, sizeof copy};
    Ancillary with{};
    msghdr message = message_of(text, with);
    with.head.cmsg_level = SOL_SOCKET;
    with.head.cmsg_type = SCM_RIGHTS;
    with.head.cmsg_len = CMSG_LEN(sizeof pipes);
    std::memcpy(CMSG_DATA(&with.head), pipes.data(), sizeof pipes);
    return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof copy);
}

bool take_wish(int socket, Starter::Wish& wish, Starter::Pipes& pipes) {
    iovec text{&wish, sizeof wish};
    Ancillary with{};
    msghdr message = message_of(text, with);
    ssize_t got = 0;
    do {
        got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got != static_cast<ssize_t>(sizeof wish) || with.head.cmsg_len != CMSG_LEN(sizeof pipes)) return false;
    std::memcpy(pipes.data(), CMSG_DATA(&with.head), sizeof pipes);
    return true;
}

// A child of this process's parent, which waits for it as for the ranks that it has started itself. No library makes such a one; the order of
// the arguments is that of all machines but s390, and only the first one is not 0.
pid_t fork_for_parent() {
    return static_cast<pid_t>(::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0));
}

[[noreturn]] void serve(int socket, const Starter::Become& become) {
    Starter::Wish wish;
    Starter::Pipes pipes{};
    while (take_wish(socket, wish, pipes)) {
        const pid_t pid = fork_for_parent();
        if (pid == 0) {
            become(wish, pipes);
            ::_exit(127);
        }
        const Started started{pid, errno};
        for (const int pipe : pipes)
            ::close(pipe);
        if (::send(socket, &started, sizeof started, MSG_NOSIGNAL) < 0) break;
    }
    ::_exit(0);
}

}  // namespace

std::unique_ptr<Starter> Starter::create(const Become& become) {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return nullptr;
    const pid_t launcher = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::close(ends[0]);
        ::prctl(PR_SET_NAME, "coppice-start");
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != launcher) ::_exit(1);
        serve(ends[1], become);
    }
    ::close(ends[1]);
    if (pid > 0) return std::unique_ptr<Starter>(new Starter(ends[0]));
    ::close(ends[0]);
    return nullptr;
}

Starter::~Starter() {
    ::close(socket_);
}

pid_t Starter::start(const Wish& wish, const Pipes& pipes) const {
    Started started;
    if (!send_wish(socket_, wish, pipes)) return -1;
    ssize_t got = 0;
    do {
        got = ::recv(socket_, &started, sizeof started, 0);
    } while (got < 0 && errno == EINTR);
    if (got == static_cast<ssize_t>(sizeof started)) {
        errno = started.error;
        return started.pid;
    }
    if (got >= 0) errno = ECONNRESET;  // it has ended
    return -1;
}

}  // namespace coppice::run
