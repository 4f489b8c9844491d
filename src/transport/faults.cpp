#include "transport/faults.hpp"

#include <signal.h>

#include <algorithm>
#include <charconv>

namespace coppice::transport {

namespace {

// Digits only, all of them.
std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return value;
}

std::optional<Seat> rank_number(std::string_view text) {
    const auto value = number(text);
    if (!value || *value >= kMaxProcesses) return std::nullopt;
    return Seat{static_cast<std::uint32_t>(*value)};
}

// "a:b:c" → "a", leaving "b:c".
std::string_view cut(std::string_view& text, char at) {
    const std::size_t end = text.find(at);
    const std::string_view first = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    return first;
}

// Adds one fault to the plan; false when it does not parse.
bool add_fault(std::string_view text, FaultPlan& plan) {
    const std::string_view name = cut(text, ':');
    if (name == "kill-before" || name == "kill-after" || name == "kill-at-chunk" || name == "kill-at-fill") {
        const auto at = number(text);
        if (!at || *at == 0) return false;
        if (name == "kill-before") plan.kill_before = *at;
        if (name == "kill-after") plan.kill_after = *at;
        if (name == "kill-at-chunk") plan.kill_at_chunk = *at;
        if (name == "kill-at-fill") plan.kill_at_fill = *at;
        return true;
    }
    if (name == "delay") {
        const auto from = rank_number(cut(text, ':'));
        const auto polls = number(text);
        if (!from || !polls) return false;
        plan.delays.push_back({*from, *polls});
        return true;
    }
    if (name == "hold") {
        const auto peer = rank_number(text);
        if (!peer) return false;
        plan.held.push_back(*peer);
        return true;
    }
    if (name == "damage") {
        const auto at = number(text);
        if (!at || *at == 0) return false;
        plan.damaged.push_back(*at);
        return true;
    }
    if (name == "suspect") {
        const auto of = rank_number(cut(text, ':'));
        const auto at = number(text);
        if (!of || !at || *at == 0) return false;
        plan.suspicions.push_back({*of, *at});
        return true;
    }
    return false;
}

[[noreturn]] void die() {
    while (true)
        raise(SIGKILL);
}

}  // namespace

Result<FaultPlan> parse_faults(std::string_view text, Seat self) {
    FaultPlan plan;
    bool more = !text.empty();
    while (more) {
        more = text.find(',') != std::string_view::npos;
        const std::string_view fault = cut(text, ',');
        const std::size_t at = fault.find('@');
        const std::string_view what = fault.substr(0, at);
        const std::optional<Seat> where = at == std::string_view::npos ? self : rank_number(fault.substr(at + 1));
        FaultPlan of_others;
        if (!where || !add_fault(what, *where == self ? plan : of_others))
            return fail(COPPICE_ERR_CONFIG,
                        "\"{}\" is no fault; known are kill-before:N, kill-after:N, kill-at-chunk:N, kill-at-fill:N, "
                        "delay:RANK:POLLS, hold:RANK, damage:N and suspect:RANK:POLLS, each optionally with @RANK at "
                        "its end, separated by commas",
                        fault);
    }
    return plan;
}

void MessageCount::about_to_send() {
    if (count_ + 1 == before_) die();
}

void MessageCount::sent() {
    if (++count_ == after_) die();
}

void MessageCount::chunks_taken(std::uint32_t more) {
    chunks_ += more;
    if (at_chunk_ > 0 && chunks_ >= at_chunk_) die();
}

void MessageCount::chunks_filled(std::uint32_t more) {
    filled_ += more;
    if (at_fill_ > 0 && filled_ >= at_fill_) die();
}

bool MessageCount::damages_next() const {
    return std::ranges::find(damaged_, large_ + 1) != damaged_.end();
}

// Stands between the inner transport and the receiver while polling.
class FaultyTransport::Catcher final : public Receiver {
  public:
    Catcher(FaultyTransport& owner, Receiver& receiver) : owner_(owner), receiver_(receiver) {}

