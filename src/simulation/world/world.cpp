#include "simulation/world/world.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "api/api.hpp"
#include "simulation/promises/history.hpp"
#include "simulation/world/program.hpp"

namespace coppice::world {
namespace {

// libsodium's random numbers, from the seed of the world that runs: groups draw their tokens from it.
Clockwork* source_of_chance = nullptr;

const char* chance_name() {
    return "world";
}
std::uint32_t chance_word() {
    return source_of_chance == nullptr ? 0 : static_cast<std::uint32_t>(source_of_chance->random().next() >> 32);
}
void chance_bytes(void* const buffer, const std::size_t size) {
    auto* const bytes = static_cast<unsigned char*>(buffer);
    for (std::size_t at = 0; at < size; ++at)
        bytes[at] = static_cast<unsigned char>(chance_word());
}

void use_own_chance() {
    static randombytes_implementation implementation{.implementation_name = chance_name,
                                                     .random = chance_word,
                                                     .stir = nullptr,
                                                     .uniform = nullptr,
                                                     .buf = chance_bytes,
                                                     .close = nullptr};
    static const bool done = randombytes_set_implementation(&implementation) == 0 && sodium_init() >= 0;
    (void)done;
}

// What the C interface keeps of groups that were destroyed, and its last sentence, lies in memory of ranks that are gone.
void forget_the_dead() {
    constexpr int kKept = 256;
    for (int i = 0; i < kKept; ++i)
        api::bury(new coppice_group);
    World::forget_last_error();
}

// A context in which nothing ever is: a round of its thread's takes back the mark of one that did not end.
class Idle final : public engine::Platform {
  public:
    const Clock& clock() const override { return real_clock(); }
    Result<void> attend(engine::Attended& context) override {
        attended = &context;
        return {};
    }
    void forsake(engine::Attended& /*context*/) override {}
    void reset_pauses() override {}
    bool sleeps_next() override { return false; }
    void pause(int /*descriptor*/, std::uint64_t /*longest_ns*/) override {}
    Wires make_transports(const Place& /*place*/) override { return {}; }
    engine::Attended* attended = nullptr;
};

}  // namespace

// A long one takes the place of what was allocated for another.
void World::forget_last_error() {
    const Within outside(nullptr);
    api::remember(COPPICE_OK, std::string(64, ' '));
}

void World::forget_thread() {
    const Within outside(nullptr);
    static Idle* const idle = new Idle;
    static const auto context =
        engine::Context::create(engine::SettingTexts([](const char*) -> const char* { return nullptr; }), false, idle);
    if (idle->attended != nullptr) idle->attended->progress_for_callers();
}

std::uint32_t World::group_number(std::uint32_t parent, std::uint32_t number,
                                  const std::vector<std::uint32_t>& without) {
    const Within outside(nullptr);
    return groups_.try_emplace({parent, number, without}, static_cast<std::uint32_t>(groups_.size())).first->second;
}

World::World(const Fate& fate, std::uint64_t seed, Tell tell, Tell tell_traffic)
    : fate_(fate), clockwork_(fate_, seed) {
    use_own_chance();
    forget_thread();
    source_of_chance = &clockwork_;
    clockwork_.tell = std::move(tell);
    clockwork_.tell_traffic = std::move(tell_traffic);
    clockwork_.on_death([this](std::uint32_t rank) {
        for (const auto& network : networks_)
            if (network) network->rank_died(rank);
        if (launcher_) launcher_->rank_died(rank);
        complete_exchanges();
    });
    for (std::uint32_t rank = 0; rank < fate_.processes(); ++rank)
        ranks_.push_back(std::make_unique<WorldRank>(*this, rank));
    if (!fate_.newcomers.empty()) {
        launcher_ = std::make_unique<Launcher>(
            clockwork_,
            [this](std::uint32_t rank) { ranks_[rank]->start(newcomers_body_, clockwork_.draw(fate_.connect_ns)); },
            [this](std::uint32_t rank) { ranks_[rank]->stir(true); });
    }
    for (std::size_t which = 0; which < fate_.cuts.size(); ++which)
        clockwork_.at(fate_.cuts[which].begins_ns(), cutting_, which);
}

// A group that is made later finds the cut when it connects.
void World::Cutting::happen(std::uint64_t which) {
    const Cut& cut = world.fate_.cuts[which];
    if (world.clockwork_.tell)
        world.clockwork_.tell(
            fmt::format("{:>12} ns  the network is cut: {}", world.clockwork_.now_ns(), describe(cut, world.fate_)));
    for (const auto& network : world.networks_)
        if (network) network->cut(cut);
}

World::~World() {
    source_of_chance = nullptr;
    forget_the_dead();
}

Network& World::network(std::uint32_t number, std::uint32_t window, std::span<const transport::Region> regions) {
    const Within outside(nullptr);
    while (networks_.size() <= number)
        networks_.push_back(nullptr);
    if (!networks_[number]) {
        networks_[number] = std::make_unique<Network>(
            clockwork_, window, regions, [this](std::uint32_t rank, bool armed) { ranks_[rank]->stir(armed); });
    }
    return *networks_[number];
}

bool World::run(std::uint64_t most_ns) {
    return clockwork_.run(most_ns, [this] {
        return std::ranges::all_of(
            ranks_, [this](const auto& rank) { return !rank->is_busy() || clockwork_.dead(rank->number()); });
    });
}

World::Exchange& World::join_exchange(std::uint32_t number, std::uint32_t rank, const void* mine, std::size_t bytes) {
    const Within outside(nullptr);
    while (exchanges_.size() <= number)
        exchanges_.push_back(std::make_unique<Exchange>());
    Exchange& exchange = *exchanges_[number];
    exchange.bytes = bytes;
    exchange.pieces.resize(fate_.ranks);
    const auto* const begin = static_cast<const std::byte*>(mine);
    exchange.pieces[rank].assign(begin, begin + bytes);
    complete_exchanges();
    return exchange;
}

// Complete when all who live have come; the place of a rank that is dead by then is left empty, whether it had come or not.
void World::complete_exchanges() {
    const Within outside(nullptr);
    for (const auto& exchange : exchanges_) {
        if (exchange->complete || exchange->pieces.empty()) continue;
        bool all = true;
        for (std::uint32_t rank = 0; rank < fate_.ranks; ++rank)
            all = all && (clockwork_.dead(rank) || !exchange->pieces[rank].empty());
        if (!all) continue;
        exchange->complete = true;
        exchange->all.assign(exchange->bytes * fate_.ranks, std::byte{0});
        for (std::uint32_t rank = 0; rank < fate_.ranks; ++rank) {
            if (!clockwork_.dead(rank))
                std::ranges::copy(exchange->pieces[rank],
                                  exchange->all.begin() + static_cast<std::ptrdiff_t>(rank * exchange->bytes));
        }
        for (const auto& rank : ranks_)
            rank->stir(false);
    }
}

std::uint32_t World::view_number(std::uint32_t epoch, const std::vector<std::uint32_t>& members) {
    const Within outside(nullptr);
    const auto known = views_.find({epoch, members});
    if (known != views_.end()) return known->second;
    // A number that no other group has.
    const std::uint32_t number = group_number(promises::kNone - 1, epoch, members);
    views_[{epoch, members}] = number;
    return number;
}

void World::note_renewal(std::uint32_t epoch, std::uint32_t rank, std::uint32_t step) {
    const Within outside(nullptr);
    steps_[{epoch, rank}] = step;
}

std::uint32_t World::step_of(std::uint32_t epoch, const std::vector<std::uint32_t>& members) const {
    for (const std::uint32_t member : members)
        if (const auto known = steps_.find({epoch, member}); known != steps_.end()) return known->second;
    return promises::kNone;
}

int World::launchers_bell() {
    static const int bell = eventfd(0, EFD_CLOEXEC);
    return bell;
}

int World::bell(Wire wire) {
    static const std::array bells{eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
    return bells[static_cast<std::size_t>(wire)];
}

}  // namespace coppice::world
