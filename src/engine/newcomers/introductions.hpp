// Newcomers as one process of a job knows them: makes them known to its transports when the launcher, or a door, introduces them, while its
// groups work as before, and knows which of them all others have made known, too.
//
// One for a transport set. Its admitting group is the only one that may take newcomers in: the first, then each that is made of it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "bootstrap/admission.hpp"
#include "engine/newcomers/cards.hpp"
#include "engine/seats.hpp"
#include "engine/settings.hpp"

namespace coppice::engine {

class Introductions {
  public:
    using Person = bootstrap::PersonBody;

    // References outlive this object.
    Introductions(Seats& seats, const Settings& settings, std::string own_host,
                  std::unique_ptr<bootstrap::Admission> admission, const Clock& clock);

    // What to sleep on besides the transports; −1 when the launcher has no more to say.
    int descriptor() const { return admission_ ? admission_->descriptor() : -1; }
    // Takes in what the launcher has to say, and goes on with what could not be done before. Not from within a transport's poll().
    void poll();
    // Something has happened lately: it is worth while to look again soon.
    bool is_busy() const { return idle_looks_ < kIdleLooks; }
    // The last look was a while ago.
    bool is_due() const { return clock_.now_ns() >= due_ns_; }

    // Those that all can reach, in the order in which that became known; and a number that changes with it.
    std::span<const Person> ready() const { return ready_; }
    std::uint32_t version() const { return version_; }
    // It was introduced here, whatever has become of it.
    bool knows(std::uint32_t number, std::uint32_t incarnation) const {
        return number < introduced_.size() && introduced_[number] > incarnation;
    }

    // A ticket for newcomers, with these doors besides the own one.
    Result<Bytes> invite(std::uint32_t uses, std::uint64_t lifetime_ns, std::span<const bootstrap::DoorAddress> others);
    // The admitting group has changed.
    void attend(const bootstrap::Admission::Company& company);

    // Of one that it knows, and has not taken in yet.
    NewcomersHost host_of(std::uint32_t number, std::uint32_t incarnation) const;

    // --- the admitting group
    bool admits(std::uint32_t token) const { return admitting_ == token; }
    // How many members it may have at most, by the last renewal.
    std::uint32_t most() const { return most_; }
    void admit_from(std::uint32_t token, std::uint32_t most) {
        admitting_ = token;
        most_ = most;
    }
    // That group has taken these in (their serials are not looked at): they are told. And it has those no more, whether they live or not.
    void announce(std::span<const Person> taken_in, std::span<const Person> left_out, const Birth& birth);
    // That group has decided to take it in, and can't: it is told why.
    void turn_away(std::uint32_t number, std::uint32_t incarnation, std::string_view why);
    // These are members: they do not wait any more.
    void note_members(const Birth& birth);

    // --- of a newcomer
    const std::optional<Bytes>& born() const { return born_; }
    const std::optional<Error>& error() const { return error_; }

  private:
    struct Task {
        Person who;
        Bytes card;
        std::uint64_t since_ns = 0;
    };

    static constexpr std::uint32_t kIdleLooks = 256;
    static constexpr std::uint64_t kLookNs = 200'000;

    void take(bootstrap::Admission::Event& event);
    void do_tasks();
    bool introduce(Task& task);
    void note_introduced(const Person& who, const Card& card);
    void note_taken_in(std::uint32_t number, std::uint32_t incarnation);
    Result<void> wire(const Person& who, const Card& card);

    Seats& seats_;
    Settings settings_;
    std::string own_host_;
    std::unique_ptr<bootstrap::Admission> admission_;
    const Clock& clock_;
    std::deque<Task> tasks_;                 // in this order, for each seat
    std::vector<std::uint32_t> introduced_;  // by number: one more than the last incarnation
    std::vector<std::uint32_t> taken_in_;    // likewise, of those that were
    struct Arrival {
        std::uint32_t number = 0;
        std::uint32_t incarnation = 0;
        NewcomersHost host;
    };
    // Those introduced, dead or alive, after the last one of the same number that was taken in.
    std::vector<Arrival> arrivals_;
    std::vector<Person> ready_;
    std::uint32_t version_ = 0;
    std::uint32_t idle_looks_ = kIdleLooks;
    std::uint64_t due_ns_ = 0;
    std::uint32_t admitting_ = 0;
    std::uint32_t most_ = UINT32_MAX;
    std::optional<Bytes> born_;
    std::optional<Error> error_;
};

}  // namespace coppice::engine