    bool message(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload,
                 Buffer buffer) override {
        Link* const link = owner_.link(from);
        if (link == nullptr || (!link->held && link->delay == 0 && link->in.empty())) {
            ++events_;
            return receiver_.message(from, header, payload, buffer);
        }
        link->in.push_back({{header.begin(), header.end()},
                            {payload.begin(), payload.end()},
                            owner_.polls_ + link->delay,
                            std::nullopt,
                            false});
        return false;
    }

    // What is held back or delayed has to be kept.
    std::byte* place(Seat from, std::span<const std::byte> header, std::size_t bytes, std::size_t here) override {
        const Link* const link = owner_.link(from);
        const bool is_passed_on = link == nullptr || (!link->held && link->delay == 0 && link->in.empty());
        return is_passed_on ? receiver_.place(from, header, bytes, here) : nullptr;
    }

    void peer_failed(Seat peer, FailureCause cause) override {
        Link* const link = owner_.link(peer);
        if (link == nullptr || (!link->held && link->in.empty())) {
            ++events_;
            receiver_.peer_failed(peer, cause);
            return;
        }
        link->in.push_back({{}, {}, owner_.polls_ + link->delay, cause, false});
    }

    void peer_left(Seat peer) override {
        Link* const link = owner_.link(peer);
        if (link == nullptr || (!link->held && link->in.empty())) {
            ++events_;
            receiver_.peer_left(peer);
            return;
        }
        link->in.push_back({{}, {}, owner_.polls_ + link->delay, std::nullopt, true});
    }

    // What has been held back is older, but this rank can't be less fenced for it.
    void fenced(Seat by) override {
        const Link* const link = owner_.link(by);
        if (link != nullptr && link->held) return;
        ++events_;
        receiver_.fenced(by);
    }
    void alive(Seat peer) override { receiver_.alive(peer); }

    std::size_t events() const { return events_; }

  private:
    FaultyTransport& owner_;
    Receiver& receiver_;
    std::size_t events_ = 0;
};

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan,
                                 std::shared_ptr<MessageCount> count)
    : count_(std::move(count)), suspicions_(plan.suspicions), inner_(std::move(inner)) {
    for (const FaultPlan::Delay& delay : plan.delays)
        make_link(delay.from).delay = delay.polls;
    for (const Seat peer : plan.held)
        hold(peer);
}

FaultyTransport::~FaultyTransport() = default;

FaultyTransport::Link* FaultyTransport::link(Seat peer) {
    for (Link& link : links_)
        if (link.peer == peer) return &link;
    return nullptr;
}

FaultyTransport::Link& FaultyTransport::make_link(Seat peer) {
    if (Link* const known = link(peer)) return *known;
    links_.push_back({peer, false, 0, {}, {}});
    return links_.back();
}

void FaultyTransport::hold(Seat peer) {
    make_link(peer).held = true;
}
void FaultyTransport::let_go(Seat peer) {
    make_link(peer).held = false;
}

SendStatus FaultyTransport::forward(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                    std::uint32_t* in_flight, bool is_write) {
    return is_write ? inner_->write(to, header, payload, in_flight) : inner_->send(to, header, payload, in_flight);
}

SendStatus FaultyTransport::pass(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                 std::uint32_t* in_flight, bool is_write) {
    const bool is_large = payload.size() >= kLarge && !capabilities().within_host;
    const bool is_damaged = is_large && count_->damages_next();
    Link* const held = is_damaged ? &make_link(to) : link(to);
    count_->about_to_send();
    SendStatus status = SendStatus::sent;
    // What is damaged is a copy, which leaves with the next poll.
    if (is_damaged || (held != nullptr && (held->held || !held->out.empty()))) {
        if (held->out.size() >= kMaxHeld) return SendStatus::again;
        held->out.push_back({{header.begin(), header.end()}, {payload.begin(), payload.end()}, is_write, false, 0});
        if (is_damaged) held->out.back().payload[payload.size() / 2] ^= std::byte{1};
    } else {
        status = forward(to, header, payload, in_flight, is_write);
    }
    if (status != SendStatus::sent) return status;
    count_->sent();
    if (is_large) count_->large_sent();
    return status;
}

