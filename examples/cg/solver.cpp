#include "solver.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace cg {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Every value that is agreed upon counts only if all ranks have contributed.
void need_all(const coppice::Group::Agreed& agreed) {
    if (!agreed.acknowledged) throw RankDied();
}

}  // namespace

Solver::Solver(Mailboxes& mail, std::size_t grid, std::size_t slabs, std::uint8_t self, std::uint64_t checkpoint_every,
               Gather gather)
    : mail_(mail),
      grid_(grid),
      plane_(grid * grid),
      slabs_(slabs),
      checkpoint_every_(checkpoint_every),
      self_(self),
      gather_(std::move(gather)) {
    std::iota(owners_.begin(), owners_.end(), std::uint8_t{0});
    own_[self] = {};
    begin(0);
}

void Solver::begin_late() {
    own_.clear();
    complete_ = kNothing;
}

// -------------------------------------------------------------------------------------------------- the mathematics

// What a source is made from, so that the result can be checked. Planes and points count from 1; 0 on the boundary.
double Solver::solution(std::size_t z, std::size_t y, std::size_t x) const {
    const double h = 1.0 / static_cast<double>(grid_ + 1);
    const auto side = [h](std::size_t i, double k) {
        const double t = static_cast<double>(i) * h;
        return 4 * t * (1 - t) * std::sin(k * t + 1);
    };
    const auto shape = static_cast<double>(source_);
    return side(z, 3 + shape) * side(y, 7 + shape) * side(x, 31 + shape);
}

void Solver::begin(std::uint64_t source) {
    source_ = source;
    iteration_ = 0;
    complete_ = moment();
    for (auto& [number, slab] : own_)
        slab = first(number);
}

Slab Solver::first(std::size_t slab) const {
    Slab made;
    for (std::size_t z = 0; z < planes(slab) + 2; ++z) {
        for (std::size_t y = 1; y <= grid_; ++y) {
            for (std::size_t x = 1; x <= grid_; ++x)
                made.p.push_back(solution(first_plane(slab) + z, y, x));
        }
    }
    made.q.resize(planes(slab) * plane_);
    multiply(made);
    made.x.assign(made.q.size(), 0.0);
    made.r = made.q;  // b, as x is 0
    std::ranges::fill(made.p, 0.0);
    std::ranges::copy(made.r, made.p.begin() + static_cast<std::ptrdiff_t>(plane_));
    return made;
}

double Solver::multiply(Slab& slab) const {
    const std::size_t n = grid_;
    double product = 0;
    for (std::size_t row = 0; row < slab.q.size() / n; ++row) {
        const double* p = slab.p.data() + plane_ + row * n;
        const double* const below = p - plane_;
        const double* const above = p + plane_;
        const bool first = row % n == 0, last = row % n == n - 1;
        double* const q = slab.q.data() + row * n;
        for (std::size_t i = 0; i < n; ++i)
            q[i] = 6 * p[i] - below[i] - above[i];
        for (std::size_t i = 0; i < n && !first; ++i)
            q[i] -= p[i - n];
        for (std::size_t i = 0; i < n && !last; ++i)
            q[i] -= p[i + n];
        for (std::size_t i = 1; i < n; ++i)
            q[i] -= p[i - 1];
        for (std::size_t i = 0; i + 1 < n; ++i)
            q[i] -= p[i + 1];
        for (std::size_t i = 0; i < n; ++i)
            product += p[i] * q[i];
    }
    return product;
}

void Solver::solve(coppice::Group& group, std::uint64_t sources, double tolerance) {
    while (true) {
        if (iteration_ == 0) rr_ = bb_ = sum(group, [](Slab& slab) { return dot(slab.r, slab.r); });
        while (residual() > tolerance)
            iterate(group);
        results_.resize(source_);  // some may have been solved before, and are solved again
        results_.push_back({iteration_, residual(), error(group)});
        if (source_ + 1 == sources) return;
        begin(source_ + 1);
    }
}

void Solver::iterate(coppice::Group& group) {
    if (iteration_ % checkpoint_every_ == 0 && moment() != complete_) {
        take_checkpoint(group);
        // The last agreement says so, which all ranks have ended.
        if (group.size() < slabs_ && group.pending()) throw NewcomerWaits();
    }
    exchange_planes(group);
    const double alpha = rr_ / sum(group, [this](Slab& slab) { return multiply(slab); });
    const double rr = sum(group, [this, alpha](Slab& slab) {
        for (std::size_t i = 0; i < slab.x.size(); ++i) {
            slab.x[i] += alpha * slab.p[plane_ + i];
            slab.r[i] -= alpha * slab.q[i];
        }
        return dot(slab.r, slab.r);
    });
    const double beta = rr / rr_;
    for (auto& [number, slab] : own_) {
        for (std::size_t i = 0; i < slab.r.size(); ++i)
            slab.p[plane_ + i] = slab.r[i] + beta * slab.p[plane_ + i];
    }
    rr_ = rr;
    ++iteration_;
}

