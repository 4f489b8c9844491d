#include "simulation/world/rank.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/api.hpp"
#include "simulation/world/host_board.hpp"
#include "simulation/world/world.hpp"

namespace coppice::world {
namespace {

// A rank's end of a wire, for its engine.
class WireTransport final : public transport::Transport {
  public:
    WireTransport(Network& network, Wire wire, std::uint32_t rank)
        : network_(network), wire_(wire), port_(network.port(wire, rank)), rank_(rank) {
        port_.open();
        if (wire == Wire::near) host_memory_ = std::make_unique<WorldMemory>(network, rank);
    }
    ~WireTransport() override { port_.close(); }

    transport::HostMemory* host_memory() { return host_memory_.get(); }

    const transport::Capabilities& capabilities() const override {
        static constexpr transport::Capabilities kNear{.name = "shm",
                                                       .within_host = true,
                                                       .inline_size = 128,
                                                       .eager_size = transport::kMaxPayload,
                                                       .arm_is_complete = true};
        static constexpr transport::Capabilities kFar{.name = "tcp",
                                                      .inline_size = 128,
                                                      .eager_size = transport::kMaxPayload,
                                                      .arm_is_complete = true,
                                                      .hears_unknown = true};
        static constexpr transport::Capabilities kFarWithReads{.name = "tcp",
                                                               .native_read = true,
                                                               .inline_size = 128,
                                                               .eager_size = transport::kMaxPayload,
                                                               .arm_is_complete = true,
                                                               .hears_unknown = true};
        if (wire_ == Wire::near) return kNear;
        return network_.clockwork().fate().has_reads ? kFarWithReads : kFar;
    }
    transport::Counters counters() const override { return port_.counters(); }
    // Which rank of the world this is.
    std::vector<std::byte> address() const override { return std::vector<std::byte>(1, static_cast<std::byte>(rank_)); }
    Result<void> add_peer(Seat peer, std::span<const std::byte> address) override {
        const auto rank = std::to_integer<std::uint32_t>(address.front());
        if (rank == rank_) return {};
        network_.clockwork().act(rank_);
        if (wire_ == Wire::near && !network_.port(Wire::near, rank).is_there())
            return fail(COPPICE_ERR_PEER_FAILED, "rank {} has ended already", rank);
        network_.note_seat(rank_, peer, rank);
        port_.add_peer(rank);
        return {};
    }
    void watch(Seat peer) override { port_.watch(at(peer)); }
    bool is_connected(Seat peer) const override { return port_.is_joined_to(at(peer)); }
    transport::SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t* in_flight) override {
        return port_.send(at(to), header, payload, in_flight);
    }
    transport::SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                std::uint32_t* in_flight) override {
        return port_.send(at(to), header, payload, in_flight);
    }
    std::size_t poll(transport::Receiver& receiver) override { return port_.poll(receiver); }
    int arm() override {
        port_.arm();
        return World::bell(wire_);
    }
    Result<transport::Exposure> expose(std::span<std::byte> memory) override { return port_.expose(memory); }
    void withdraw(const transport::Exposure& memory) override { port_.withdraw(memory); }
    transport::SendStatus read(Seat from, const transport::RemoteMemory& what, std::span<std::byte> into,
                               const transport::Exposure& /*own*/, transport::Reads* reads) override {
        return port_.read(at(from), what, into, reads);
    }
    bool may_be_read_by(Seat peer) const override { return port_.may_be_read_by(at(peer)); }
    void release(transport::Buffer buffer) override { port_.release(buffer); }
    void fence(Seat peer) override { port_.fence(at(peer)); }
    void forget(Seat peer) override { port_.forget(at(peer)); }
    bool leave() override { return port_.leave(); }

  private:
    std::uint32_t at(Seat seat) const { return network_.rank_at(rank_, seat); }

    Network& network_;
    Wire wire_;
    Port& port_;
    std::uint32_t rank_;
    std::unique_ptr<WorldMemory> host_memory_;
};

constexpr std::uint64_t kRoundNs = 100;

}  // namespace

