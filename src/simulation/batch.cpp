#include "simulation/batch.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace coppice::simulation {
namespace {

class Runner {
  public:
    Runner(const Batch& batch, const MakeSimulator& make, const UseResult& use)
        : batch_(batch), make_(make), use_(use) {}

    void run() {
        const auto threads = static_cast<unsigned>(std::clamp<std::uint64_t>(batch_.threads, 1, batch_.runs));
        std::vector<std::thread> others;
        for (unsigned i = 1; i < threads; ++i)
            others.emplace_back([this] { work(); });
        work();
        for (std::thread& other : others)
            other.join();
    }

  private:
    struct Finished {
        Faults faults;
        tl::expected<Outcome, Violation> result;
    };
    // Nobody runs farther ahead of the oldest unfinished run than this: bounded memory.
    static constexpr std::uint64_t kAhead = 256;

    void work() {
        std::unique_ptr<Simulator> simulator;
        {
            const std::lock_guard lock(mutex_);
            simulator = make_();
        }
        while (const auto run = claim()) {
            const std::uint64_t seed = batch_.first_seed + *run;
            Faults faults = batch_.faults.draw(simulator->processes(), seed);
            auto result = simulator->run(faults, seed);
            hand_over(*run, Finished{std::move(faults), std::move(result)});
        }
    }

    std::optional<std::uint64_t> claim() {
        std::unique_lock lock(mutex_);
        room_.wait(lock, [this] { return over_ || next_ == batch_.runs || next_ < used_ + kAhead; });
        if (over_ || next_ == batch_.runs) return std::nullopt;
        return next_++;
    }

    void hand_over(std::uint64_t run, Finished&& finished) {
        const std::lock_guard lock(mutex_);
        waiting_.emplace(run, std::move(finished));
        while (!over_ && !waiting_.empty() && waiting_.begin()->first == used_) {
            Finished& first = waiting_.begin()->second;
            over_ = !use_(batch_.first_seed + used_, first.faults, std::move(first.result));
            waiting_.erase(waiting_.begin());
            ++used_;
        }
        room_.notify_all();
    }

    const Batch& batch_;
    const MakeSimulator& make_;
    const UseResult& use_;
    std::mutex mutex_;
    std::condition_variable room_;
    std::uint64_t next_ = 0;  // the next run that nobody has claimed
    std::uint64_t used_ = 0;  // how many were handed over
    bool over_ = false;
    std::map<std::uint64_t, Finished> waiting_;
};

}  // namespace

void run_batch(const Batch& batch, const MakeSimulator& make, const UseResult& use) {
    if (batch.runs > 0) Runner(batch, make, use).run();
}

}  // namespace coppice::simulation