double Solver::residual() const {
    return std::sqrt(rr_ / bb_);
}

double Solver::error(coppice::Group& group) const {
    double most = 0;
    for (const auto& [number, slab] : own_) {
        for (std::size_t i = 0; i < slab.x.size(); ++i) {
            const std::size_t z = first_plane(number) + i / plane_ + 1;
            most = std::max(most, std::abs(slab.x[i] - solution(z, i % plane_ / grid_ + 1, i % grid_ + 1)));
        }
    }
    // Bits of doubles that are not negative compare as the doubles do.
    const auto [bits, agreed] = group.agree(std::bit_cast<std::uint64_t>(most), coppice::Operation::kMax);
    need_all(agreed);
    return std::bit_cast<double>(bits);
}

// ------------------------------------------------------------------------------------------ what ranks say to ranks

// An agreement can't add, because after a death it may count a contribution twice. It can gather, by OR, as each slab
// has a place of its own.
void gather_by_agreement(coppice::Group& group, std::span<double> parts) {
    need_all(group.agree(std::as_writable_bytes(parts), {.operation = coppice::Operation::kOr}));
}

// The sum of a part of each slab: gathered, and added up by each rank for itself, in the same order.
template <class Part>
double Solver::sum(coppice::Group& group, Part&& part) {
    std::array<double, kMostSlabs> parts{};
    for (auto& [number, slab] : own_)
        parts[number] = part(slab);
    const std::span<double> all(parts.data(), slabs_);
    gather_(group, all);
    return std::accumulate(all.begin(), all.end(), 0.0);
}

// For each slab the lowest name of the ranks that have it in some way; kNobody if none has.
template <class Has>
Solver::Owners Solver::who(coppice::Group& group, Has&& has) const {
    Owners owners;
    for (std::size_t slab = 0; slab < owners.size(); ++slab)
        owners[slab] = slab < slabs_ && has(slab) ? self_ : kNobody;
    need_all(group.agree(std::as_writable_bytes(std::span(owners)),
                         {.operation = coppice::Operation::kMin, .type = coppice::Type::kUint8}));
    return owners;
}

void Solver::exchange_planes(const coppice::Group& group) {
    for (const auto& [number, slab] : own_) {
        const auto post = [&](Box which, std::size_t first) {
            std::copy_n(slab.p.begin() + static_cast<std::ptrdiff_t>(first), plane_,
                        mail_.outgoing(box(number, which)));
            mail_.post(box(number, which), stamp());
        };
        post(kLowest, plane_);
        post(kHighest, slab.p.size() - 2 * plane_);
    }
    for (auto& [number, slab] : own_) {
        if (number > 0) std::copy_n(mail_.fetch(group, box(number - 1, kHighest), stamp()), plane_, slab.p.begin());
        if (number + 1 < slabs_) {
            std::copy_n(mail_.fetch(group, box(number + 1, kLowest), stamp()), plane_,
                        slab.p.end() - static_cast<std::ptrdiff_t>(plane_));
        }
    }
}

// ------------------------------------------------------------------------------------------------------ checkpoints

// The owner of the next slab that belongs to somebody else; the owner itself when it is alone.
std::uint8_t Solver::holder_of_copy(std::size_t slab) const {
    for (std::size_t step = 1; step < slabs_; ++step) {
        const std::uint8_t other = owners_[(slab + step) % slabs_];
        if (other != owners_[slab]) return other;
    }
    return owners_[slab];
}

void Solver::post_slab(std::size_t number, const Slab& slab, Box which) {
    double* const copy = mail_.outgoing(box(number, which));
    std::ranges::copy(slab.p, std::ranges::copy(slab.r, std::ranges::copy(slab.x, copy).out).out);
    mail_.post(box(number, which), stamp());
}

Slab Solver::fetch_slab(const coppice::Group& group, std::size_t number, Box which) {
    const std::size_t unknowns = planes(number) * plane_;
    const double* const copy = mail_.fetch(group, box(number, which), stamp());
    Slab slab;
    slab.x.assign(copy, copy + unknowns);
    slab.r.assign(copy + unknowns, copy + 2 * unknowns);
    slab.p.assign(copy + 2 * unknowns, copy + 3 * unknowns + 2 * plane_);
    slab.q.resize(unknowns);
    return slab;
}

