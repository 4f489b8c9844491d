// The table of connections (verbs/link.hpp) without a device: every step of it, what it does not foresee, the end in
// each state, and two of them against each other through every order in which their requests, answers and refusals can
// arrive.
#include "transport/verbs/link.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace coppice::transport::verbs {
namespace {

template <class Body>
void for_each_state(Body&& body) {
    for (int link = 0; link < kLinks; ++link)
        body(static_cast<Link>(link));
}

template <class Body>
void for_each_event(Body&& body) {
    for (int event = 0; event < kLinkEvents; ++event)
        body(static_cast<LinkEvent>(event));
}

// "resolving route_found: requesting, request", and which address it takes.
std::string line_of(Link from, LinkEvent event) {
    const auto words = [&](bool has_address) -> std::string {
        const LinkStep taken = step(from, event, has_address);
        return taken.foreseen ? fmt::format("{}, {}", to_string(taken.to), to_string(taken.action)) : "";
    };
    const std::string with = words(true);
    const std::string without = words(false);
    const std::string start = fmt::format("{} {}: ", to_string(from), to_string(event));
    if (with == without) return with.empty() ? "" : start + with;
    return start + with + (without.empty() ? " | without address nothing" : " | without address " + without);
}

const std::vector<std::string> kSteps{
    "none wanted: resolving, resolve | without address nothing",
    "none told_to_wait: broken, report",
    "none refused: broken, report",
    "none asked_by_lower: admitting, admit",
    "none asked_by_higher: admitting, admit",
    "none failed: broken, report",
    "resolving address_found: resolving, find_route",
    "resolving route_found: requesting, request",
    "resolving told_to_wait: broken, report",
    "resolving refused: broken, report",
    "resolving asked_by_lower: admitting, admit",
    "resolving asked_by_higher: resolving, decline",
    "resolving failed: broken, report",
    "resolving fenced: broken, cut",
    "requesting answered: granting, grant",
    "requesting told_to_wait: yielding, yield",
    "requesting refused: broken, report",
    "requesting asked_by_lower: admitting, admit_anew",
    "requesting asked_by_higher: requesting, decline",
    "requesting long_silent: resolving, ask_again | without address nothing",
    "requesting failed: broken, report",
    "requesting fenced: broken, cut",
    "yielding told_to_wait: broken, report",
    "yielding refused: broken, report",
    "yielding asked_by_lower: admitting, admit_anew",
    "yielding asked_by_higher: admitting, admit_anew",
    "yielding time_to_ask: resolving, ask_again | without address nothing",
    "yielding failed: broken, report",
    "yielding fenced: broken, cut",
    "granting told_to_wait: broken, report",
    "granting refused: broken, report",
    "granting asked_by_lower: granting, turn_away",
    "granting asked_by_higher: granting, turn_away",
    "granting granted: open, establish",
    "granting not_granted: broken, report",
    "granting failed: broken, report",
    "granting fenced: broken, cut",
    "admitting told_to_wait: resolving, ask_again | without address none, retire",
    "admitting refused: resolving, ask_again | without address none, retire",
    "admitting asked_by_lower: admitting, turn_away",
    "admitting asked_by_higher: admitting, turn_away",
    "admitting granted: accepting, accept",
    "admitting not_granted: broken, deny",
    "admitting not_admitted: resolving, ask_again | without address none, retire",
    "admitting failed: broken, report",
    "admitting fenced: broken, cut",
    "accepting told_to_wait: resolving, ask_again | without address none, retire",
    "accepting refused: resolving, ask_again | without address none, retire",
    "accepting asked_by_lower: admitting, admit_anew",
    "accepting asked_by_higher: admitting, admit_anew",
    "accepting not_admitted: resolving, ask_again | without address none, retire",
    "accepting confirmed: open, welcome",
    "accepting failed: broken, report",
    "accepting fenced: broken, cut",
    "open told_to_wait: broken, report",
    "open refused: broken, report",
    "open asked_by_lower: open, turn_away",
    "open asked_by_higher: open, turn_away",
    "open failed: broken, report",
    "open fenced: broken, cut",
    "broken asked_by_lower: broken, turn_away",
    "broken asked_by_higher: broken, turn_away",
    "broken fenced: broken, cut",
    "broken settled: closed, close",
    "closed asked_by_lower: closed, turn_away",
    "closed asked_by_higher: closed, turn_away",
};

// All states times all events: what is not in the list is not foreseen.
TEST(VerbsLink, TakesTheseStepsAndNoOthers) {
    std::vector<std::string> steps;
    for_each_state([&](Link from) {
        for_each_event([&](LinkEvent event) {
            if (auto line = line_of(from, event); !line.empty()) steps.push_back(std::move(line));
        });
    });
    EXPECT_EQ(steps, kSteps);
}

TEST(VerbsLink, AnEventThatIsNotForeseenChangesNothing) {
    for_each_state([](Link from) {
        for_each_event([&](LinkEvent event) {
            for (const bool has_address : {false, true}) {
                const LinkStep taken = step(from, event, has_address);
                if (taken.foreseen) continue;
                EXPECT_EQ(taken.to, from);
                EXPECT_EQ(taken.action, LinkAction::none);
            }
        });
    });
}

TEST(VerbsLink, EndsOnceInWhateverStateItIs) {
    for_each_state([](Link from) {
        if (from == Link::broken || from == Link::closed) return;
        const LinkStep end = step(from, LinkEvent::failed, true);
        EXPECT_EQ(end.to, Link::broken) << to_string(from);
        EXPECT_EQ(end.action, LinkAction::report) << to_string(from);
    });
    // It is reported once, and nothing but being closed follows.
    for_each_event([](LinkEvent event) {
        const LinkStep after = step(Link::broken, event, true);
        EXPECT_EQ(after.to, event == LinkEvent::settled ? Link::closed : Link::broken) << to_string(event);
        EXPECT_NE(after.action, LinkAction::report) << to_string(event);
        EXPECT_EQ(step(Link::closed, event, true).to, Link::closed) << to_string(event);
    });
}

TEST(VerbsLink, AFencedPeerIsCutWhereThereIsSomethingToCut) {
    for_each_state([](Link from) {
        const LinkStep cut = step(from, LinkEvent::fenced, true);
        EXPECT_EQ(cut.foreseen, is_alive(from)) << to_string(from);
        EXPECT_EQ(cut.action, cut.foreseen ? LinkAction::cut : LinkAction::none) << to_string(from);
    });
}

TEST(VerbsLink, OnlyAnEndThatKnowsTheAddressAsks) {
    for_each_state([](Link from) {
        for_each_event([&](LinkEvent event) {
            const LinkAction action = step(from, event, false).action;
            EXPECT_NE(action, LinkAction::resolve);
            EXPECT_NE(action, LinkAction::ask_again);
        });
    });
}

// ------------------------------------------------------------------------------------------- two against each other

// The connection managers of two hosts, as far as they tell processes. Each request has a number. What concerns one
// request arrives in order, and so do the requests of one end; all else may overtake.
enum class Kind : char { request = 'q', answer = 'a', confirmation = 'c', wait = 'w', refusal = 'r' };

struct Message {
    int to;
    Kind kind;
    int request;
};
struct Local {
    int at;
    LinkEvent event;
    int request;
};
struct End {
    Link link = Link::none;
    int request = 0;    // its own, or the peer's that it follows
    bool told = false;  // the peer has heard of it
    bool has_address = true;
    bool dead = false;
};

class Pair {
  public:
    std::array<End, 2> ends;  // by rank
    std::vector<Message> messages;
    std::vector<Local> locals;
    int latest = 0;
    std::string story;                // for people
    std::array<int, 2> impatience{};  // so often each takes the peer for silent

