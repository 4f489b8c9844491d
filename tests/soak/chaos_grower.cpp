#include "chaos_grower.hpp"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace chaos {

namespace {

// Ranks work on for so long after all has been done to the job and nothing has changed: what was started late is to come in.
constexpr auto kLinger = std::chrono::milliseconds(400);
// Pauses between agreements meanwhile.
constexpr std::uint32_t kPauseUs = 2000;

// All that coppice-run was asked for.
bool has_all_happened() {
    const char* const text = std::getenv("COPPICE_RUN_DONE_FD");
    if (text == nullptr) return true;
    pollfd one{std::atoi(text), POLLIN, 0};
    return ::poll(&one, 1, 0) != 0;
}

}  // namespace

Grower::Grower(const Options& options, std::uint32_t self, bool is_late)
    : options_(options), self_(self), is_late_(is_late), own_(mix(mix(options.seed, 0x67726f77), self)) {}

bool Grower::play(coppice_context_t* context) {
    context_ = context;
    look_for_death("create");
    team_ = std::make_unique<Team>(options_, 0, context_, own_);
    team_->join(self_, is_late_);
    changed_ = Clock::now();
    Next next = Next::go_on;
    if (is_late_ && !settle()) next = renew();
    while (next == Next::go_on)
        next = step();
    if (next == Next::end) {
        log_line(fmt::format("z {}", microseconds_now()));
        team_->destroy();
    }
    return next == Next::end;
}

// The COUNT-th time that it comes to that point.
void Grower::look_for_death(const char* point) {
    char name[8] = "";
    unsigned long long count = 0, microseconds = 0;
    if (std::sscanf(options_.die.c_str(), "%7[a-z]:%llu:%llu", name, &count, &microseconds) != 3) return;
    const std::string_view wanted(name);
    const std::uint64_t now = wanted == "step" ? steps_ : wanted == "renew" ? renewals_ : 0;
    if (wanted == point && now == count) die_in(microseconds);
}

Grower::Next Grower::step() {
    Draw common(mix(mix(options_.seed, team_->id()), steps_here_++));
    ++steps_;
    if (own_.one_in(60)) stay_away(options_, own_, context_);
    look_for_death("step");
    if (options_.leave > 0 && steps_ >= options_.leave && !team_->is_leaving()) team_->want_to_leave();
    return work(common);
}

// At its end all know whether they renew the group, or are done.
Grower::Next Grower::work(Draw& common) {
    switch (common.below(8)) {
        case 0:
            team_->broadcasts(common, 1 + common.below(12));
            break;
        case 1:
        case 2:
            team_->flights(common, 1 + common.below(common.one_in(3) ? 100 : 20));
            break;
        case 3:
            team_->agreements(common, 1 + common.below(6));
            if (own_.one_in(2) && !team_->revoked()) team_->acknowledge();
            break;
        case 4:
            if (common.one_in(4)) revoke(common);
            break;
        default:
            break;
    }
    if (team_->revoked()) return renew();
    if (state_.steps >= options_.steps) ::usleep(kPauseUs);
    // Folded from below and from above: all have the same exactly if both are.
    std::vector<std::uint64_t> words{state_.sum, ~state_.sum, wants_more() ? 1U : 0U};
    bool pending = false;
    const bool all = team_->agree_on(words, pending);
    if (team_->revoked()) return renew();
    if (all) {
        if (words[0] != ~words[1])
            wrong("diverged", fmt::format("what the members of team {:x} have come to", team_->id()));
        ++state_.steps;
        state_.sum = mix(state_.sum, state_.steps);
    }
    if (!all || pending || common.one_in(state_.steps < options_.steps ? 12 : 200)) return renew();
    return words[2] == 0 ? Next::end : Next::go_on;
}

bool Grower::wants_more() {
    if (!has_all_happened_) {
        changed_ = Clock::now();
        has_all_happened_ = has_all_happened();
    }
    const auto quiet = Clock::now() - changed_;
    const bool lacks_members = team_->view().size < options_.expect;
    if (lacks_members && quiet > std::chrono::duration<double>(options_.patience)) {
        wrong("hung", fmt::format("team {:x} has {} members, and {} do not come", team_->id(), team_->view().size,
                                  options_.expect - team_->view().size));
    }
    return state_.steps < options_.steps || !has_all_happened_ || lacks_members || quiet < kLinger;
}

// Some rank does it, at a moment that the others do not know; it may have died before.
void Grower::revoke(Draw& common) {
    const std::uint64_t revoker = common.below(team_->members().size());
    const std::uint64_t moment = common.below(6);
    for (std::uint64_t i = 0; i < 6 && !team_->revoked(); ++i) {
        if (team_->members()[revoker] == self_ && i == moment) team_->revoke();
        if (common.one_in(2)) {
            team_->flights(common, 1 + common.below(12));
        } else {
            team_->agreements(common, 1 + common.below(3));
        }
    }
    if (!team_->revoked()) team_->revoke();
    Draw last(common);
    while (!team_->revoked())
        team_->agreements(last, 1);
}

// Until all members of a group have what the eldest has.
Grower::Next Grower::renew() {
    for (;;) {
        const Next next = renew_once();
        if (next != Next::go_on || settle()) return next;
    }
}

Grower::Next Grower::renew_once() {
    if (before_) before_->destroy();
    before_.reset();
    ++renewals_;
    look_for_death("renew");
    if (own_.one_in(20)) stay_away(options_, own_, context_);
    // The same at all members, whatever each has seen of this group's end.
    Draw common(mix(mix(options_.seed, team_->id()), 0x72656e6577));
    // Others may not know, and wait for this rank in what it does no more.
    if (team_->lost_quorum()) team_->revoke();
    coppice_renew_options_t how = COPPICE_RENEW_OPTIONS_INIT;
    how.most = options_.most;
    how.numbering = common.one_in(4) ? COPPICE_NUMBERS_LAST : COPPICE_NUMBERS_OF_THE_GONE;
    const bool admits = !common.one_in(8);
    const bool keeps = common.one_in(3);
    std::unique_ptr<Team> next = team_->renew(how, admits);
    if (!next && !team_->has_left()) {
        if (own_.one_in(2)) next = team_->renew(how, admits);  // more may be known by now
        if (!next && !team_->has_left()) return without_quorum();
    }
    if (!next) {
        team_->destroy();
        return Next::leave;
    }
    const bool was_revoked = team_->revoked();
    before_ = std::move(team_);
    team_ = std::move(next);
    if (!keeps || was_revoked) {
        before_->destroy();
        before_.reset();
    }
    steps_here_ = 0;
    ++state_.renewals;
    changed_ = Clock::now();
    return Next::go_on;
}

// The group can still be left.
Grower::Next Grower::without_quorum() {
    const std::string why = coppice_last_error();
    const std::string id = fmt::format("{:x}", team_->id());
    team_->destroy();
    leave(fmt::format("q {} {}", id, why));
}

bool Grower::settle() {
    State told = state_;
    const bool has_it = team_->tell(&told, sizeof told);
    if (team_->revoked()) return false;
    if (has_it) state_ = told;
    std::vector<std::uint64_t> words{has_it ? 0U : 1U};
    bool pending = false;
    const bool all = team_->agree_on(words, pending);
    if (all && words[0] != 0)
        wrong("lost", fmt::format("nobody of team {:x} has died, and not all have what the eldest has", team_->id()));
    if (before_ && !team_->revoked()) {
        before_->destroy();
        before_.reset();
    }
    return all;
}

}  // namespace chaos