WorldRank::WorldRank(World& world, std::uint32_t rank) : world_(world), rank_(rank) {}

const Clock& WorldRank::clock() const {
    return world_.clockwork();
}

// ---------------------------------------------------------------------------------------------------- the engine ---

Result<void> WorldRank::attend(engine::Attended& context) {
    attended_ = &context;
    const Within outside(nullptr);
    if (thread_ == nullptr) thread_ = &world_.clockwork().add_actor(rank_, [this] { run_thread(); });
    return {};
}

void WorldRank::forsake(engine::Attended& /*context*/) {
    attended_ = nullptr;
}

engine::Platform::Wires WorldRank::make_transports(const Place& place) {
    Network& network = world_.network(groups_made_++, place.window, place.regions);
    Wires wires;
    if (place.has_local_peers) {
        auto near = std::make_unique<WireTransport>(network, Wire::near, rank_);
        wires.host_memory = near->host_memory();
        wires.near = std::move(near);
    }
    if (place.has_far_peers) wires.far = std::make_unique<WireTransport>(network, Wire::far, rank_);
    return wires;
}

Result<std::unique_ptr<bootstrap::Admission>> WorldRank::admission() {
    Launcher* const launcher = world_.launcher();
    return launcher != nullptr ? launcher->enter(rank_) : nullptr;
}

std::optional<bootstrap::LauncherEnvironment> WorldRank::started_late() const {
    const Fate& fate = world_.fate();
    if (rank_ < fate.ranks) return std::nullopt;
    return bootstrap::LauncherEnvironment{.rank = Rank(fate.seat_of(rank_)),
                                          .size = fate.ranks,
                                          .socket_path = {},
                                          .incarnation = fate.incarnation_of(rank_)};
}

bool WorldRank::sleeps_next() {
    return pauses_ >= world_.fate().polls_before_sleep;
}

