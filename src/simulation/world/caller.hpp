// The application of one rank: runs a program by C calls and writes down what it was told.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "coppice/coppice.h"
#include "simulation/promises/history.hpp"
#include "simulation/world/program.hpp"
#include "simulation/world/rank.hpp"

namespace coppice::world {

class Caller {
  public:
    Caller(WorldRank& rank, const Program& program, promises::History& history, std::vector<promises::Group>& groups)
        : rank_(rank), program_(program), history_(history), groups_(groups) {}
    void run();

  private:
    static constexpr std::uint64_t kBetweenTriesNs = 20'000;

    // A group as its caller has it.
    struct Joined {
        coppice_group_t* group = nullptr;
        std::uint32_t id = promises::kNone;
        std::vector<std::uint32_t> members;  // ranks of the job
        std::uint32_t self = 0;
        std::uint32_t epoch = 0;
        std::uint32_t broadcasts = 0;  // begun here
        std::vector<std::uint32_t> acknowledged;
        std::vector<std::uint32_t> told;  // failed, by callbacks
    };
    struct Open {
        coppice_request_t* request = nullptr;
        std::size_t call = 0;
        std::uint32_t broadcast = 0;  // which one of its group
        bool view = false;
        bool ended = false;
        std::vector<std::byte> buffer;
        const void* seen = nullptr;  // a view
        std::size_t length = 0;
        bool shrinks = false;
        coppice_group_t* shrunk = nullptr;
    };

    void note_start(promises::Call& call);
    std::size_t begin(promises::Action action, const Step* step, const Joined* joined);
    void end(std::size_t call, coppice_status_t status);
    promises::Call& at(std::size_t call) { return history_.calls[call]; }
    std::uint64_t liberty(const Step& step, std::uint32_t salt) const;

    bool create(std::uint32_t step);
    bool is_newcomer() const;
    bool join();
    std::vector<std::uint32_t> look_at_view(coppice_group_t* group, std::uint32_t* epoch);
    void renew_if_pending(const Step& step, std::size_t call);
    void do_step(const Step& step);
    void broadcast(const Step& step);
    void broadcast_nb(const Step& step);
    std::uint64_t contribution_to(const Step& step) const;
    void agree(const Step& step);
    void agree_nb(const Step& step);
    void take_agreement(std::size_t call, Joined& joined);
    void learn(const Step& step);
    bool has_begun_to_leave(std::uint32_t member) const;
    std::vector<std::uint32_t> failed();
    void acknowledge();
    void revoke(const Step& step);
    void shrink(const Step& step);
    coppice_status_t renew(const Step& step, coppice_group_t** next);
    void take_shrunk(std::size_t call, Joined& old, coppice_group_t* shrunk);
    void drop_old(const Step* step);
    void away(const Step& step);
    void destroy(Joined& joined, const Step* step);

    void wait_for(Open& open, std::uint64_t timeout_ns);
    void take_end(Open& open, coppice_status_t status, std::size_t received);
    void release(Open& open);
    coppice_status_t see_view(const Open& open);
    bool settle_one();
    void settle();
    void keep_window();
    void make_room();
    static void on_failure(void* self, coppice_group_t* group, std::uint32_t rank);
    void take_failure(Joined& joined, std::uint32_t rank);
    void take_early_failures();

    WorldRank& rank_;
    const Program& program_;
    promises::History& history_;
    std::vector<promises::Group>& groups_;
    coppice_context_t* context_ = nullptr;
    Joined current_;
    std::deque<Joined> old_;
    std::deque<Open> open_;
    // Failures in a group that the call that makes it has not given to its caller yet.
    std::vector<std::pair<coppice_group_t*, std::uint32_t>> early_failures_;
    std::uint32_t made_ = 0;
    bool sits_out_ = false;  // it has left its group: there is a next one when all make it
    bool out_ = false;       // of the job: nothing more can be done
};

}  // namespace coppice::world
