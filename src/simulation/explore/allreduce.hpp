// An Allreduce that knows nothing of faults, to compare agreements with: ranks are in blocks of so many neighbours; each
// block reduces to its first rank over a binomial tree, the first ranks exchange what they have by recursive doubling,
// and each block is told over its tree. With blocks of one rank that is recursive doubling, which Open MPI takes for a
// few bytes; with one block, a reduce and a broadcast; with a block for each host, what knows where ranks are.
//
// With a number of blocks that is no power of two the first ones come in pairs: one of a pair hands its part to the
// other before the exchange, and gets the result after it.
//
// One rank's part. Messages may come in any order; nobody may die.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace coppice::simulation {

class Allreduce {
  public:
    struct Message {
        std::uint32_t from = 0;
        std::uint32_t to = 0;
        std::uint32_t call = 0;  // the how-many-th Allreduce
        std::uint64_t value = 0;
    };

    // block > 0.
    Allreduce(std::uint32_t self, std::uint32_t ranks, std::uint32_t block);

    // This rank's part in its next one: call when decided_count() has grown. Combined by OR.
    void start(std::uint64_t value);
    void receive(const Message& message);
    std::optional<Message> next_send();
    bool wants_to_send() const { return sent_ < outbox_.size(); }
    std::uint32_t decided_count() const { return call_; }
    std::uint64_t last_value() const { return last_value_; }

  private:
    enum class Step : std::uint8_t { send, take_in, take_over };
    struct Part {
        std::uint32_t peer = 0;
        Step step = Step::send;
    };

    void plan_reduce(std::uint32_t first, std::uint32_t size);
    void plan_exchange(std::uint32_t ranks, std::uint32_t block);
    void plan_broadcast(std::uint32_t first, std::uint32_t size);
    void advance();
    std::optional<std::uint64_t> taken_from(std::uint32_t peer);

    std::uint32_t self_;
    std::uint32_t call_ = 0;
    std::size_t next_ = 0;  // of the parts; all, when nothing is under way
    std::uint64_t value_ = 0;
    std::uint64_t last_value_ = 0;
    std::vector<Part> parts_;       // of one Allreduce, one after the other. Nobody sends twice to anybody
    std::vector<Message> arrived_;  // and not yet wanted
    std::vector<Message> outbox_;
    std::size_t sent_ = 0;
};

}  // namespace coppice::simulation