    void happened(int at, LinkEvent event, int request = 0) {
        End& end = ends[static_cast<std::size_t>(at)];
        const LinkStep taken = step(end.link, event, end.has_address);
        if (!taken.foreseen) return;
        story += fmt::format("\n  {}: {} {}: {}, {}", at, to_string(end.link), to_string(event), to_string(taken.to),
                             to_string(taken.action));
        end.link = taken.to;
        perform(at, end, taken.action, request);
    }

    void arrive(std::size_t index) {
        const Message message = messages[index];
        messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(index));
        const End& end = ends[static_cast<std::size_t>(message.to)];
        if (end.dead) {
            const bool is_answered = message.kind == Kind::request || message.kind == Kind::answer;
            if (is_answered) send(message.to, Kind::refusal, message.request);
        } else if (message.kind == Kind::request) {
            happened(message.to, message.to == 0 ? LinkEvent::asked_by_higher : LinkEvent::asked_by_lower,
                     message.request);
        } else if (end.request == message.request) {
            happened(message.to, event_of(message.kind, end.link));
        }
    }

    void fire(std::size_t index) {
        const Local local = locals[index];
        locals.erase(locals.begin() + static_cast<std::ptrdiff_t>(index));
        happened(local.at, local.event);
    }

    void die(int at) {
        forget(at);
        ends[static_cast<std::size_t>(at)].dead = true;
        story += fmt::format("\n  {}: dies", at);
    }

