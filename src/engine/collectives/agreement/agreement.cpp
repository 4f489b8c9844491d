#include "engine/collectives/agreement/agreement.hpp"

namespace coppice::engine {
namespace {

// Where all ranks publish.
transport::Board* board_of(const Core& core) {
    const bool all_publish = core.members().single_node() && core.local_peers().publishing();
    return all_publish ? core.local_peers().board() : nullptr;
}

}  // namespace

Agreement::Agreement(Core& core)
    : core_(core),
      around_(core.around()),
      life_(core.life()),
      membership_(core.membership()),
      news_(core.news()),
      agreements_(core.members(), around_.router(), board_of(core), around_.id(),
                  {.window = around_.settings().agreement_window,
                   .tree = around_.settings().agreement_tree,
                   .rebalance = around_.settings().agreement_rebalance}) {}

Result<void> Agreement::start(const AgreementCall& call, Request& request) {
    if (auto takes_part = core_.look_before_start(); !takes_part) return takes_part;
    if (auto started = agreements_.start(call, request); !started) return started;
    request.collective = this;
    entered_->set(agreements_.started());
    return {};
}

void Agreement::note_agreed(const Request& request) {
    if (request.agreed && request.agreed != last_agreed_) last_agreed_ = request.agreed;
    change_waits_ = request.change_waits;
}

void Agreement::acknowledge_failures() {
    protocol::FailedSet all;
    for (const Rank rank : core_.members().failed_ranks())
        all.insert(rank.value);
    agreements_.acknowledge(all);
}

Result<void> Agreement::acknowledge_failures(std::span<const std::uint32_t> ranks) {
    const Members& members = core_.members();
    protocol::FailedSet some;
    for (const std::uint32_t rank : ranks) {
        if (rank >= members.ranks()) {
            return fail(COPPICE_ERR_OUT_OF_RANGE, "rank {} is outside of 0…{}", rank, members.ranks() - 1);
        }
        if (!members.failed(Rank(rank))) {
            return fail(COPPICE_ERR_INVALID_ARGUMENT, "rank {} has not failed, as far as this rank knows", rank);
        }
        some.insert(rank);
    }
    agreements_.acknowledge(some);
    return {};
}

bool Agreement::message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                        transport::Buffer /*buffer*/) {
    agreements_.allow_callbacks(around_.may_call_back());
    if (!agreements_.message(from, header, payload)) news_.note_garbage();
    if (agreements_.fenced()) life_.be_fenced();
    membership_.learn_from(agreements_.failed());
    return false;
}

void Agreement::members_failed(const protocol::FailedSet& news) {
    if (!life_.revoked()) agreements_.peers_failed(news);
}

void Agreement::member_failed(const Death& death) {
    if (!life_.revoked()) agreements_.peer_failed(death.rank);
}

// All that it began has been decided: it is not needed for anything but its end.
void Agreement::member_left(Rank rank) {
    if (!life_.revoked()) agreements_.peer_failed(rank);
}

void Agreement::progress(bool thorough) {
    if (life_.revoked()) return;
    agreements_.allow_callbacks(around_.may_call_back());
    agreements_.progress(thorough);
    if (agreements_.fenced()) life_.be_fenced();
}

// A rank that has left in peace knew that all is decided.
bool Agreement::drained() {
    const bool over = agreements_.drained(flushes_in_any_case_);
    return over || life_.is_settled_by_departure();
}

std::string Agreement::leaving_waits_for() const {
    if (agreements_.ended_below() >= agreements_.started()) return {};
    return agreements_.window_holder();
}

}  // namespace coppice::engine
