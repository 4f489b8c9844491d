#include "protocol/membership/codec.hpp"

#include <bit>
#include <cstring>

namespace coppice::protocol {
namespace {

static_assert(std::endian::native == std::endian::little);

enum Flag : std::uint8_t { kProposal = 1, kLatest = 2, kMade = 4, kAllFlags = 7 };

void write(std::uint32_t number, std::vector<std::byte>& out) {
    const auto bytes = std::as_bytes(std::span(&number, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
}

void write(const Change& change, std::vector<std::byte>& out) {
    write(change.offer, out);
    write_failed(change.gone, out);
    write_failed(change.left, out);
}

class Reader {
  public:
    Reader(std::span<const std::byte> bytes, std::uint32_t ranks) : bytes_(bytes), ranks_(ranks) {}

    bool read(std::uint32_t& number) {
        if (bytes_.size() < sizeof number) return false;
        std::memcpy(&number, bytes_.data(), sizeof number);
        bytes_ = bytes_.subspan(sizeof number);
        return true;
    }
    bool read(FailedSet& set) { return read_failed(bytes_, ranks_, set); }
    bool read(Change& change) { return read(change.offer) && read(change.gone) && read(change.left); }
    bool read(std::optional<Change>& change, bool is_there) { return !is_there || read(change.emplace()); }
    bool read(Consent& consent) { return read(consent.change) && read(consent.members); }
    bool is_at_end() const { return bytes_.empty(); }

  private:
    std::span<const std::byte> bytes_;
    std::uint32_t ranks_;
};

}  // namespace

void write_membership(const MembershipMessage& message, std::vector<std::byte>& out) {
    const int flags = (message.proposal ? kProposal : 0) | (message.latest ? kLatest : 0) | (message.made ? kMade : 0);
    write(static_cast<std::uint32_t>(flags), out);
    for (const std::uint32_t number : {message.epoch, message.root, message.failures.followed, message.offer})
        write(number, out);
    write_failed(message.failures.suspected, out);
    write_failed(message.failures.certain, out);
    write_failed(message.leaves, out);
    if (message.proposal) write(*message.proposal, out);
    if (message.latest) {
        write(message.latest->root, out);
        write(message.latest->change, out);
    }
    if (message.made) write(*message.made, out);
    write(static_cast<std::uint32_t>(message.consents.size()), out);
    for (const Consent& one : message.consents) {
        write(one.change, out);
        write_failed(one.members, out);
    }
}

bool read_membership(std::span<const std::byte> bytes, std::uint32_t ranks, MembershipMessage& message) {
    Reader reader(bytes, ranks);
    std::uint32_t flags = 0;
    if (!reader.read(flags) || flags > kAllFlags) return false;
    if (!reader.read(message.epoch) || !reader.read(message.root) || !reader.read(message.failures.followed))
        return false;
    if (!reader.read(message.offer)) return false;
    if (!reader.read(message.failures.suspected) || !reader.read(message.failures.certain)) return false;
    if (!reader.read(message.leaves)) return false;
    if (message.root >= ranks || message.failures.followed > ranks) return false;
    if (!reader.read(message.proposal, (flags & kProposal) != 0)) return false;
    if ((flags & kLatest) != 0) {
        Vote& latest = message.latest.emplace();
        if (!reader.read(latest.root) || latest.root >= ranks || !reader.read(latest.change)) return false;
    }
    if (!reader.read(message.made, (flags & kMade) != 0)) return false;
    std::uint32_t count = 0;
    if (!reader.read(count) || count > kMostConsents) return false;
    message.consents.resize(count);
    for (Consent& one : message.consents)
        if (!reader.read(one)) return false;
    return reader.is_at_end();
}

void write_last_vote(const LastVote& vote, std::vector<std::byte>& out) {
    const int flags = (vote.latest ? kLatest : 0) | (vote.consent ? kProposal : 0);
    for (const std::uint32_t number : {static_cast<std::uint32_t>(flags), vote.epoch, vote.followed})
        write(number, out);
    write(vote.made, out);
    if (vote.latest) {
        write(vote.latest->root, out);
        write(vote.latest->change, out);
    }
    if (vote.consent) write(*vote.consent, out);
}

std::optional<LastVote> read_last_vote(std::span<const std::byte> bytes, std::uint32_t ranks) {
    Reader reader(bytes, ranks);
    LastVote vote;
    std::uint32_t flags = 0;
    if (!reader.read(flags) || (flags & ~std::uint32_t{kLatest | kProposal}) != 0) return std::nullopt;
    if (!reader.read(vote.epoch) || !reader.read(vote.followed) || vote.followed > ranks) return std::nullopt;
    if (!reader.read(vote.made)) return std::nullopt;
    if ((flags & kLatest) != 0) {
        Vote& latest = vote.latest.emplace();
        if (!reader.read(latest.root) || latest.root >= ranks || !reader.read(latest.change)) return std::nullopt;
    }
    if (!reader.read(vote.consent, (flags & kProposal) != 0) || !reader.is_at_end()) return std::nullopt;
    return vote;
}

}  // namespace coppice::protocol
