// Revocation: everything of a group ends, at every member, because one of them has said so (revocation.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/core.hpp"

namespace coppice::engine {

class Revocation final : public Collective {
  public:
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
    enum class Source : std::uint8_t { message, local_peer };  // of the news
    void learn(Rank revoker, Source source);
    void spread();
    void say_on_page(std::uint64_t word);
    std::uint64_t said_on_page(Rank rank) const;

    Core& core_;
    const Members& members_;
    transport::Board* board_;
    bool publishing_;
    bool known_ = false;  // here
    Rank revoker_;
    std::vector<Rank> unaware_;  // have been told, and have not answered
    std::uint64_t leave_until_ns_ = 0;
    bool outside_knows_ = false;  // as far as this rank has to tell it there
};

}  // namespace coppice::engine
