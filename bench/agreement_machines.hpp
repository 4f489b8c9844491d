// Agreements as pure machines behind one interface, for benchmarks that run them over a wire of their own: ERA, and the older
// algorithms that it is compared with.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "protocol/agreement/agreement.hpp"
#include "simulation/explore/phased_agreement.hpp"

namespace bench {

// As large as the engine's header.
struct Header {
    std::uint32_t algorithm = 0;
    std::uint32_t kind = 0;
    std::uint64_t sequence = 0;
    std::uint32_t round = 0;
    std::uint8_t step = 0;
    bool down = false;
    bool decided = false;
    std::uint8_t unused[17] = {};
};
static_assert(sizeof(Header) == 40);

// One algorithm's machine at one rank. Nobody dies.
class Machine {
  public:
    virtual ~Machine() = default;
    virtual void start(std::uint64_t value) = 0;
    virtual void receive(coppice::Rank from, const Header& header, std::span<const std::byte> body) = 0;
    // The next message's destination; its header and body.
    virtual std::optional<coppice::Rank> next_send(Header& header, std::vector<std::byte>& body) = 0;
    // How many agreements have ended here, and what the last one of them said.
    virtual std::uint64_t ended() const = 0;
    virtual std::uint64_t last_value() const = 0;
};

class Era final : public Machine {
  public:
    Era(const coppice::protocol::AgreementPlan& plan, coppice::Rank self) : machine_(plan, self), self_(self) {}
    void start(std::uint64_t value) override {
        machine_.contribute({.op = coppice::protocol::Operator::bit_or}, std::as_bytes(std::span(&value, 1)));
    }
    void receive(coppice::Rank from, const Header& header, std::span<const std::byte> body) override {
        machine_.receive({.kind = static_cast<coppice::protocol::AgreementKind>(header.kind),
                          .from = from,
                          .to = self_,
                          .agreement = coppice::Sequence(header.sequence),
                          .body = body});
    }
    std::optional<coppice::Rank> next_send(Header& header, std::vector<std::byte>& body) override {
        const auto message = machine_.next_send(coppice::Nanoseconds(0));
        if (!message) return std::nullopt;
        header.kind = static_cast<std::uint32_t>(message->kind);
        header.sequence = message->agreement.value;
        body.assign(message->body.begin(), message->body.end());
        return message->to;
    }
    std::uint64_t ended() const override { return machine_.decided_below().value; }
    std::uint64_t last_value() const override {
        std::uint64_t value = 0;
        const auto outcome = machine_.outcome(coppice::Sequence(ended() - 1));
        if (outcome && outcome->value.size() == sizeof value) std::memcpy(&value, outcome->value.data(), sizeof value);
        return value;
    }

  private:
    coppice::protocol::Agreement machine_;
    coppice::Rank self_;
};

class Phased final : public Machine {
  public:
    Phased(const coppice::protocol::AgreementPlan& plan, coppice::Rank self, std::uint32_t phases)
        : machine_(plan, coppice::simulation::PhasedAgreement::first_attempt(plan, {}), self.value, phases) {}
    void start(std::uint64_t value) override { machine_.start(value); }
    void receive(coppice::Rank /*from*/, const Header& header, std::span<const std::byte> body) override {
        coppice::simulation::PhasedAgreement::Message message;
        message.agreement = static_cast<std::uint32_t>(header.sequence);
        message.attempt.number = header.round;
        message.step = header.step;
        message.down = header.down;
        message.decided = header.decided;
        if (body.size() >= sizeof message.value) std::memcpy(&message.value, body.data(), sizeof message.value);
        machine_.receive(message);
    }
    std::optional<coppice::Rank> next_send(Header& header, std::vector<std::byte>& body) override {
        const auto message = machine_.next_send();
        if (!message) return std::nullopt;
        header.sequence = message->agreement;
        header.round = message->attempt.number;
        header.step = message->step;
        header.down = message->down;
        header.decided = message->decided;
        body.assign(coppice::protocol::body_bytes(sizeof message->value), std::byte{0});  // as much as ERA's
        std::memcpy(body.data(), &message->value, sizeof message->value);
        return coppice::Rank(message->to);
    }
    std::uint64_t ended() const override { return machine_.decided_count(); }
    std::uint64_t last_value() const override { return machine_.last_value(); }

  private:
    coppice::simulation::PhasedAgreement machine_;
};

}  // namespace bench
