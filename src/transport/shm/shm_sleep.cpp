// How a rank of the shared-memory transport sleeps, and what wakes it.
//
// It says in its mailroom that it sleeps, and looks once more; a rank that rings its doorbell afterwards sees that and
// rings its bell (bell.hpp). What is published on a board rings for nobody, unless a sleeper says that it listens. Deaths it learns of from the kernel: each rank watches the process of the next live one,
// in the order of the ranks, and tells the others. So one descriptor is enough however many ranks a host has, and of ranks
// that die together each is found by the last live one before it.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/host.hpp"
#include "base/process.hpp"
#include "transport/shm/shm_peer.hpp"

namespace coppice::transport {

namespace {

bool add_to(int set, int descriptor) {
    epoll_event event{};
    event.events = EPOLLIN;
    return epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

bool is_readable(int descriptor) {
    pollfd entry{descriptor, POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

ShmTransport::Sleep::~Sleep() {
    process::close_own(process);
    process::close_own(set);
}

int ShmTransport::arm() {
    if (!sleep_.bell || !own_.is_ours()) return -1;
    if (sleep_.set < 0) {
        sleep_.set = process::open_own([] { return epoll_create1(EPOLL_CLOEXEC); });
        if (sleep_.set < 0) return -1;
        if (!add_to(sleep_.set, sleep_.bell.descriptor())) {
            process::close_own(std::exchange(sleep_.set, -1));
            return -1;
        }
    }
    watch_next_process();
    sleep_.bell.silence();
    sleep_.armed = true;
    sleep_.polls = 0;
    if (std::exchange(sleep_.listens, false)) mailroom().listens.set(0);
    mailroom().asleep.fall_asleep();
    return sleep_.set;
}

// Every rank of this host is to know that there is one that listens. What changes here, and in ring_listeners(), all see in one
// order: either this rank finds that the owner knows, or the owner, which looks once more, finds this rank.
void ShmTransport::listen() {
    if (!sleep_.armed) return;
    sleep_.listens = true;
    mailroom().listens.set(1);
    for (const auto& peer : peers_) {
        if (peer->gone || !peer->segment.mailroom) continue;
        auto& listeners = shared::at<shm::Mailroom>(peer->segment.mailroom.base()).listeners;
        if (listeners.get() == 0) listeners.set(1);
    }
}

void ShmTransport::ring_listeners() {
    shared::ProcessMemory::order_all();  // what was published is there first
    if (wake_listeners()) {
        unheard_ = 0;
    } else if (++unheard_ >= kUnheard) {
        unheard_ = 0;
        mailroom().listeners.set(0);
        if (wake_listeners()) mailroom().listeners.set(1);
    }
}

// Whether one slept. One that has woken says that it listens until it sleeps again, and then looks anew whether the owner knows.
bool ShmTransport::wake_listeners() {
    bool any = false;
    for (const auto& peer : peers_) {
        if (peer->gone || !peer->segment.mailroom) continue;
        const auto& mail = shared::at<const shm::Mailroom>(peer->segment.mailroom.base());
        if (mail.listens.get() == 0) continue;
        any = ring_bell(*peer) || any;
    }
    return any;
}

void ShmTransport::stay_awake() {
    sleep_.armed = false;
    mailroom().asleep.stay_awake();
}

// The next live peer that is watched, from this rank on, round the host.
void ShmTransport::watch_next_process() {
    std::uint32_t next = kNobody;
    for (const std::uint32_t index : watched_) {
        const Peer& peer = *peers_[index];
        if (peer.gone || peer.lost) continue;
        const auto distance = [&](std::uint32_t at) {
            return peers_[at]->rank.value - self_.value - 1;  // wraps round
        };
        if (next == kNobody || distance(index) < distance(next)) next = index;
    }
    if (next == sleep_.watched) return;
    process::close_own(std::exchange(sleep_.process, -1));
    sleep_.watched = next;
    if (next == kNobody) return;
    const Peer& peer = *peers_[next];
    sleep_.process = process::open_own([&] { return static_cast<int>(syscall(SYS_pidfd_open, peer.address.pid, 0U)); });
    // The number may be another process's by now; or there is no descriptor left, and the next look finds the death.
    const bool right = sleep_.process >= 0 &&
                       process_state(peer.address.pid, peer.address.start_time) != ProcessState::gone &&
                       add_to(sleep_.set, sleep_.process);
    if (!right) process::close_own(std::exchange(sleep_.process, -1));
}

// The process that is watched has ended, which its obituary may not say yet to a rank that polls seldom.
std::size_t ShmTransport::look_at_watched_process(Receiver& receiver) {
    if (sleep_.process < 0 || !is_readable(sleep_.process)) return 0;
    Peer& peer = *peers_[sleep_.watched];
    process::close_own(std::exchange(sleep_.process, -1));
    sleep_.watched = kNobody;
    return peer.gone ? 0 : bury(peer, FailureCause::process_gone, receiver);
}

void ShmTransport::wake(Seat rank) {
    const Peer* const peer = find(rank);
    if (peer != nullptr && !peer->gone && peer->segment.mailroom) (void)ring_bell(*peer);
}

// Whether it slept; another rank may have been faster to wake it.
bool ShmTransport::ring_bell(const Peer& peer) {
    auto& mail = shared::at<shm::Mailroom>(peer.segment.mailroom.base());
    if (!mail.asleep.sleeps()) return false;
    if (mail.asleep.wake()) sleep_.bell.ring(peer.address.bell, peer.address.nonce);
    return true;
}

}  // namespace coppice::transport
