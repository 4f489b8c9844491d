// A member's door: the listener, and the member's own part. The processes that come in are in visitors.cpp.
#include "bootstrap/door/door.hpp"

#include <netinet/in.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "bootstrap/door/doors.hpp"

namespace coppice::bootstrap {
namespace {

// Where nobody answers at all, the wait is twice as long each time, and no longer than this.
constexpr std::uint64_t kLongestBackoffNs = Door::kSecond;
constexpr int kMostRounds = 8;

constexpr DoorAddress::Ip loopback() {
    DoorAddress::Ip ip;
    ip.bytes[0] = 127;
    ip.bytes[3] = 1;
    return ip;
}

// Of IPv6 and IPv4 at once where there is both; else of IPv4.
Result<Handle> listen_at(bool host_only, std::uint16_t& port) {
    std::string why;
    for (const int family : {AF_INET6, AF_INET}) {
        if (host_only && family == AF_INET6) continue;
        Handle socket(
            process::open_own([&] { return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
        sockaddr_storage storage{};
        socklen_t length = sizeof(sockaddr_in6);
        const int off = 0;
        if (family == AF_INET6) {
            reinterpret_cast<sockaddr_in6&>(storage).sin6_family = AF_INET6;
            ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        } else {
            auto& at = reinterpret_cast<sockaddr_in&>(storage);
            at.sin_family = AF_INET;
            at.sin_addr.s_addr = htonl(host_only ? INADDR_LOOPBACK : INADDR_ANY);
            length = sizeof at;
        }
        if (socket.get() >= 0 && ::bind(socket.get(), reinterpret_cast<sockaddr*>(&storage), length) == 0 &&
            ::listen(socket.get(), 1024) == 0 &&
            ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) == 0) {
            port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(storage).sin6_port
                                            : reinterpret_cast<sockaddr_in&>(storage).sin_port);
            return socket;
        }
        why = std::strerror(errno);
    }
    return fail(COPPICE_ERR_NO_RESOURCES, "this rank can't listen for processes that come with a ticket: {}", why);
}

}  // namespace

Door::Door(const Patience& patience) : patience_(patience), next_id_(kFirstVisitor) {}

Door::~Door() {
    // Says that it leaves on purpose; newcomers that wait here ask another member.
    if (client_) client_->post(make_frame(FrameKind::bye, std::string_view{}));
    for (auto& [id, visitor] : visitors_)
        if (visitor.line.is_open() && visitor.kind != Visitor::Kind::leaving) send_away(visitor, FrameKind::again);
}

Result<std::unique_ptr<Door>> Door::open(bool host_only, std::vector<DoorAddress::Ip> ips, const Patience& patience) {
    std::unique_ptr<Door> door(new Door(patience));
    door->poll_ = Handle(process::open_own([] { return ::epoll_create1(EPOLL_CLOEXEC); }));
    door->timer_ =
        Handle(process::open_own([] { return ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); }));
    if (sodium_init() < 0 || door->poll_.get() < 0 || door->timer_.get() < 0)
        return fail(COPPICE_ERR_NO_RESOURCES, "this rank can't watch a door: {} (see `ulimit -n`)",
                    std::strerror(errno));
    door->watch(door->timer_.get(), kTimer);
    if (auto listens = door->listen(host_only, std::move(ips)); !listens)
        return tl::unexpected(std::move(listens.error()));
    return door;
}

Result<std::unique_ptr<Door>> Door::inside(Line line, Welcome welcome, bool host_only,
                                           std::vector<DoorAddress::Ip> ips) {
    auto door = open(host_only, std::move(ips));
    if (!door) return door;
    (*door)->host_ = welcome.host;
    (*door)->ledger_before_ = std::move(welcome.ledger);
    (*door)->client_.emplace(std::move(line));
    (*door)->has_arrived_ = true;
    (*door)->watch((*door)->client_->socket(), kClient);
    (*door)->move_client();  // the invitation may have come right behind the welcome
    return door;
}

Result<void> Door::listen(bool host_only, std::vector<DoorAddress::Ip> ips) {
    auto socket = listen_at(host_only, address_.port);
    if (!socket) return tl::unexpected(std::move(socket.error()));
    listener_ = std::move(*socket);
    if (host_only) ips.clear();
    if (ips.size() >= kMostDoorAddresses) ips.resize(kMostDoorAddresses - 1);
    ips.push_back(loopback());
    address_.ips = std::move(ips);
    watch(listener_.get(), kListener);
    return {};
}

void Door::belong(std::span<const unsigned char> group_secret, const PersonBody& self, std::uint32_t capacity,
                  std::span<const std::byte> group) {
    secret_.assign(group_secret.begin(), group_secret.end());
    self_ = self;
    group_.assign(group.begin(), group.end());
    ledger_.emplace(capacity);
    ledger_->note(self);
    const std::uint64_t wall_ns = wall_clock_ns();
    if (ledger_before_ && !ledger_->merge(*ledger_before_, wall_ns))
        error_ = Error{COPPICE_ERR_BOOTSTRAP, "the member at whose door this process waits remembers what none does"};
    ledger_before_.reset();
    for (const auto& [use, who] : introduced_early_)
        ledger_->note_use(use, who, wall_ns);
    introduced_early_.clear();
    inside_.assign(capacity, 0);
    if (client_) client_->take_formed(capacity);
}

Result<std::vector<std::byte>> Door::invite(std::uint32_t uses, std::uint64_t lifetime_ns,
                                            std::span<const DoorAddress> others) {
    Ticket ticket;
    randombytes_buf(ticket.terms.id.data(), ticket.terms.id.size());
    ticket.terms.uses = uses;
    const std::uint64_t now = wall_clock_ns();
    ticket.terms.expires_ns = lifetime_ns > UINT64_MAX - now ? UINT64_MAX : now + lifetime_ns;
    ticket.key = key_of(secret_, ticket.terms);
    ticket.doors.push_back(address_);
    for (const DoorAddress& one : others)
        if (ticket.doors.size() < kMostDoors) ticket.doors.push_back(one);
    return ticket.bytes();
}

// ------------------------------------------------------------------------------------------------------ the group ---

bool Door::is_keeper() const {
    return company_ && company_->keeper.number == self_.number && company_->keeper.incarnation == self_.incarnation;
}

void Door::attend(const Company& company) {
    company_ = company;
    for (const PersonBody& one : company.members)
        ledger_->note(one);
    if (is_keeper()) {
        if (client_) lose_client();
        if (!hall_ || !hall_->attend(company)) keep();
        tell_those_inside();
        let_guests_in();
        return set_timer();
    }
    if (hall_) give_up_keeping();
    const bool is_there =
        client_ && host_ && host_->number == company.keeper.number && host_->incarnation == company.keeper.incarnation;
    if (client_ && !is_there) lose_client();
    if (!host_ || host_->number != company.keeper.number || host_->incarnation != company.keeper.incarnation)
        backoff_ns_ = kBackoffNs;
    host_ = company.keeper;
    call();
    set_timer();
}

// From now on newcomers wait here. All begin again: those of before have others to know them.
void Door::keep() {
    if (hall_) give_up_keeping();
    hall_.emplace(*company_, self_, *ledger_);
    const std::vector<std::byte> frame = card_frame(group_, card_);
    hall_->hear(self_.number, FrameKind::card, std::span(frame).subspan(sizeof(FrameHeader)), wall_clock_ns());
    events_.push_back({.kind = Event::Kind::over});
}

void Door::give_up_keeping() {
    hall_.reset();
    std::ranges::fill(inside_, 0);
    for (auto& [id, visitor] : visitors_) {
        const bool may_wait = visitor.kind == Visitor::Kind::guest && is_keeper();
        const bool has_proved = visitor.kind != Visitor::Kind::stranger && visitor.kind != Visitor::Kind::leaving;
        if (has_proved && !may_wait) send_away(visitor, FrameKind::again);
    }
    events_.push_back({.kind = Event::Kind::over});
}

void Door::tell_those_inside() {
    while (hall_) {
        const auto send = hall_->next();
        if (!send) return;
        std::span<const std::byte> rest(*send->frame);
        FrameHeader header;
        if (!take(rest, header)) continue;
        if (send->to == self_.number) {
            if (auto event = event_of({header.kind, {rest.begin(), rest.end()}})) note(std::move(*event));
            continue;
        }
        const auto found = visitors_.find(inside_[send->to]);
        if (found == visitors_.end()) continue;
        Visitor& visitor = found->second;
        visitor.line.post(*send->frame);
        if (header.kind == FrameKind::formed) visitor.line.take_formed(ledger_->capacity());  // it is a member
        watch(visitor.line.socket(), found->first, visitor.line.has_unsent(), true);
        if (!send->is_last) continue;
        inside_[send->to] = 0;
        visitor.kind = Visitor::Kind::leaving;
        visitor.age_ns = 0;
        hall_->lost(send->to);
    }
}

// ------------------------------------------------------------------------------------------ at the door of another ---

// Connects as a member to the one that keeps the door, if it has to and may.
void Door::call() {
    if (client_ || !company_ || is_keeper() || now_ns() < call_at_ns_) return;
    call_at_ns_ = now_ns() + backoff_ns_;
    backoff_ns_ = std::min(2 * backoff_ns_, kLongestBackoffNs);
    const auto door = DoorAddress::parse(company_->door);
    if (!door) return;
    Handle socket = start_to_connect(door->ips[next_ip_++ % door->ips.size()], door->port);
    if (socket.get() < 0) return;
    Knock knock;
    knock.role = Role::member;
    knock.number = self_.number;
    knock.incarnation = self_.incarnation;
    knock.nonce = draw_door_nonce();
    client_.emplace(std::move(socket), Passage::knock(member_key(secret_), knock));
    has_arrived_ = false;
    watch(client_->socket(), kClient, true);
}

void Door::move_client() {
    client_->move();
    if (client_->is_open() && !has_arrived_) {
        has_arrived_ = true;
        backoff_ns_ = kBackoffNs;
        std::vector<std::byte> body;
        append(body, EnterBody{.number = self_.number});
        append(body, self_.incarnation);
        append_bytes(body, ledger_->bytes());
        client_->post(make_frame(FrameKind::enter, body));
        client_->post(card_frame(group_, card_));
    }
    while (auto frame = client_->next()) {
        if (heed(*frame)) continue;
        lose_client();
        return;
    }
    if (client_->is_over()) return lose_client();
    watch(client_->socket(), kClient, client_->has_unsent(), true);
}

// False: this connection is of no use any more.
bool Door::heed(const LauncherFrame& frame) {
    if (frame.kind == FrameKind::again) return false;
    if (frame.kind == FrameKind::refused) {
        // A member asks again: the one that keeps the door may know less than others for a moment.
        if (!company_ && !is_born_)
            error_ = Error{COPPICE_ERR_BOOTSTRAP, "the group does not take this process in: " + readable(frame.body)};
        call_at_ns_ = now_ns() + kSecond / 2;
        return false;
    }
    auto event = event_of(frame);
    if (!event) return false;
    is_born_ = is_born_ || event->kind == Event::Kind::formed;
    note(std::move(*event));
    return true;
}

void Door::lose_client() {
    if (client_) client_->post(make_frame(FrameKind::bye, std::string_view{}));
    client_.reset();
    call_at_ns_ = std::max(call_at_ns_, now_ns() + backoff_ns_);
    if (company_ || is_born_) {
        if (std::exchange(has_arrived_, false)) events_.push_back({.kind = Event::Kind::over});
    } else if (!error_) {
        // Of a newcomer: it asks at another door, or here again.
        error_ = Error{kDoorLost, "the member at whose door this process waited is gone"};
    }
}

void Door::tell(const std::vector<std::byte>& frame) {
    if (hall_) {
        std::span<const std::byte> rest(frame);
        FrameHeader header;
        // What was said of those that wait no more, before this member heard of it, makes no sense to the hall.
        if (take(rest, header)) hall_->hear(self_.number, header.kind, rest, wall_clock_ns());
        tell_those_inside();
    } else if (client_ && client_->is_open()) {
        client_->post(frame);
        watch(client_->socket(), kClient, client_->has_unsent(), true);
    }
}

void Door::tell_card(std::span<const std::byte> group, std::span<const std::byte> card) {
    card_.assign(card.begin(), card.end());
    // A member says it at the door, with what it remembers.
    if (!company_ && client_) tell(card_frame(group, card));
}

// The card of a newcomer has the use of its ticket before it.
void Door::note(Event event) {
    if (event.kind == Event::Kind::introduced) {
        std::span<const std::byte> rest(event.body);
        TicketUse use;
        if (!take(rest, use)) return;
        if (ledger_) {
            ledger_->note_use(use, event.who, wall_clock_ns());
        } else {
            introduced_early_.emplace_back(use, event.who);
        }
        event.body.erase(event.body.begin(), event.body.begin() + sizeof use);
    }
    events_.push_back(std::move(event));
}

// ----------------------------------------------------------------------------------------------------- what is due ---

void Door::watch(int descriptor, std::uint64_t id, bool for_room, bool is_known) {
    epoll_event event{};
    event.events = EPOLLIN | (for_room ? static_cast<std::uint32_t>(EPOLLOUT) : 0U);
    event.data.u64 = id;
    ::epoll_ctl(poll_.get(), is_known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, descriptor, &event);
}

void Door::set_timer() {
    std::uint64_t due = UINT64_MAX;
    if (!visitors_.empty()) due = now_ns() + kLookNs;
    due = std::min(due, listen_again_ns_);
    if (company_ && !is_keeper() && !client_) due = std::min(due, std::max(call_at_ns_, now_ns() + 1));
    itimerspec at{};
    if (due != UINT64_MAX) at.it_value = {static_cast<time_t>(due / kSecond), static_cast<long>(due % kSecond)};
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

// Whether anything happened.
bool Door::work() {
    std::array<epoll_event, 64> events{};
    const int count = ::epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
        const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
        if (id == kListener) {
            accept_all();
        } else if (id == kTimer) {
            std::uint64_t times = 0;
            [[maybe_unused]] const auto got = ::read(timer_.get(), &times, sizeof times);
        } else if (id == kClient) {
            if (client_) move_client();
        } else {
            visit(id);
        }
    }
    if (now_ns() >= listen_again_ns_) look_at_listener(true);
    lose_patience();
    call();
    set_timer();
    return count > 0;
}

Result<std::optional<Admission::Event>> Door::next() {
    // One thing leads to the next; but others wait for this thread, too.
    if (events_.empty()) is_busy_ = false;
    for (int round = 0; round < kMostRounds && events_.empty() && work(); ++round)
        is_busy_ = true;
    if (!events_.empty()) {
        Event event = std::move(events_.front());
        events_.pop_front();
        return std::optional<Event>(std::move(event));
    }
    if (error_) return tl::unexpected(*error_);
    return std::optional<Event>();
}

}  // namespace coppice::bootstrap
