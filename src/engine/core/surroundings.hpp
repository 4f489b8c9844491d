// What a group has around it at this rank: its name, its settings, its context, and what carries its messages. It stays as it is while
// the group is there, but for which ranks share cores.
#pragma once

#include <cstdint>
#include <utility>

#include "base/shared_words.hpp"
#include "engine/core/group_trace.hpp"
#include "engine/core/parts.hpp"

namespace coppice::engine {

class Surroundings {
  public:
    explicit Surroundings(GroupParts& parts)
        : context_(*parts.context),
          settings_(std::move(parts.settings)),
          router_(std::move(parts.router)),
          id_(parts.id),
          trace_{.recorder = context_.trace(), .name = {.token = id_.token, .epoch = id_.epoch.value}},
          lineage_(std::move(parts.lineage)),
          cores_(parts.cores),
          sharing_cores_(parts.sharing_cores),
          ranks_per_core_(ranks_for_each(cores_, sharing_cores_)) {}

    GroupContext& context() const { return context_; }
    const Settings& settings() const { return settings_; }
    const Router& router() const { return router_; }
    Router& router() { return router_; }
    const GroupId& id() const { return id_; }
    const GroupTrace& trace() const { return trace_; }
    const Lineage& lineage() const { return lineage_; }
    std::uint32_t cores() const { return cores_; }
    std::uint32_t sharing_cores() const { return sharing_cores_; }
    // Of this group, on this host: with more than one each waiting loops must yield at once. Read without the guard, too.
    std::uint32_t ranks_per_core() const { return ranks_per_core_.get(); }
    // Of the context's clock.
    std::uint64_t now_ns() const { return context_.clock().now_ns(); }
    // Whether functions of the application may be called now.
    bool may_call_back() const { return context_.may_call_back(); }

    // Where the living have a core each now, they need not give theirs away when they wait.
    void count_out_of_cores(Rank dead);

  private:
    // Of so many cores, rounded up.
    static std::uint32_t ranks_for_each(std::uint32_t cores, std::uint32_t ranks) {
        return (ranks + cores - 1) / cores;
    }

    GroupContext& context_;
    Settings settings_;
    Router router_;
    GroupId id_;
    GroupTrace trace_;
    Lineage lineage_;
    std::uint32_t cores_;
    std::uint32_t sharing_cores_;
    shared::Relaxed<std::uint32_t> ranks_per_core_;
};

}  // namespace coppice::engine
