// What every protocol machine of this room offers to its drivers (the engine, the simulator, the explorer): facts go
// in, sends are pulled out one at a time, time is an argument. A driver is written once, as a template over the
// machine.
//
// Besides what can be checked here:
//  - next_send(now) is called whenever the send port is free, and after every fact, until it returns nothing. `now`
//    never goes back. What it returns is sent at once; there is no way to put it back.
//  - next_timer() is when next_send(), or timer() where the machine has it, has to be called again although no fact
//    came in meanwhile; kNever if it need not be. It may change with every other call, so ask again after each of them,
//    and with time alone it does not change.
//  - receive() returns false for what can't be: it was ignored, and the driver counts it.
//  - Nothing is allocated after construction unless the machine's own header says so.
//  - to_string(kind) and carries_payload(kind) are free functions in the namespace of the kind.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/words.hpp"

namespace coppice::protocol {

// What goes from one position to another. Other families may carry more than these fields.
template <class T>
concept MachineMessage = std::copyable<T> && requires(const T& message) {
    { message.from } -> std::convertible_to<Position>;
    { message.to } -> std::convertible_to<Position>;
    { to_string(message.kind) } -> std::convertible_to<std::string_view>;
    { carries_payload(message.kind) } -> std::convertible_to<bool>;
};

template <class M>
concept Machine = MachineMessage<typename M::Message> &&
    requires(M& machine, const M& seen, const typename M::Message& message, Position position, Nanoseconds now) {
    { machine.receive(message) } -> std::same_as<bool>;
    {machine.peer_failed(position)};
    { machine.next_send(now) } -> std::same_as<std::optional<typename M::Message>>;
    { seen.next_timer() } -> std::same_as<Nanoseconds>;
    { seen.colored() } -> std::same_as<bool>;
    { seen.finished() } -> std::same_as<bool>;
};

// Machines that want more than another next_send() at next_timer(): the driver calls timer(now) first.
template <class M>
concept TimedMachine = Machine<M> && requires(M& machine, Nanoseconds now) {
    machine.timer(now);
};

}  // namespace coppice::protocol
