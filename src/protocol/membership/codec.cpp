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

void write(const Offer& offer, std::vector<std::byte>& out) {
    const std::uint64_t terms = offer.terms.word();
    for (const std::uint64_t number : {std::uint64_t{offer.bits}, terms & UINT32_MAX, terms >> 32})
        write(static_cast<std::uint32_t>(number), out);
}

void write(const Change& change, std::vector<std::byte>& out) {
    write(change.offer, out);
    write_failed(change.gone, out);
    write_failed(change.left, out);
    write(static_cast<std::uint32_t>(change.joined.size()), out);
    for (const Occupant& one : change.joined) {
        for (const std::uint32_t number : {one.seat.value, one.incarnation, one.process.value})
            write(number, out);
    }
}

class Reader {
  public:
    Reader(std::span<const std::byte> bytes, std::uint32_t seats) : bytes_(bytes), seats_(seats) {}

    bool read(std::uint32_t& number) {
        if (bytes_.size() < sizeof number) return false;
        std::memcpy(&number, bytes_.data(), sizeof number);
        bytes_ = bytes_.subspan(sizeof number);
        return true;
    }
    bool read(Offer& offer) {
        std::uint32_t low = 0;
        std::uint32_t high = 0;
        if (!read(offer.bits) || !read(low) || !read(high)) return false;
        const auto terms = Terms::of_word(std::uint64_t{high} << 32 | low);
        if (terms) offer.terms = *terms;
        return terms.has_value();
    }
    bool read(FailedSet& set) { return read_failed(bytes_, seats_, set); }
    bool read(Change& change) {
        std::uint32_t count = 0;
        if (!read(change.offer) || !read(change.gone) || !read(change.left) || !read(count)) return false;
        if (count > seats_ || count > bytes_.size() / sizeof(Occupant)) return false;
        change.joined.resize(count);
        std::uint32_t next = 0;  // ascending
        for (Occupant& one : change.joined) {
            if (!read(one.seat.value) || !read(one.incarnation) || !read(one.process.value)) return false;
            if (one.seat.value < next || one.seat.value >= seats_) return false;
            if (one.process.value < seats_) return false;  // such are members, and no newcomers
            next = one.seat.value + 1;
        }
        return true;
    }
    bool read(std::optional<Change>& change, bool is_there) { return !is_there || read(change.emplace()); }
    bool read(Consent& consent) {
        return read(consent.change) && consent.change.joined.empty() && read(consent.members);
    }
    bool is_at_end() const { return bytes_.empty(); }

  private:
    std::span<const std::byte> bytes_;
    std::uint32_t seats_;
};

}  // namespace

void write_membership(const MembershipMessage& message, std::vector<std::byte>& out) {
    const int flags = (message.proposal ? kProposal : 0) | (message.latest ? kLatest : 0) | (message.made ? kMade : 0);
    write(static_cast<std::uint32_t>(flags), out);
    for (const std::uint32_t number : {message.epoch, message.root, message.failures.followed})
        write(number, out);
    write(message.offer, out);
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

bool read_membership(std::span<const std::byte> bytes, std::uint32_t seats, MembershipMessage& message) {
    Reader reader(bytes, seats);
    std::uint32_t flags = 0;
    if (!reader.read(flags) || flags > kAllFlags) return false;
    if (!reader.read(message.epoch) || !reader.read(message.root) || !reader.read(message.failures.followed))
        return false;
    if (!reader.read(message.offer)) return false;
    if (!reader.read(message.failures.suspected) || !reader.read(message.failures.certain)) return false;
    if (!reader.read(message.leaves)) return false;
    if (message.root >= seats || message.failures.followed > seats) return false;
    if (!reader.read(message.proposal, (flags & kProposal) != 0)) return false;
    if ((flags & kLatest) != 0) {
        Vote& latest = message.latest.emplace();
        if (!reader.read(latest.root) || latest.root >= seats || !reader.read(latest.change)) return false;
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

std::optional<LastVote> read_last_vote(std::span<const std::byte> bytes, std::uint32_t seats) {
    Reader reader(bytes, seats);
    LastVote vote;
    std::uint32_t flags = 0;
    if (!reader.read(flags) || (flags & ~std::uint32_t{kLatest | kProposal}) != 0) return std::nullopt;
    if (!reader.read(vote.epoch) || !reader.read(vote.followed) || vote.followed > seats) return std::nullopt;
    if (!reader.read(vote.made)) return std::nullopt;
    if ((flags & kLatest) != 0) {
        Vote& latest = vote.latest.emplace();
        if (!reader.read(latest.root) || latest.root >= seats || !reader.read(latest.change)) return std::nullopt;
    }
    if (!reader.read(vote.consent, (flags & kProposal) != 0) || !reader.is_at_end()) return std::nullopt;
    if (vote.consent && !vote.consent->joined.empty()) return std::nullopt;
    return vote;
}

}  // namespace coppice::protocol