// The caller waits in a call: often at first, then it sleeps.
void WorldRank::pause(int descriptor, std::uint64_t longest_ns) {
    Clockwork& clockwork = world_.clockwork();
    const std::uint32_t most = world_.fate().polls_before_sleep;
    if (++pauses_ <= most) {
        if (pauses_ % 4 != 0) return;  // it looks several times in a row
        clockwork.wait(*caller_, clockwork.now_ns() + (kRoundNs << std::min(pauses_ / 4, 8U)), true);
        return let_round_end();
    }
    const std::uint64_t nap = std::min(std::uint64_t{50'000} << std::min(pauses_ - most, 12U), longest_ns);
    if (std::exchange(rung_, false) && descriptor >= 0) return;
    caller_sleeps_ = true;
    clockwork.wait(*caller_, clockwork.now_ns() + nap, descriptor >= 0);
    caller_sleeps_ = rung_ = false;
    let_round_end();
}

// The progress thread is inside: a caller that enters waits, and so does one in the middle of a call where several threads may call.
void WorldRank::let_round_end() {
    while (in_round_)
        world_.clockwork().wait(*caller_, world_.clockwork().now_ns() + kRoundNs, true);
}

void WorldRank::stir(bool armed) {
    Clockwork& clockwork = world_.clockwork();
    if (clockwork.dead(rank_)) return;
    rung_ = rung_ || armed;
    if (caller_ != nullptr && (armed || !caller_sleeps_)) clockwork.wake(*caller_, world_.fate().react_ns);
    if (thread_ != nullptr && armed && thread_sleeps_) clockwork.wake(*thread_, world_.fate().react_ns);
}

// --------------------------------------------------------------------------------------------- the progress thread ---

// As engine::ProgressThread does it: it takes over from a caller that has not been inside for a while, makes progress until
// nothing happens, arms the transports and sleeps.
void WorldRank::run_thread() {
    Clockwork& clockwork = world_.clockwork();
    for (;;) {
        if (attended_ == nullptr || engine::BiasedLock::is_inside(attended_->lock().entries())) {
            clockwork.wait(*thread_, kNever, true);  // a caller that leaves wakes it
            continue;
        }
        const std::uint32_t seen = attended_->lock().entries();
        clockwork.wait(
            *thread_,
            clockwork.now_ns() + engine::ProgressThread::kTickNs + clockwork.draw(engine::ProgressThread::kLongTickNs),
            false);
        if (attended_ == nullptr || attended_->lock().entries() != seen) continue;
        attended_->note_duty();
        while (on_duty(seen))
            continue;
    }
}

// False: a caller has come.
bool WorldRank::on_duty(std::uint32_t seen) {
    constexpr std::uint32_t kFruitless = 2;
    Clockwork& clockwork = world_.clockwork();
    std::uint64_t until_ns = 0;
    for (std::uint32_t fruitless = 0; fruitless < kFruitless;) {
        if (attended_ == nullptr || attended_->lock().entries() != seen || !attended_->lock().try_claim()) return false;
        in_round_ = true;
        clockwork.keep_core(rank_, enters_late_);
        std::size_t events = 0;
        if (attended_->has_work()) {
            events = attended_->progress_for_callers();
            if (events == 0 && ++fruitless == kFruitless) {
                descriptors_.clear();
                until_ns = attended_->arm(descriptors_);
                events = attended_->progress_for_callers();
            }
            if (events > 0) fruitless = 0;
        } else {
            fruitless = kFruitless;
            until_ns = kNever;
        }
        in_round_ = false;
        clockwork.keep_core(rank_, false);
        attended_->lock().release();
        if (caller_ != nullptr) clockwork.wake(*caller_, 0);
        if (fruitless < kFruitless) clockwork.wait(*thread_, clockwork.now_ns() + kRoundNs, false);
        if (attended_ == nullptr || attended_->lock().entries() != seen) return false;
    }
    if (std::exchange(rung_, false)) return true;
    thread_sleeps_ = true;
    clockwork.wait(*thread_, until_ns, true);
    rung_ = false;
    thread_sleeps_ = false;
    return attended_ != nullptr && attended_->lock().entries() == seen;
}

// ------------------------------------------------------------------------------------------------------ the caller ---

void WorldRank::start(std::function<void(WorldRank&)> body, std::uint64_t after_ns) {
    body_ = std::move(body);
    caller_ = &world_.clockwork().add_actor(rank_, [this, after_ns] {
        if (after_ns > 0) world_.clockwork().wait(*caller_, world_.clockwork().now_ns() + after_ns, false);
        run_caller();
    });
}

void WorldRank::run_caller() {
    body_(*this);
    World::forget_last_error();
    std::vector<pollfd>().swap(descriptors_);
    leaked_ = world_.clockwork().memory(rank_).blocks() - graves_;
    over_ = true;
}

void WorldRank::enter() {
    let_round_end();
    pauses_ = 0;
}

void WorldRank::leave() {
    if (thread_ != nullptr) world_.clockwork().wake(*thread_, world_.fate().react_ns);
}

void WorldRank::stay_away(std::uint64_t ns) {
    world_.clockwork().wait(*caller_, world_.clockwork().now_ns() + ns, false);
}

coppice_status_t WorldRank::make_context(engine::SettingTexts texts, coppice_context_t** context) {
    world_.forget_thread();
    auto made = engine::Context::create(std::move(texts), false, this);
    if (!made) return api::remember(std::move(made.error()));
    *context = new coppice_context{std::move(*made)};
    return COPPICE_OK;
}

int WorldRank::exchange(void* self, const void* mine, std::size_t bytes, void* all) {
    auto& rank = *static_cast<WorldRank*>(self);
    Clockwork& clockwork = rank.world_.clockwork();
    clockwork.act(rank.rank_);
    const World::Exchange& exchange = rank.world_.join_exchange(rank.exchanges_++, rank.rank_, mine, bytes);
    while (!exchange.complete)
        clockwork.wait(*rank.caller_, kNever, true);
    clockwork.wait(*rank.caller_, clockwork.now_ns() + clockwork.draw(clockwork.fate().connect_ns), false);
    std::memcpy(all, exchange.all.data(), exchange.all.size());
    return 0;
}

}  // namespace coppice::world