    // The peer's host has that request, its process has not come for it.
    bool is_unread(int request) const {
        return std::ranges::any_of(
            messages, [request](const Message& one) { return one.kind == Kind::request && one.request == request; });
    }

    void wait_no_longer(int at, LinkEvent event) {
        int& left = impatience[static_cast<std::size_t>(at)];
        left = std::max(left - 1, 0);
        happened(at, event);
    }

    bool may_arrive(std::size_t index) const {
        return std::none_of(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(index),
                            [&](const Message& before) {
                                const Message& one = messages[index];
                                const bool both_ask = before.kind == Kind::request && one.kind == Kind::request;
                                return before.to == one.to && (before.request == one.request || both_ask);
                            });
    }

    // Requests numbered as they appear: states that differ in nothing else are one.
    std::string text() const {
        std::map<int, int> numbers{{0, 0}};
        const auto number = [&](int request) {
            return numbers.try_emplace(request, static_cast<int>(numbers.size())).first->second;
        };
        std::string text;
        for (const End& end : ends)
            text += fmt::format("{} {} {} {};", to_string(end.link), number(end.request), end.told, end.dead);
        std::vector<std::string> rest;
        for (const Message& one : messages)
            text += fmt::format("{}{}{} ", one.to, static_cast<char>(one.kind), number(one.request));
        for (const Local& one : locals)
            rest.push_back(fmt::format("{}:{}:{} ", one.at, to_string(one.event), number(one.request)));
        std::ranges::sort(rest);
        for (const std::string& one : rest)
            text += one;
        return text + fmt::format("{}{}", impatience[0], impatience[1]);
    }

  private:
    static LinkEvent event_of(Kind kind, Link link) {
        if (kind == Kind::answer) return LinkEvent::answered;
        if (kind == Kind::confirmation) return LinkEvent::confirmed;
        if (kind == Kind::wait) return LinkEvent::told_to_wait;
        return link == Link::open ? LinkEvent::failed : LinkEvent::refused;
    }

    void send(int from, Kind kind, int request) { messages.push_back({1 - from, kind, request}); }

    void start(int at, End& end) {
        end.request = ++latest;
        end.told = false;
        locals.push_back({at, LinkEvent::address_found, end.request});
    }

    void forget(int at) {
        End& end = ends[static_cast<std::size_t>(at)];
        std::erase_if(locals, [&](const Local& local) { return local.at == at; });
        if (end.request != 0 && end.told) send(at, Kind::refusal, end.request);
        end.request = 0;
    }

    void perform(int at, End& end, LinkAction action, int request) {
        switch (action) {
            case LinkAction::resolve:
                return start(at, end);
            case LinkAction::find_route:
                return locals.push_back({at, LinkEvent::route_found, end.request});
            case LinkAction::request:
                end.told = true;
                return send(at, Kind::request, end.request);
            case LinkAction::grant:
                return locals.push_back({at, LinkEvent::granted, end.request});
            case LinkAction::establish:
                return send(at, Kind::confirmation, end.request);
            case LinkAction::ask_again:
                forget(at);
                return start(at, end);
            case LinkAction::admit:
            case LinkAction::admit_anew:
                forget(at);
                end.request = request;
                end.told = true;
                return locals.push_back({at, LinkEvent::granted, request});
            case LinkAction::decline:
            case LinkAction::turn_away:
                return send(at, Kind::wait, request);
            case LinkAction::accept:
                return send(at, Kind::answer, end.request);
            case LinkAction::yield:
            case LinkAction::retire:
            case LinkAction::report:
                return forget(at);
            default:
                return;
        }
    }
};

// Every pair that can come of this one. `mortal`: either end may die at any time, once.
struct Explorer {
    bool mortal = false;
    std::set<std::string> seen{};
    std::vector<Pair> quiet{};    // in which nothing is under way any more
    std::vector<Pair> alarmed{};  // a live end takes a live one for dead

    void explore(const Pair& from) {
        std::deque<Pair> left{from};  // the shortest first
        while (!left.empty()) {
            const Pair pair = left.front();
            left.pop_front();
            if (!seen.insert(pair.text()).second) continue;
            const bool alive = !pair.ends[0].dead && !pair.ends[1].dead;
            if (alive && (pair.ends[0].link == Link::broken || pair.ends[1].link == Link::broken)) {
                alarmed.push_back(pair);
                continue;
            }
            follow(pair, left, alive);
        }
    }

  private:
    template <class Change>
    static void branch(const Pair& pair, std::deque<Pair>& left, Change&& change) {
        Pair next = pair;
        change(next);
        left.push_back(std::move(next));
    }

