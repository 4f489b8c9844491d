// Conjugate gradients for Poisson's equation on a cube: 7-point stencil, n³ unknowns, zero on the boundary.
//
// The cube is cut into as many slabs of planes as there are ranks at first. Slabs stay what they are, whichever rank
// owns them: when a rank dies others take its slabs over and work on more than one, until a newcomer takes its name. So
// the result does not depend on which ranks died or came when, not even in the last bit: partial sums are added up slab by slab.
#pragma once

#include <array>
#include <coppice/coppice.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "mailboxes.hpp"

namespace cg {

// As many partial sums as one agreement carries.
inline constexpr std::size_t kMostSlabs = COPPICE_MAX_AGREED / sizeof(double);

struct Slab {
    std::vector<double> x, r,
        p;                  // p has a plane more on both sides: the neighbours'
    std::vector<double> q;  // A p; no part of checkpoints
};

// Brings the parts of a sum together: a rank puts those of its slabs into their places, the others are 0; then all are
// at all ranks. Collective. Throws RankDied.
using Gather = std::function<void(coppice::Group&, std::span<double>)>;
// By an agreement on all of them.
void gather_by_agreement(coppice::Group& group, std::span<double> parts);

// A process waits to join, there are fewer ranks than slabs, and all have just taken a checkpoint: all get this together.
struct NewcomerWaits : std::exception {
    const char* what() const noexcept override { return "a process waits to join"; }
};

class Solver {
  public:
    static constexpr std::uint8_t kNobody = 255;
    using Owners = std::array<std::uint8_t, kMostSlabs>;  // of each slab

    // There are as many slabs as ranks, and rank r begins with slab r. It goes by the name of r for good: ranks of
    // later groups may have other numbers.
    Solver(Mailboxes& mail, std::size_t grid, std::size_t slabs, std::uint8_t self, std::uint64_t checkpoint_every,
           Gather gather = gather_by_agreement);
    static std::size_t boxes(std::size_t slabs) { return kBoxes * slabs; }
    static std::size_t numbers(std::size_t grid, std::size_t slabs) {
        return (3 * ((grid + slabs - 1) / slabs) + 2) * grid * grid;  // of a checkpoint, which is the most
    }

    // This rank has come when others had begun, and has nothing before restore() ends well.
    void begin_late();
    bool has_state() const { return complete_ != kNothing; }

    // Solves for one source after the other, for each until |r| ≤ tolerance · |b|. Throws when a rank has failed, and
    // NewcomerWaits.
    void solve(coppice::Group& group, std::uint64_t sources, double tolerance);

    // In a new group: goes back to the last checkpoint that all have, and takes over slabs of the dead whose copies are
    // here. Collective. Returns which rank owned what before that: kNobody for those taken over. Throws
    // std::runtime_error when a slab is lost, because its owner and the holder of its copy are both dead.
    // `late`: as bits the names of those that have begun late and have nothing yet. They get what all have from the
    // rank `root`, and each its slab from the rank that has it.
    Owners restore(coppice::Group& group, std::uint32_t late = 0, std::uint32_t root = 0);
    const Owners& owners() const { return owners_; }
    // Which rank had each slab in restore(), from its own work or from a copy, before it was handed to a newcomer.
    const Owners& holders() const { return holders_; }

    std::uint64_t source() const { return source_; }
    std::uint64_t iteration() const { return iteration_; }
    // Of each source that is solved.
    struct Result {
        std::uint64_t iterations = 0;
        double residual = 0;  // |r| / |b|
        double error = 0;     // how far x is off the known solution anywhere
    };
    const std::vector<Result>& results() const { return results_; }

  private:
    // A slab's lowest plane, its highest, its checkpoint, and that again for the rank that gets the slab.
    enum Box : std::size_t { kLowest, kHighest, kCopy, kHanded, kBoxes };
    static constexpr std::uint64_t kNothing = UINT64_MAX;

    struct Checkpoint {
        std::optional<std::uint64_t> moment;  // none while it is being taken
        double rr = 0, bb = 0;
        std::map<std::size_t, Slab> slabs;  // own ones, and copies of others'
    };

    std::size_t first_plane(std::size_t slab) const { return slab * grid_ / slabs_; }
    std::size_t planes(std::size_t slab) const { return first_plane(slab + 1) - first_plane(slab); }
    static std::size_t box(std::size_t slab, Box which) { return slab * kBoxes + which; }
    std::uint64_t moment() const { return source_ << 32 | iteration_; }
    // No stamp comes twice, also when iterations are done again: that is in another group.
    std::uint64_t stamp() const { return epoch_ << 48 | (moment() + 1); }

    double solution(std::size_t z, std::size_t y, std::size_t x) const;
    Slab first(std::size_t slab) const;
    void begin(std::uint64_t source);
    void iterate(coppice::Group& group);
    double residual() const;
    double error(coppice::Group& group) const;
    void exchange_planes(const coppice::Group& group);
    double multiply(Slab& slab) const;  // q = A p; returns p·q
    template <class Part>
    double sum(coppice::Group& group, Part&& part);
    template <class Has>
    Owners who(coppice::Group& group, Has&& has) const;

    std::uint8_t holder_of_copy(std::size_t slab) const;
    void take_checkpoint(const coppice::Group& group);
    void post_slab(std::size_t number, const Slab& slab, Box which);
    Slab fetch_slab(const coppice::Group& group, std::size_t number, Box which);
    std::map<std::size_t, Slab> hand_over(const coppice::Group& group);
    void bring_state(coppice::Group& group, std::uint32_t root);
    std::optional<Slab> find_copy(std::size_t slab) const;

    Mailboxes& mail_;
    std::size_t grid_, plane_, slabs_;
    std::uint64_t checkpoint_every_;
    std::uint8_t self_;
    Gather gather_;
    Owners owners_{}, holders_{};
    std::map<std::size_t, Slab> own_;
    std::vector<Result> results_;
    std::uint64_t source_ = 0;
    std::uint64_t iteration_ = 0;
    std::uint64_t epoch_ = 0;  // of the group
    double rr_ = 0, bb_ = 0;
    // The last two, as somebody may die while one is being taken. Nobody begins one before all have the one before.
    std::array<Checkpoint, 2> checkpoints_;
    std::size_t newest_ = 0;
    std::uint64_t complete_ = 0;  // the last moment to which this rank can go back: of iteration 0 everybody has all
};

}  // namespace cg
