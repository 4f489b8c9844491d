#include "transport/verbs/link.hpp"

#include <array>

namespace coppice::transport::verbs {
namespace {

using enum Link;
using Event = LinkEvent;
using Action = LinkAction;

// A set of states.
template <class... Links>
constexpr std::uint16_t any_of(Links... links) {
    return static_cast<std::uint16_t>(((1U << static_cast<unsigned>(links)) | ...));
}

constexpr std::uint16_t kBeingSetUp = any_of(resolving, requesting, yielding, granting, admitting, accepting);
constexpr std::uint16_t kNotEnding = kBeingSetUp | any_of(none, open);

enum class If : std::uint8_t { always, address, no_address };

struct Row {
    std::uint16_t from;
    Event on;
    Link to;
    Action action;
    If condition = If::always;
};

// The first row that fits.
constexpr std::array kTable{
    // this side asks
    Row{any_of(none), Event::wanted, resolving, Action::resolve, If::address},
    Row{any_of(resolving), Event::address_found, resolving, Action::find_route},
    Row{any_of(resolving), Event::route_found, requesting, Action::request},
    Row{any_of(requesting), Event::answered, granting, Action::grant},
    Row{any_of(granting), Event::granted, open, Action::establish},

    // both ask: one yields
    Row{any_of(requesting), Event::told_to_wait, yielding, Action::yield},
    Row{any_of(resolving), Event::asked_by_higher, resolving, Action::decline},
    Row{any_of(requesting), Event::asked_by_higher, requesting, Action::decline},
    Row{any_of(resolving), Event::asked_by_lower, admitting, Action::admit},
    Row{any_of(requesting), Event::asked_by_lower, admitting, Action::admit_anew},

    // the peer's own request has not come, or it has long not come for ours; it may have died, which the next answer shows
    Row{any_of(yielding), Event::time_to_ask, resolving, Action::ask_again, If::address},
    Row{any_of(requesting), Event::long_silent, resolving, Action::ask_again, If::address},

    // the peer asks
    Row{any_of(none), Event::asked_by_lower, admitting, Action::admit},
    Row{any_of(none), Event::asked_by_higher, admitting, Action::admit},
    Row{any_of(yielding, accepting), Event::asked_by_lower, admitting,
        Action::admit_anew},  // accepting: it gave up its
    Row{any_of(yielding, accepting), Event::asked_by_higher, admitting, Action::admit_anew},  // earlier request
    Row{any_of(admitting), Event::granted, accepting, Action::accept},
    Row{any_of(accepting), Event::confirmed, open, Action::welcome},

    // its request is gone: it was given up for a newer one, or the peer died. An own request shows which
    Row{any_of(admitting, accepting), Event::not_admitted, resolving, Action::ask_again, If::address},
    Row{any_of(admitting, accepting), Event::not_admitted, none, Action::retire, If::no_address},
    Row{any_of(admitting, accepting), Event::refused, resolving, Action::ask_again, If::address},
    Row{any_of(admitting, accepting), Event::refused, none, Action::retire, If::no_address},
    Row{any_of(admitting, accepting), Event::told_to_wait, resolving, Action::ask_again, If::address},
    Row{any_of(admitting, accepting), Event::told_to_wait, none, Action::retire, If::no_address},

    // it ends
    Row{any_of(granting), Event::not_granted, broken, Action::report},
    Row{any_of(admitting), Event::not_granted, broken, Action::deny},
    Row{kNotEnding, Event::told_to_wait, broken, Action::report},
    Row{kNotEnding, Event::refused, broken, Action::report},
    Row{kNotEnding, Event::failed, broken, Action::report},
    Row{kBeingSetUp | any_of(open, broken), Event::fenced, broken, Action::cut},
    Row{any_of(broken), Event::settled, closed, Action::close},
};

constexpr bool fits(const Row& row, Link from, Event event, bool has_address) {
    if (row.on != event || (row.from & any_of(from)) == 0) return false;
    return row.condition == If::always || (row.condition == If::address) == has_address;
}

}  // namespace

LinkStep step(Link from, LinkEvent event, bool has_address) {
    for (const Row& row : kTable) {
        if (fits(row, from, event, has_address)) return {row.to, row.action};
    }
    // A request that comes when there is a connection, or was one.
    if (event == Event::asked_by_lower || event == Event::asked_by_higher) return {from, Action::turn_away};
    return {from, Action::none, false};
}

std::string_view to_string(Link link) {
    constexpr std::array<std::string_view, kLinks> kNames{"none",     "resolving", "requesting", "yielding",
                                                          "granting", "admitting", "accepting",  "open",
                                                          "broken",   "closed"};
    return kNames[static_cast<std::size_t>(link)];
}

std::string_view to_string(LinkEvent event) {
    constexpr std::array<std::string_view, kLinkEvents> kNames{
        "wanted",         "address_found",   "route_found", "answered",    "told_to_wait", "refused",
        "asked_by_lower", "asked_by_higher", "granted",     "not_granted", "not_admitted", "confirmed",
        "long_silent",    "time_to_ask",     "failed",      "fenced",      "settled"};
    return kNames[static_cast<std::size_t>(event)];
}

std::string_view to_string(LinkAction action) {
    constexpr std::array<std::string_view, 19> kNames{"none",      "resolve",   "find_route", "request", "grant",
                                                      "establish", "yield",     "ask_again",  "admit",   "admit_anew",
                                                      "decline",   "turn_away", "accept",     "welcome", "retire",
                                                      "deny",      "report",    "cut",        "close"};
    return kNames[static_cast<std::size_t>(action)];
}

}  // namespace coppice::transport::verbs
