#include "engine/collectives/agreement/outbox.hpp"

#include <algorithm>

#include "transport/transport.hpp"

namespace coppice::engine {

Outbox::Outbox(const Members& members, const Router& router, const GroupId& group, Channel channel, std::size_t places,
               std::size_t bytes)
    : members_(members), router_(router), group_(group), channel_(channel), outgoing_(places) {
    for (Outgoing& message : outgoing_)
        message.body.reserve(bytes);
}

Outbox::Outgoing* Outbox::free_place() {
    for (Outgoing& message : outgoing_) {
        if (!message.waiting && message.in_flight == 0) return &message;
    }
    return nullptr;
}

void Outbox::post(Outgoing& message) {
    message.sent = 0;
    message.waiting = true;
    ++unsent_;
    if (send(message)) --unsent_;
}

void Outbox::send_waiting() {
    if (unsent_ == 0) return;
    for (Outgoing& message : outgoing_) {
        if (message.waiting && send(message)) --unsent_;
    }
}

bool Outbox::quiet() const {
    return std::ranges::all_of(outgoing_, [](const Outgoing& message) { return message.in_flight == 0; });
}

// Nothing may come between the parts of a body.
bool Outbox::is_held_up(const Outgoing& message) const {
    if (unsent_ <= 1) return false;  // itself
    return std::ranges::any_of(outgoing_, [&message](const Outgoing& other) {
        return &other != &message && other.waiting && other.sent > 0 && other.to == message.to;
    });
}

// True when there is nothing more to do with it but to let it leave.
bool Outbox::send(Outgoing& message) {
    if (is_held_up(message)) return false;
    const Link link = router_.to(message.to);
    while (link && !members_.failed(message.to)) {
        const std::size_t left = message.body.size() - message.sent;
        const auto part = std::span(message.body).subspan(message.sent, std::min(left, transport::kMaxPayload));
        const WireHeader header{.token = group_.token,
                                .tag = {channel_, message.kind},
                                .sequence = message.sequence,
                                .detail = static_cast<std::uint32_t>(left - part.size()),
                                .length = static_cast<std::uint32_t>(part.size()),
                                .epoch = group_.epoch.value};
        const transport::SendStatus status = link.send(encode(header), part, &message.in_flight);
        if (status == transport::SendStatus::again) return false;
        message.sent += part.size();
        if (status == transport::SendStatus::failed || left == part.size()) break;
    }
    message.waiting = false;
    return true;
}

}  // namespace coppice::engine
