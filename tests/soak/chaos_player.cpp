#include "chaos_player.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace chaos {

namespace {

constexpr std::size_t kMostTeams = 4;

}  // namespace

Player::Player(const Options& options, std::uint64_t life, std::uint64_t thread, std::uint32_t self, std::uint32_t size)
    : options_(options),
      life_(life),
      thread_(thread),
      self_(self),
      size_(size),
      common_seed_(mix(mix(options.seed, life), thread)),
      own_(mix(mix(common_seed_, 0x6f776e), self)) {}

void Player::play(coppice_context_t* context) {
    context_ = context;
    const std::uint64_t steps = thread_ == 0 ? options_.steps : 1 + options_.steps / 3;
    begin_step(0);
    Team::Members all(size_);
    std::iota(all.begin(), all.end(), 0U);
    create(0, thread_ == 0 && !Draw(common_seed_).one_in(4), all);
    for (std::uint64_t step = 1; step <= steps; ++step) {
        begin_step(step);
        one_step(step);
    }
    begin_step(steps + 1);
    if (own_.one_in(3)) stay_away(options_, own_, context_);
    while (!teams_.empty())
        destroy(Draw(mix(common_seed_, teams_.size())).below(teams_.size()));
}

void Player::begin_step(std::uint64_t step) {
    if (own_.one_in(60)) stay_away(options_, own_, context_);
    unsigned long long life = 0, at = 0, microseconds = 0;
    if (thread_ != 0 || std::sscanf(options_.die.c_str(), "%llu:%llu:%llu", &life, &at, &microseconds) != 3) return;
    if (life == life_ && at == step) die_in(microseconds);
}

void Player::create(std::uint64_t step, bool by_launcher, const Team::Members& members) {
    const auto self = std::ranges::find(members, self_);
    auto team = std::make_unique<Team>(options_, id_of(step), context_, own_);
    const std::string name = by_launcher ? "" : fmt::format("exchange-{}-{}-{}", life_, thread_, step);
    team->create(name, members, static_cast<std::uint32_t>(self - members.begin()));
    teams_.push_back(std::move(team));
}

void Player::destroy(std::size_t which) {
    teams_[which]->destroy();
    teams_.erase(teams_.begin() + static_cast<std::ptrdiff_t>(which));
}

// A group of the survivors comes in the old one's place, which is left sooner or later.
void Player::replace(std::size_t which, std::uint64_t step, Draw& common) {
    auto made = teams_[which]->shrink(id_of(step), common.one_in(2));
    if (own_.one_in(10)) stay_away(options_, own_, context_);
    if (teams_[which]->revoked() || teams_.size() >= kMostTeams || common.one_in(2)) {
        const bool use_first = common.one_in(2);
        if (use_first) made->broadcasts(common, 2);
        teams_[which]->destroy();
        teams_[which] = std::move(made);
    } else {
        teams_.push_back(std::move(made));
    }
}

void Player::revoke_and_shrink(std::size_t which, std::uint64_t step, Draw& common) {
    Team& team = *teams_[which];
    const std::uint64_t revoker = common.below(team.members().size());
    const std::uint64_t before = common.below(20);
    for (std::uint64_t i = 0; i < 40 && !team.revoked(); ++i) {
        if (team.members()[revoker] == self_ && i == before) team.revoke();
        Draw part(mix(mix(common_seed_, step), i));
        const std::uint64_t number = 1 + part.below(3);
        switch (part.below(3)) {
            case 0:
                team.agreements(part, number);
                break;
            case 1:
                team.flights(part, 4 * number);
                break;
            default:
                team.broadcasts(part, number);
                break;
        }
    }
    // The revoker may have died before.
    if (!team.revoked()) team.revoke();
    while (!team.revoked()) {
        Draw part(common_seed_);
        team.broadcasts(part, 1);
    }
    replace(which, step, common);
}

void Player::one_step(std::uint64_t step) {
    Draw common(mix(mix(common_seed_, 0x73746570), step));
    const std::size_t which = common.below(teams_.size());
    Team& team = *teams_[which];
    const std::uint64_t kind = common.below(100);
    if (kind < 25) {
        team.broadcasts(common, 1 + common.below(12));
    } else if (kind < 50) {
        team.flights(common, 1 + common.below(common.one_in(3) ? 100 : 20));
    } else if (kind < 70) {
        team.agreements(common, 1 + common.below(6));
        if (own_.one_in(2)) team.acknowledge();
        // What all know alike may decide what all do.
        if (team.has_failed() && common.one_in(3)) replace(which, step, common);
    } else if (kind < 77) {
        replace(which, step, common);
    } else if (kind < 83) {
        revoke_and_shrink(which, step, common);
    } else if (kind < 91 && teams_.size() < kMostTeams && !options_.no_create) {
        const bool by_launcher = thread_ == 0 && common.one_in(2);
        Team::Members all(size_);
        std::iota(all.begin(), all.end(), 0U);
        create(step, by_launcher, by_launcher || common.one_in(2) ? all : team.members());
    } else if (kind < 95 && teams_.size() > 1) {
        destroy(which);
    } else {
        team.agreements(common, 1);
        team.broadcasts(common, 40);
    }
}

}  // namespace chaos