void Solver::take_checkpoint(const coppice::Group& group) {
    Checkpoint& taken = checkpoints_[1 - newest_];
    taken.moment.reset();
    taken.slabs.clear();
    // Taken again after a restore: a rank that was handed a slab may die before others have its copy.
    if (checkpoints_[newest_].moment == moment()) taken.slabs = checkpoints_[newest_].slabs;
    for (const auto& [number, slab] : own_) {
        post_slab(number, slab, kCopy);
        taken.slabs[number] = slab;
    }
    for (std::size_t slab = 0; slab < slabs_; ++slab) {
        if (owners_[slab] != self_ && holder_of_copy(slab) == self_) taken.slabs[slab] = fetch_slab(group, slab, kCopy);
    }
    taken.rr = rr_;
    taken.bb = bb_;
    taken.moment = complete_ = moment();
    newest_ = 1 - newest_;
}

std::optional<Slab> Solver::find_copy(std::size_t slab) const {
    if (iteration_ == 0) return first(slab);
    for (const Checkpoint* checkpoint : {&checkpoints_[newest_], &checkpoints_[1 - newest_]}) {
        const auto found = checkpoint->slabs.find(slab);
        if (checkpoint->moment == moment() && found != checkpoint->slabs.end()) return found->second;
    }
    return std::nullopt;
}

// What this rank owns from now on: slabs that it has, and those that their holders hand to it.
std::map<std::size_t, Slab> Solver::hand_over(const coppice::Group& group) {
    std::map<std::size_t, Slab> mine;
    for (std::size_t slab = 0; slab < slabs_; ++slab) {
        if (holders_[slab] != self_) continue;
        Slab held = *find_copy(slab);
        if (owners_[slab] == self_) {
            mine[slab] = std::move(held);
        } else if (iteration_ > 0) {
            post_slab(slab, held, kHanded);
        }
    }
    for (std::size_t slab = 0; slab < slabs_; ++slab) {
        if (owners_[slab] == self_ && holders_[slab] != self_)
            mine[slab] = iteration_ == 0 ? first(slab) : fetch_slab(group, slab, kHanded);
    }
    return mine;
}

// What all but the late ones have: their last checkpoint's numbers, and the results so far.
void Solver::bring_state(coppice::Group& group, std::uint32_t root) {
    std::vector<double> state(2 + 3 * source_);
    if (group.rank() == root) {
        state[0] = rr_;
        state[1] = bb_;
        for (std::size_t source = 0; source < source_; ++source) {
            state[2 + 3 * source] = std::bit_cast<double>(results_[source].iterations);
            state[3 + 3 * source] = results_[source].residual;
            state[4 + 3 * source] = results_[source].error;
        }
    }
    group.broadcast(std::as_writable_bytes(std::span(state)), root);
    if (has_state()) return;
    rr_ = state[0];
    bb_ = state[1];
    results_.clear();
    for (std::size_t at = 2; at < state.size(); at += 3)
        results_.push_back({std::bit_cast<std::uint64_t>(state[at]), state[at + 1], state[at + 2]});
}

Solver::Owners Solver::restore(coppice::Group& group, std::uint32_t late, std::uint32_t root) {
    epoch_ = group.info().epoch;
    const auto [oldest, agreed] = group.agree(complete_, coppice::Operation::kMin);
    need_all(agreed);
    source_ = oldest >> 32;
    iteration_ = oldest & UINT32_MAX;
    const Owners before = who(group, [&](std::size_t slab) { return own_.contains(slab); });
    const Owners heirs =
        who(group, [&](std::size_t slab) { return before[slab] == kNobody && find_copy(slab).has_value(); });
    holders_ = before;
    for (std::size_t slab = 0; slab < slabs_; ++slab) {
        if (before[slab] == kNobody) holders_[slab] = heirs[slab];
        if (holders_[slab] == kNobody)
            throw std::runtime_error("slab " + std::to_string(slab) +
                                     " is lost: its owner and the holder of its copy died");
        owners_[slab] = (late >> slab & 1) != 0 ? static_cast<std::uint8_t>(slab) : holders_[slab];
    }
    if (has_state() && iteration_ > 0) {
        if (checkpoints_[newest_].moment != oldest) newest_ = 1 - newest_;  // one that not all have
        rr_ = checkpoints_[newest_].rr;
        bb_ = checkpoints_[newest_].bb;
    }
    if (late != 0) bring_state(group, root);
    own_ = hand_over(group);
    // A late one can go back to this moment, too.
    if (!has_state() && iteration_ > 0) checkpoints_[newest_] = {oldest, rr_, bb_, own_};
    complete_ = oldest;
    if (iteration_ > 0) take_checkpoint(group);  // slabs of other owners have no second copy yet
    return before;
}

}  // namespace cg
