#include "story.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <tuple>

namespace coppice::sim {
namespace {

using simulation::Event;
using simulation::Step;

// Messages of one kind between two ranks arrive in the order in which they were sent.
class UnderWay {
  public:
    void sent(const Event& event, std::size_t flight) { flights_[key(event)].push_back(flight); }
    std::optional<std::size_t> arrived(const Event& event) {
        auto& queue = flights_[key(event)];
        if (queue.empty()) return std::nullopt;
        const std::size_t flight = queue.front();
        queue.pop_front();
        return flight;
    }

  private:
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint8_t>;
    static Key key(const Event& event) { return {event.from.value, event.to.value, event.kind}; }

    std::map<Key, std::deque<std::size_t>> flights_;
};

void end_flight(const simulation::LogP& model, const Event& event, Flight& flight) {
    const Step costs = model.one_sided_ring && is_ring_kind(flight.kind) ? 0 : model.overhead;
    flight.received = event.time;
    flight.begins = event.what == Event::What::vanish ? event.time : event.time - costs;
    switch (event.what) {
        case Event::What::vanish:
            flight.fate = Flight::Fate::vanished;
            break;
        case Event::What::ignore:
            flight.fate = Flight::Fate::ignored;
            break;
        default:
            flight.fate = Flight::Fate::received;
    }
}

}  // namespace

bool is_ring_kind(std::string_view kind) {
    return kind.starts_with("correction");
}

Story tell(const simulation::LogP& model, std::uint32_t ranks, const simulation::Faults& faults,
           const std::vector<Event>& events) {
    Story story;
    story.model = model;
    story.actors.resize(ranks);
    for (const Position position : faults.dead)
        story.actors[position.value].dead = true;
    if (!story.actors[0].dead) story.actors[0].colored = 0;

    UnderWay under_way;
    for (const Event& event : events) {
        Actor& actor = story.actors[event.to.value];
        story.quiescence_latency = std::max(story.quiescence_latency, event.time);
        switch (event.what) {
            case Event::What::send: {
                Flight flight{event.from.value, event.to.value, event.kind_name, event.time, 0, 0, 0, {}};
                flight.arrives = event.time + model.overhead + model.latency;
                flight.begins = flight.received = flight.arrives;
                under_way.sent(event, story.flights.size());
                story.flights.push_back(flight);
                story.quiescence_latency = std::max(story.quiescence_latency, event.time + model.overhead);
                break;
            }
            case Event::What::color:
                actor.colored = event.time;
                actor.by_ring = is_ring_kind(event.kind_name);
                story.coloring_latency = std::max(story.coloring_latency, event.time);
                break;
            case Event::What::die:
                actor.dead = true;
                actor.died = event.time;
                break;
            default:
                if (const auto flight = under_way.arrived(event)) end_flight(model, event, story.flights[*flight]);
        }
    }
    return story;
}

}  // namespace coppice::sim
