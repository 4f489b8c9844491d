#include "engine/addresses/copying.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/mix.hpp"
#include "engine/wiring.hpp"

namespace coppice::engine {
namespace {

// Letters of a set carry a token that none of its groups has.
constexpr std::uint32_t kTokenOfLetters = 0x61646472;
// An answer takes a round trip; one that brings nothing new says that the others have no more either, yet.
constexpr std::uint64_t kFirstPauseNs = 10'000'000;
constexpr std::uint64_t kLongestPauseNs = 320'000'000;
// While something waits for room.
constexpr std::uint64_t kLookAgainNs = 1'000'000;
// Of letters that have arrived, or wait for room: what is beyond is asked for again.
constexpr std::size_t kMostLetters = 4096;
// Of an answer; and the bits of a question.
constexpr std::size_t kMostPages = 16;
constexpr std::size_t kMostBytes = transport::kMaxPayload;
// Until a rank is given up of which nobody knows.
constexpr std::uint64_t kHopelessNs = 200'000'000;

Rank rank_of(Seat seat) {
    return Rank(seat.value);  // as in the set's first group
}

}  // namespace

Copying::Copying(Seats& seats, const Settings& settings, topology::Acquaintance acquaintance, std::string own_host,
                 Seat self, std::uint32_t token, std::span<const std::byte> own, const Clock& clock)
    : seats_(seats),
      settings_(settings),
      acquaintance_(std::move(acquaintance)),
      own_host_(std::move(own_host)),
      self_(self),
      token_(token ^ kTokenOfLetters),
      own_(own.begin(), own.end()),
      clock_(clock),
      book_(acquaintance_.nodes().ranks(), self, own),
      pause_ns_(kFirstPauseNs),
      turn_(mix(self.value) >> 32) {
    for (const Rank rank : acquaintance_.mutual(rank_of(self)))
        neighbours_.emplace_back(rank.value);
}

void Copying::know(Seat seat, std::span<const std::byte> addresses, bool is_of_host) {
    book_.note(seat, addresses);
    wired_.push_back(seat);
    if (!is_of_host && !std::ranges::binary_search(neighbours_, seat)) strangers_.push_back(seat);
    ++(is_of_host ? counts_.of_host : counts_.fetched);
}

// Called from within foreign code, too: nothing may be thrown through it. Its caller tries again.
void Copying::want(Seat seat, bool watches) try {
    const auto found = std::ranges::find(wishes_, seat, &Wish::seat);
    if (found != wishes_.end()) {
        found->watches = found->watches || watches;
        return;
    }
    const std::uint64_t now = clock_.now_ns();
    wishes_.push_back({.seat = seat, .watches = watches, .since_ns = now});
    if (pause_ns_ == kFirstPauseNs) return;
    pause_ns_ = kFirstPauseNs;
    ask_again_ns_ = now;
} catch (const std::bad_alloc&) {
}

bool Copying::awaits(Seat seat) const {
    const auto found = std::ranges::find(wishes_, seat, &Wish::seat);
    return found != wishes_.end() && clock_.now_ns() - found->since_ns < kPatienceNs;
}

bool Copying::is_of_use(Seat seat) const {
    return seats_.is_wired(seat) && !seats_.is_over(seat);
}

std::uint64_t Copying::next_timer_ns() const {
    if (!is_busy()) return UINT64_MAX;
    const bool waits_for_room = std::ranges::any_of(to_send_, [](const auto& one) { return !one->is_taken; });
    const bool is_known = std::ranges::any_of(wishes_, [this](const Wish& one) { return !book_.lacks(one.seat); });
    const bool has_work = waits_for_room || is_known || !arrived_.empty() || (book_.is_complete() && !has_told_);
    const std::uint64_t look = has_work ? clock_.now_ns() + kLookAgainNs : UINT64_MAX;
    return book_.is_complete() ? look : std::min(look, ask_again_ns_);
}

std::size_t Copying::poll() {
    std::size_t events = 0;
    std::vector<Letter> arrived;
    arrived.swap(arrived_);
    for (const Letter& letter : arrived) {
        read(letter);
        ++events;
    }
    for (const auto& one : to_send_)
        send(*one);
    std::erase_if(to_send_, [](const auto& one) { return one->is_taken && one->in_flight == 0; });
    if (!wishes_.empty()) events += wire_the_wanted();
    std::vector<Seat> strangers;
    strangers.swap(strangers_);
    for (const Seat seat : strangers)
        if (is_of_use(seat)) introduce(seat);
    if (has_told_) return events;
    if (!book_.is_complete()) {
        const std::uint64_t now = clock_.now_ns();
        if (now < ask_again_ns_) return events;
        note_ends();
        if (!book_.is_complete()) ask(now);
        if (std::ranges::any_of(wishes_, [&](const Wish& one) { return is_in_vain(one, now); }))
            give_up_the_unreachable(now);
        ++events;
    }
    if (book_.is_complete()) tell_neighbours();
    return events;
}

// ------------------------------------------------------------------------------------------------------ asking ---

void Copying::note_ends() {
    for (const Seat seat : book_.lacking())
        if (seats_.is_over(seat)) book_.note_end(seat);
}

// Those with which there is a way already; where all of them have ended, others whose addresses are known.
std::vector<Seat> Copying::those_to_ask() {
    std::vector<Seat> some;
    for (const Seat seat : wired_)
        if (is_of_use(seat)) some.push_back(seat);
    for (std::uint32_t s = 0; some.empty() && s < acquaintance_.nodes().ranks(); ++s)
        if (Seat(s) != self_ && !seats_.is_over(Seat(s)) && wire(Seat(s))) some.emplace_back(s);
    return some;
}

void Copying::ask(std::uint64_t now_ns) {
    ask_again_ns_ = now_ns + pause_ns_;
    if (wishes_.empty()) pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
    ++in_vain_;
    const std::vector<Seat> some = those_to_ask();
    if (some.empty()) return;
    AddressBook::Wanted wanted = book_.wanted(kMostBytes);
    ++counts_.asked;
    has_news_ = false;
    write(some[turn_++ % some.size()], {.kind = AddressesKind::wanted,
                                        .from = self_,
                                        .number = wanted.first.value,
                                        .content = std::move(wanted.seats)});
}

bool Copying::is_in_vain(const Wish& wish, std::uint64_t now_ns) const {
    return in_vain_ > 2 * wired_.size() && now_ns - wish.since_ns > kHopelessNs;
}

// Those that only ranks had from the start which have ended, or can't be reached themselves for the same reason; and they have not
// introduced themselves to others.
void Copying::give_up_the_unreachable(std::uint64_t now_ns) {
    std::vector<Seat> hopeless = book_.lacking();
    const auto may_tell = [&](Rank rank) {
        const Seat seat(rank.value);
        return seat != self_ && !seats_.is_over(seat) && !std::ranges::binary_search(hopeless, seat);
    };
    const auto has_hope = [&](Seat seat) { return std::ranges::any_of(acquaintance_.mutual(rank_of(seat)), may_tell); };
    for (auto one = hopeless.begin(); one != hopeless.end();)
        one = has_hope(*one) ? (hopeless.erase(one), hopeless.begin()) : one + 1;
    const std::vector<Wish> wishes = wishes_;
    for (const Wish& wish : wishes)
        if (is_in_vain(wish, now_ns) && std::ranges::binary_search(hopeless, wish.seat))
            seats_.take_for_dead(wish.seat);
}

// ------------------------------------------------------------------------------------------------------- wiring ---

std::size_t Copying::wire_the_wanted() {
    std::vector<Wish> wishes;
    wishes.swap(wishes_);
    std::size_t wired = 0;
    std::vector<Wish> unfulfilled;
    for (const Wish& wish : wishes) {
        if (seats_.is_over(wish.seat)) continue;
        if (!seats_.is_wired(wish.seat) && book_.find(wish.seat) == nullptr) {
            // Others have seen its end, and tell no address: nothing would ever answer.
            if (book_.lacks(wish.seat))
                unfulfilled.push_back(wish);
            else
                seats_.take_for_dead(wish.seat);
            continue;
        }
        if (!seats_.is_wired(wish.seat) && !wire(wish.seat)) continue;
        if (wish.watches) seats_.to(wish.seat)->watch(wish.seat);
        ++wired;
    }
    // An end that was noticed just now may have made others wanted.
    wishes_.insert(wishes_.end(), unfulfilled.begin(), unfulfilled.end());
    return wired;
}

// Introduces itself there, so that the other one can answer.
bool Copying::wire(Seat seat) {
    const std::vector<std::byte>* const addresses = book_.find(seat);
    if (addresses == nullptr) return false;
    auto wired = wire_peer(seats_, settings_, own_host_, seat, {.host = "", .addresses = *addresses});
    if (!wired) {
        // One without a way to it is dead to this rank.
        if (wired.error().status != COPPICE_ERR_PEER_FAILED) ++counts_.garbage;
        seats_.note_end(seat);
        return false;
    }
    wired_.push_back(seat);
    introduce(seat);
    return true;
}

void Copying::introduce(Seat seat) {
    write(seat, {.kind = AddressesKind::introduction, .from = self_, .content = own_});
}

// ------------------------------------------------------------------------------------------------------ leaving ---

void Copying::tell_neighbours() {
    has_told_ = true;
    for (const Seat seat : neighbours_)
        if (is_of_use(seat)) write(seat, {.kind = AddressesKind::complete, .from = self_, .content = {}});
}

std::optional<Seat> Copying::holder() const {
    if (!book_.is_complete()) return self_;
    for (const Seat seat : neighbours_)
        if (is_of_use(seat) && std::ranges::find(complete_, seat) == complete_.end()) return seat;
    return std::nullopt;
}

bool Copying::may_leave() {
    if (!holder()) return true;
    const std::uint64_t now = clock_.now_ns();
    if (leaves_since_ns_ == 0) leaves_since_ns_ = now;
    return now - leaves_since_ns_ > kLeavingPatienceNs;
}

// ------------------------------------------------------------------------------------------------------ letters ---

bool Copying::take(std::span<const std::byte> header, std::span<const std::byte> payload) try {
    auto letter = Letter::read(header, payload, token_, acquaintance_.nodes().ranks());
    if (!letter) return false;
    if (arrived_.size() < kMostLetters) arrived_.push_back(std::move(*letter));
    return true;
} catch (const std::bad_alloc&) {
    return true;  // it is written again
}

void Copying::read(const Letter& letter) {
    if (letter.from == self_) return;
    switch (letter.kind) {
        case AddressesKind::wanted:
            return answer(letter);
        case AddressesKind::page:
            return copy(letter);
        case AddressesKind::introduction:
            book_.note(letter.from, letter.content);
            if (!seats_.is_wired(letter.from) && !seats_.is_over(letter.from)) want(letter.from);
            return;
        case AddressesKind::complete:
            if (std::ranges::find(complete_, letter.from) == complete_.end()) complete_.push_back(letter.from);
            return;
    }
}

void Copying::answer(const Letter& question) {
    if (question.number >= acquaintance_.nodes().ranks()) {
        ++counts_.garbage;
        return;
    }
    if (!is_of_use(question.from) && (seats_.is_over(question.from) || !wire(question.from))) return;
    note_ends();
    auto pages = book_.pages(Seat(question.number), question.content, kMostBytes, kMostPages);
    if (pages.empty()) pages.emplace_back();
    for (std::size_t i = 0; i < pages.size(); ++i)
        write(question.from, {.kind = AddressesKind::page,
                              .from = self_,
                              .number = static_cast<std::uint32_t>(pages.size() - 1 - i),
                              .content = std::move(pages[i])});
}

void Copying::copy(const Letter& letter) {
    const auto entries = AddressBook::read(letter.content, acquaintance_.nodes().ranks());
    if (!entries) {
        ++counts_.garbage;
        return;
    }
    for (const AddressBook::Entry& entry : *entries) {
        if (!book_.lacks(entry.seat)) {
            book_.note(entry.seat, entry.addresses);  // one that has ended for others
            continue;
        }
        has_news_ = true;
        if (entry.addresses.empty()) {
            book_.note_end(entry.seat);
            continue;
        }
        book_.note(entry.seat, entry.addresses);
        ++counts_.copied;
    }
    if (letter.number > 0 || !has_news_) return;
    in_vain_ = 0;
    pause_ns_ = kFirstPauseNs;
    ask_again_ns_ = 0;
}

void Copying::send(Sending& sending) {
    if (sending.is_taken) return;
    transport::Transport* const wire = is_of_use(sending.to) ? seats_.to(sending.to) : nullptr;
    sending.is_taken = wire == nullptr || wire->send(sending.to, sending.letter.header(token_), sending.letter.content,
                                                     &sending.in_flight) != transport::SendStatus::again;
}

void Copying::write(Seat to, Letter&& letter) {
    auto sending = std::make_unique<Sending>();
    sending->to = to;
    sending->letter = std::move(letter);
    send(*sending);
    const bool is_done = sending->is_taken && sending->in_flight == 0;
    if (!is_done && (sending->is_taken || to_send_.size() < kMostLetters)) to_send_.push_back(std::move(sending));
}

}  // namespace coppice::engine
