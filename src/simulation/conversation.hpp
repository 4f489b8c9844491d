// Records what happens in a run, to be drawn or searched for a mistake, and passes everything on to another observer.
#pragma once

#include <cstddef>
#include <deque>

#include "simulation/simulation.hpp"

namespace coppice::simulation {

template <class Inner>
class Conversation : public Onlooker {
  public:
    // Keeps the last `most` events.
    Conversation(Inner& inner, std::size_t most) : inner_(inner), most_(most) {}

    const std::deque<Event>& events() const { return events_; }

    template <class Message>
    bool sent(Step now, Position sender, const Message& message, bool sender_colored) {
        note(now, Event::What::send, message);
        return inner_.sent(now, sender, message, sender_colored);
    }
    template <class Message>
    bool received(Step now, const Message& message, bool accepted, bool was_colored, bool colored) {
        note(now, accepted ? Event::What::receive : Event::What::ignore, message);
        if (colored && !was_colored) note(now, Event::What::color, message);
        return inner_.received(now, message, accepted, was_colored, colored);
    }
    template <class Message>
    void vanished(Step now, const Message& message) {
        note(now, Event::What::vanish, message);
        inner_.vanished(now, message);
    }
    template <class Message>
    void ignored(Step now, const Message& message) {
        note(now, Event::What::ignore, message);
        inner_.ignored(now, message);
    }
    void died(Step now, Position position) {
        keep(Event{now, Event::What::die, position, position, 0, "", false});
        inner_.died(now, position);
    }
    template <class Run>
    void ended(const Run& run, const Outcome& outcome) {
        inner_.ended(run, outcome);
    }

  private:
    template <class Message>
    void note(Step now, Event::What what, const Message& message) {
        keep(Event{now, what, message.from, message.to, static_cast<std::uint8_t>(message.kind),
                   to_string(message.kind), carries_payload(message.kind)});
    }
    void keep(const Event& event) {
        events_.push_back(event);
        if (events_.size() > most_) events_.pop_front();
    }

    Inner& inner_;
    std::size_t most_;
    std::deque<Event> events_;
};

}  // namespace coppice::simulation
