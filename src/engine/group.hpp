// A group at one rank: its core and its collectives, and what callers want of them.
//
// To add a collective: a folder in collectives/, a channel (wire/channel.hpp), and its lines here, in the constructor and, if it
// needs memory of the host, in host_regions().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/collectives/agreement/agreement.hpp"
#include "engine/collectives/barrier/barrier.hpp"
#include "engine/collectives/broadcast/broadcasts.hpp"
#include "engine/collectives/payload/payloads.hpp"
#include "engine/collectives/revocation/revocation.hpp"
#include "engine/collectives/shrink/shrink.hpp"
#include "engine/collectives/shrink/successors.hpp"
#include "engine/collectives/window/window.hpp"
#include "engine/core/core.hpp"
#include "engine/requests/request_pool.hpp"
#include "status/page.hpp"
#include "transport/idle.hpp"

namespace coppice::engine {

class Context;

class Group final : private Successors {
  public:
    using FailureCallback = engine::FailureCallback;
    using Care = Core::Care;

    // What the collectives need of the memory that each rank of a host shows to the others. It is made once for a group and all
    // that are shrunk from it.
    static std::vector<transport::Region> host_regions(std::uint32_t ranks, const Settings& settings);

    // `established`: of a group made by a shrink (shrink.hpp), else null.
    Group(Core::Parts parts, Plan plan, std::shared_ptr<bool> established = nullptr);
    ~Group();
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    Core& core() { return core_; }
    const Core& core() const { return core_; }
    Broadcasts& broadcasts() { return broadcasts_; }
    Agreement& agreement() { return agreement_; }
    const Agreement& agreement() const { return agreement_; }
    Barrier& barrier() { return barrier_; }
    Shrink& shrink() { return shrink_; }
    Revocation& revocation() { return revocation_; }

    // --- requests
    // Starts into a request of the pool; `begin` (Request& -> Result<void>) is a component's start().
    template <class Begin>
    Result<Request*> start_pooled(Begin&& begin) {
        return pool_.start([&](Request& request) {
            request.group = this;
            return begin(request);
        });
    }
    // True when the request has ended; a cheap look before a full progress().
    bool peek(Request& request) { return request.collective->peek(request); }
    // The caller goes away: waiting requests are given up, views released, pooled ones returned to the pool.
    void finish(Request& request);
    std::string waiting_for(const Request& request) const { return request.collective->waiting_for(request); }
    std::uint32_t requests_in_use() const { return pool_.in_use(); }

    // --- what a status page shows of it (group_status.cpp)
    // What stays as it is, and the rest; the waiting request, and what one that has not begun yet waits for (`kind` says what it is).
    void show_facts(status::Group& to) const;
    void show(status::Group& to) const;
    void show_request(const Request& request, status::Operation& to) const;
    void show_unbegun(status::Operation& to) const;
    // Null: nowhere.
    void count_entered_in(status::Entered* entered);
    template <class Tell>
    void for_each_waiting(Tell&& tell) {
        pool_.for_each_waiting(tell);
    }

    // --- progress
    // Makes all progress that can be made now; how many things happened. What changes rarely is looked at in some rounds only,
    // unless thoroughly.
    std::size_t progress(Care care = Care::usual) { return core_.progress(care); }
    // For a thread that wants to sleep: what on, as TransportSet::arm(), to be followed by progress; the time of the next timer
    // (now_ns(), UINT64_MAX: none); and whether something waits that no descriptor tells of.
    // `listens`: it is to be woken by publications, too.
    TransportSet::Armed arm(bool listens = false);
    // Other ranks wait until this one makes progress again, for what it has to publish for its domain (published_agreement.hpp).
    bool owes_summary() const { return agreement_.owes_summary(); }
    std::uint64_t next_timer_ns() const { return core_.next_timer_ns(); }
    bool waits_for_room() const { return core_.waits_for_room(); }
    bool timer_is_due() const { return core_.membership().timer_is_due(); }
    // Ranks of a host publish without waking anybody.
    std::uint64_t longest_sleep_ns(int descriptor) const {
        return descriptor < 0 || core_.local_peers().publishing() ? transport::Idle::kLongestSleepNs
                                                                  : transport::Idle::kLongestWatchedSleepNs;
    }
    std::uint32_t ranks_per_core() const { return core_.around().ranks_per_core(); }

    // --- the end
    // True when nothing of this group is waited for by anybody any more: call with progress() until it is, then depart.
    bool drained() { return core_.drained(); }
    // What drained() is waiting for.
    std::string leaving_waits_for() const { return core_.leaving().waits_for(); }
    // Leaves without waiting: the others are told to count this rank as failed.
    void abandon() { core_.leaving().abandon(!shrink_.is_settled()); }
    // For one that its caller has left: what abandon() has put off.
    void go_on_leaving() { core_.go_on_leaving(!shrink_.is_settled()); }
    // Tells the peers that this rank leaves in peace. True when that has left.
    bool depart() { return core_.leaving().depart(!shrink_.is_settled()); }
    // The group that a renewal has made of this one, once: it makes progress already. Null: none was made, or it was taken.
    std::unique_ptr<Group> take_successor() { return std::move(successor_); }
    // The caller has left this group (drained and departed, or abandoned it). From now on it only answers.
    void retire();
    // After that: whether nobody needs its answers, and no transport its memory.
    bool may_go() const;
    // Of a successor: its caller has it now, and is told of all deaths since it was made.
    void claim(FailureCallback on_failure) { core_.claim(std::move(on_failure)); }
    // Ranks that died before the group was formed, ascending: those of which everybody knows that, and others.
    void start_with_failed(std::span<const Rank> known_to_all, std::span<const Rank> others) {
        core_.membership().start_with_failed(known_to_all, others);
    }

    // --- what is asked about it
    // Defined with it, in context.hpp.
    Context& context() const;
    const Members& members() const { return core_.members(); }
    const Settings& settings() const { return core_.around().settings(); }
    std::uint64_t garbage() const;
    std::uint64_t refused() const;
    Epoch epoch() const { return core_.around().id().epoch; }
    std::uint32_t connections() const;
    // Leaf switches by which broadcasts go; 0 where hosts stand in the order of their ranks.
    std::uint32_t leaves() const { return broadcasts_.leaves(); }
    // Messages of broadcasts, without the chunks of large ones, by Crossing.
    const std::array<std::uint64_t, kCrossings>& broadcast_messages() const { return broadcasts_.sent(); }
    // What carries messages to the other ranks, for people: "shm within hosts, tcp between them".
    std::string transports() const;
    // What its transports counted, added up.
    transport::Counters counters() const;
    Payloads& payloads() { return payloads_; }
    const Payloads& payloads() const { return payloads_; }

  private:
    void make(Core::Parts parts, Plan plan, std::shared_ptr<bool> established, std::span<const Rank> dead) override;
    bool has_one() const override { return successor_ != nullptr; }
    void drop_successor();

    Core core_;
    Revocation revocation_;
    Window window_;
    Payloads payloads_;
    Broadcasts broadcasts_;
    Agreement agreement_;
    Barrier barrier_{agreement_};
    std::unique_ptr<Group> successor_;  // made, and not taken yet
    Shrink shrink_;
    RequestPool pool_;
};

}  // namespace coppice::engine