    void follow(const Pair& pair, std::deque<Pair>& left, bool alive) {
        const std::size_t before = left.size();
        for (std::size_t i = 0; i < pair.messages.size(); ++i)
            if (pair.may_arrive(i)) branch(pair, left, [i](Pair& next) { next.arrive(i); });
        for (std::size_t i = 0; i < pair.locals.size(); ++i)
            branch(pair, left, [i](Pair& next) { next.fire(i); });
        const bool still = left.size() == before;
        for (int at = 0; at < 2; ++at) {
            const End& end = pair.ends[static_cast<std::size_t>(at)];
            const bool has_patience = pair.impatience[static_cast<std::size_t>(at)] == 0;
            if (end.link == Link::yielding && !end.dead && (still || !has_patience))
                branch(pair, left, [at](Pair& next) { next.wait_no_longer(at, LinkEvent::time_to_ask); });
            if (end.link == Link::requesting && !end.dead && !has_patience && pair.is_unread(end.request))
                branch(pair, left, [at](Pair& next) { next.wait_no_longer(at, LinkEvent::long_silent); });
        }
        if (left.size() == before) quiet.push_back(pair);
        if (mortal && alive) {
            for (int at = 0; at < 2; ++at)
                branch(pair, left, [at](Pair& next) { next.die(at); });
        }
    }
};

std::string first_of(const std::vector<Pair>& pairs) {
    return pairs.empty() ? "" : fmt::format("{} such; the first: {}{}", pairs.size(), pairs[0].text(), pairs[0].story);
}

Pair begun_by(const std::vector<int>& asking) {
    Pair pair;
    for (const int at : asking)
        pair.happened(at, LinkEvent::wanted);
    return pair;
}

// Rank 0 asks, rank 1, or both; then an end that loses patience once with the other one.
std::vector<Pair> beginnings() {
    std::vector<Pair> all;
    for (const auto& asking : std::vector<std::vector<int>>{{0}, {1}, {0, 1}})
        all.push_back(begun_by(asking));
    for (const int at : {0, 1}) {
        all.push_back(begun_by({at}));
        all.back().impatience[static_cast<std::size_t>(at)] = 1;
    }
    return all;
}

TEST(VerbsLinkPair, ComesToStandInEveryOrder) {
    for (const Pair& beginning : beginnings()) {
        Explorer explorer;
        explorer.explore(beginning);
        EXPECT_TRUE(explorer.alarmed.empty()) << first_of(explorer.alarmed);
        ASSERT_FALSE(explorer.quiet.empty());
        for (const Pair& pair : explorer.quiet) {
            EXPECT_EQ(pair.ends[0].link, Link::open) << pair.text() << pair.story;
            EXPECT_EQ(pair.ends[1].link, Link::open) << pair.text() << pair.story;
            EXPECT_EQ(pair.ends[0].request, pair.ends[1].request) << pair.text() << pair.story;
        }
        RecordProperty("states", static_cast<int>(explorer.seen.size()));
    }
}

// An end that does not know the other's address is asked, and never asks.
TEST(VerbsLinkPair, ComesToStandWhenOneAloneCanAsk) {
    for (int asking = 0; asking < 2; ++asking) {
        Pair pair;
        pair.ends[static_cast<std::size_t>(1 - asking)].has_address = false;
        pair.happened(asking, LinkEvent::wanted);
        Explorer explorer;
        explorer.explore(pair);
        EXPECT_TRUE(explorer.alarmed.empty()) << first_of(explorer.alarmed);
        for (const Pair& end : explorer.quiet)
            EXPECT_TRUE(end.ends[0].link == Link::open && end.ends[1].link == Link::open) << end.text() << end.story;
    }
}

// Whatever state both are in when one dies: the other is not left waiting.
TEST(VerbsLinkPair, EndsWhenOneDiesInAnyState) {
    for (const Pair& beginning : beginnings()) {
        Explorer explorer{.mortal = true};
        explorer.explore(beginning);
        EXPECT_TRUE(explorer.alarmed.empty()) << first_of(explorer.alarmed);
        std::size_t deaths = 0;
        for (const Pair& pair : explorer.quiet) {
            for (std::size_t at = 0; at < 2; ++at) {
                if (!pair.ends[1 - at].dead) continue;
                ++deaths;
                EXPECT_FALSE(is_being_set_up(pair.ends[at].link)) << pair.text() << pair.story;
                EXPECT_NE(pair.ends[at].link, Link::open) << pair.text() << pair.story;
            }
        }
        EXPECT_GT(deaths, 0U);
    }
}

}  // namespace
}  // namespace coppice::transport::verbs
