// Revoked, a group takes part in nothing any more: nobody waits for anything else of it, at any rank.
#include "engine/collectives/revocation/revocation.hpp"

#include <fmt/format.h>

namespace coppice::engine {
namespace {

// For ranks that are in no call of the library: the news waits for them, unless they hear first that this rank is gone.
constexpr Nanoseconds kLeavePatience{500'000'000};

constexpr std::string_view kRegion = "revocation";  // one word

}  // namespace

transport::Region Revocation::host_region() {
    return {.name = kRegion, .bytes = sizeof(shared::Published<std::uint64_t>)};
}

Revocation::Revocation(Core& core)
    : around_(core.around()),
      local_peers_(core.local_peers()),
      controls_(core.controls()),
      subscribers_(core.subscribers()),
      life_(core.life()),
      news_(core.news()),
      members_(core.members()),
      board_(core.local_peers().board()),
      region_(board_ == nullptr ? transport::Regions::Place{} : board_->find_region(kRegion)),
      publishing_(core.local_peers().publishing()),
      machine_({.nodes = &members_.nodes_table(), .shares_memory = publishing_, .patience = kLeavePatience},
               members_.self()) {
    if (!publishing_) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node()))
        if (const std::byte* const its = board_->region(local_peer, region_))
            said_on_host_.push_back(&shared::at<Word>(its));
}

void Revocation::begin() {
    if (life_.fenced()) return;
    machine_.revoke();
    heed();
}

// What the machine has come to know: in the host's memory first, which outlives this rank, then to the callers here, then to others.
void Revocation::heed() {
    if (!machine_.revoked() || (!known_ && life_.fenced())) return;
    if (publishing_ && said_ != machine_.word()) say_to_host(machine_.word());
    if (!known_) {
        known_ = true;
        life_.note_revoked();
        const auto reason = subscribers_.reason_to_revoke();
        subscribers_.end_all(reason->status, reason->message);
    }
    while (const auto send = machine_.next_send()) {
        const bool answers = send->kind == protocol::RevocationKind::answer;
        const RevocationKind kind = answers ? RevocationKind::known : RevocationKind::revoked;
        controls_.send(send->to, {Channel::revocation, kind}, 0, send->revoker.value);
    }
}

bool Revocation::message(Rank from, const WireHeader& header, std::span<const std::byte> /*payload*/,
                         transport::Buffer /*buffer*/) {
    const bool answers = header.tag.kind == static_cast<std::uint8_t>(RevocationKind::known);
    const bool taken =
        machine_.receive({.kind = answers ? protocol::RevocationKind::answer : protocol::RevocationKind::news,
                          .from = from,
                          .to = members_.self(),
                          .revoker = Rank(header.detail)});
    if (!taken) news_.note_garbage();
    heed();
    return false;
}

// What the ranks of this host, dead or alive, have said.
void Revocation::hear_last_words() {
    if (!publishing_ || known_ || life_.fenced()) return;
    for (const Word* const word : said_on_host_)
        if (const std::uint64_t said = word->read(); said != 0) machine_.read(said);
    heed();
}

void Revocation::say_to_host(std::uint64_t word) {
    said_ = word;
    board_->publish_word(shared::at<Word>(board_->own_region(region_)), word);
    local_peers_.wake();
}

std::uint64_t Revocation::said_to_host(Rank rank) const {
    const std::byte* const its = board_->region(rank, region_);
    return its == nullptr ? 0 : shared::at<Word>(its).read();
}

void Revocation::member_failed(const Death& death) {
    machine_.peer_failed(death.rank);
    heed();
}

void Revocation::member_left(Rank rank) {
    machine_.peer_left(rank);
    heed();
}

void Revocation::keep_house() {
    if (!known_) return;
    machine_.settle(!controls_.wait());
    heed();
}

bool Revocation::drained() {
    if (!known_) return true;
    const std::uint64_t leader_word = publishing_ ? said_to_host(Rank(machine_.leader())) : 0;
    return machine_.may_leave(Nanoseconds(around_.now_ns()), !controls_.wait(), leader_word);
}

std::string Revocation::leaving_waits_for() const {
    if (!known_) return {};
    const auto rank = machine_.waits_for();
    if (!rank) return "this rank's news of the revocation have not left yet";
    return fmt::format("rank {} has not answered yet that it knows of the revocation", rank->value);
}

std::optional<Error> Revocation::reason_to_revoke() {
    if (!known_) return std::nullopt;
    return Error{
        COPPICE_ERR_REVOKED,
        fmt::format("rank {} has revoked the group: it can be shrunk or destroyed, no more", machine_.revoker().value)};
}

}  // namespace coppice::engine
