// Revocation between its machine (protocol/revocation/), the memory of this node, the other nodes, and what waits here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/core.hpp"
#include "protocol/revocation/revocation.hpp"

namespace coppice::engine {

class Revocation final : public Collective {
  public:
    // What it needs of the memory that each rank of a host shows to the others.
    static transport::Region host_region();

    explicit Revocation(Core& core);

    // This rank revokes the group: local, idempotent.
    void begin();

    // Collective
    bool message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                 transport::Buffer buffer) override;
    void hear_last_words() override;
    void member_failed(const Death& death) override;
    void member_left(Rank rank) override;
    void progress(bool /*thorough*/) override {}
    void keep_house() override;
    bool outlives_revocation() const override { return true; }
    bool peek(Request& /*request*/) override { return true; }  // it has none
    void finish(Request& /*request*/) override {}
    std::string waiting_for(const Request& /*request*/) const override { return {}; }
    bool drained() override;
    std::string leaving_waits_for() const override;
    std::optional<Error> reason_to_revoke() override;

  private:
    using Word = shared::Published<std::uint64_t>;

    void heed();
    void say_to_host(std::uint64_t word);
    std::uint64_t said_to_host(Rank rank) const;

    const Surroundings& around_;
    LocalPeers& local_peers_;
    Controls& controls_;
    const Subscribers& subscribers_;
    Lifecycle& life_;
    News& news_;
    const Members& members_;
    transport::Board* board_;
    transport::Regions::Place region_;
    bool publishing_;
    protocol::Revocation machine_;
    std::vector<const Word*> said_on_host_;  // where the ranks of this host say it, where they can be read
    bool known_ = false;                     // here
    std::uint64_t said_ = 0;                 // to the ranks of this host
};

}  // namespace coppice::engine