SendStatus FaultyTransport::send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                 std::uint32_t* in_flight) {
    return pass(to, header, payload, in_flight, false);
}

SendStatus FaultyTransport::write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                  std::uint32_t* in_flight) {
    return pass(to, header, payload, in_flight, true);
}

void FaultyTransport::send_held(Link& link) {
    for (Outgoing& next : link.out) {
        if (link.held) break;
        if (next.passed_on) continue;
        if (forward(link.peer, next.header, next.payload, &next.in_flight, next.is_write) == SendStatus::again) break;
        next.passed_on = true;
    }
    while (!link.out.empty() && link.out.front().passed_on && link.out.front().in_flight == 0)
        link.out.pop_front();
}

std::size_t FaultyTransport::deliver_due(Link& link, Receiver& receiver) {
    std::size_t events = 0;
    while (!link.held && !link.in.empty() && link.in.front().due <= polls_) {
        const Incoming next = std::move(link.in.front());
        link.in.pop_front();
        ++events;
        if (next.failure)
            receiver.peer_failed(link.peer, *next.failure);
        else if (next.left)
            receiver.peer_left(link.peer);
        else
            receiver.message(link.peer, next.header, next.payload, 0);
    }
    return events;
}

int FaultyTransport::arm() {
    const bool delayed = std::ranges::any_of(
        links_, [](const Link& link) { return !link.held && (!link.out.empty() || !link.in.empty()); });
    return delayed || !suspicions_.empty() ? -1 : inner_->arm();
}

std::size_t FaultyTransport::poll(Receiver& receiver) {
    ++polls_;
    std::size_t events = 0;
    for (Link& link : links_) {
        send_held(link);
        events += deliver_due(link, receiver);
    }
    Catcher catcher(*this, receiver);
    inner_->poll(catcher);
    for (const FaultPlan::Suspicion& suspicion : suspicions_) {
        if (suspicion.at_poll == polls_) catcher.peer_failed(suspicion.of, FailureCause::transport_error);
    }
    return events + catcher.events();
}

void FaultyTransport::fence(Seat peer) {
    if (Link* const known = link(peer)) {
        known->in.clear();
        std::erase_if(known->out, [](const Outgoing& waiting) { return !waiting.passed_on; });
    }
    inner_->fence(peer);
}

void FaultyTransport::forget(Seat peer) {
    std::erase_if(links_, [&](const Link& known) { return known.peer == peer; });
    inner_->forget(peer);
}

bool FaultyTransport::leave() {
    for (Link& link : links_) {
        send_held(link);
        if (!link.held && !link.out.empty()) return false;
    }
    return inner_->leave();
}

void FaultyBoard::publish(Sequence sequence, std::uint32_t length, std::uint32_t root, std::uint32_t detail) {
    count_->about_to_send();
    inner_.publish(sequence, length, root, detail);
    count_->sent();
}

void FaultyBoard::publish_copy(Sequence sequence, std::span<const std::byte> payload, std::uint32_t root,
                               std::uint32_t detail) {
    count_->about_to_send();
    inner_.publish_copy(sequence, payload, root, detail);
    count_->sent();
}

void FaultyBoard::publish_word(shared::Published<std::uint64_t>& word, std::uint64_t value) {
    count_->about_to_send();
    inner_.publish_word(word, value);
    count_->sent();
}

void FaultyBoard::leave_word(shared::Published<std::uint64_t>& word, std::uint64_t value) {
    count_->about_to_send();
    inner_.leave_word(word, value);
    count_->sent();
}

}  // namespace coppice::transport
