// A barrier: nobody is through before every live rank has entered, and all that are through are told the same of who has died.
//
// That is what an agreement on nothing says, so it is one, numbered among the group's agreements. It needs no messages, no
// memory and no end of its own.
#pragma once

#include <string>

#include "engine/collectives/agreement/agreement.hpp"

namespace coppice::engine {

class Barrier final : public Collective {
  public:
    explicit Barrier(Agreement& agreement) : agreement_(agreement) {}

    Result<void> start(Request& request);

    // Collective
    bool message(Rank /*from*/, const WireHeader& /*header*/, std::span<const std::byte> /*payload*/,
                 transport::Buffer /*buffer*/) override {
        return false;  // it has no channel
    }
    void progress(bool /*thorough*/) override {}
    bool peek(Request& request) override;
    void finish(Request& request) override { agreement_.finish(request); }
    std::string waiting_for(const Request& request) const override;
    status::Kind kind() const override { return status::Kind::barrier; }
    void show_waits(const Request& request, status::Waits& waits) const override {
        agreement_.show_waits(request, waits);
    }

  private:
    Agreement& agreement_;
};

}  // namespace coppice::engine
