// How processes that come later get to a group, as members and newcomers see it: by the launcher that has started them, or by a ticket, at a
// member's door (door/door.hpp).
//
// Until it is taken in a newcomer speaks to the launcher, or to a door, alone. Who says what is in lobby.hpp; how ranks can be reached, and
// what newcomers have to know of a group, are bytes here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "bootstrap/launcher_connection.hpp"
#include "bootstrap/launcher_environment.hpp"
#include "bootstrap/launcher_protocol.hpp"
#include "bootstrap/ticket.hpp"

namespace coppice::bootstrap {

class Admission {
  public:
    struct Event {
        enum class Kind : std::uint8_t {
            invited,     // a newcomer: this is `who` it is; `body` has what it has to know of the group
            introduced,  // `who` can be reached as `body` says
            gone,        // `who` (its serial alone) is not to be reached any more
            ready,       // all can reach `who`
            formed,      // `body` has what a newcomer has to know of the group that has it
            over,        // all that was introduced and is no member counts for nothing any more: another door is asked
        };
        Kind kind = Kind::gone;
        PersonBody who{};
        std::vector<std::byte> body{};
    };

    // The group that may take newcomers in, as this member knows it.
    struct Company {
        std::vector<PersonBody> members{};  // that live; their serials are not looked at
        PersonBody keeper{};                // the one at whose door newcomers wait: the same at all that know the same
        std::vector<std::byte> door{};      // where that one listens, as DoorAddress has it
    };

    Admission() = default;
    virtual ~Admission() = default;
    Admission(const Admission&) = delete;
    Admission& operator=(const Admission&) = delete;

    // Readable when next() has something.
    virtual int descriptor() const = 0;
    // Never waits. An error is final: no newcomer comes by this door any more, or this rank is refused, and told why.
    virtual Result<std::optional<Event>> next() = 0;

    // `group`: a member's, what newcomers have to know; at newcomers empty.
    virtual void tell_card(std::span<const std::byte> group, std::span<const std::byte> card) = 0;
    virtual void tell_wired(std::uint32_t serial) = 0;
    virtual void tell_unwired(std::uint32_t serial, std::string_view why) = 0;
    virtual void tell_formed(std::span<const PersonBody> newcomers, std::span<const PersonBody> left_out,
                             std::span<const std::byte> group) = 0;

    // The group has changed. Of the launcher's nothing depends on it.
    virtual void attend(const Company& /*company*/) {}
    // Something has happened since the last look, of which nothing had to be told.
    virtual bool is_busy() const { return false; }
    // It knows of the end of processes itself, whatever transports say.
    virtual bool is_witness() const { return true; }
    // A ticket, with these doors of other members besides the own one.
    virtual Result<std::vector<std::byte>> invite(std::uint32_t uses, std::uint64_t lifetime_ns,
                                                  std::span<const DoorAddress> others);

    // What a frame says that the launcher, or a door, sends to those that have entered.
    static std::optional<Event> event_of(const LauncherFrame& frame);
    static std::vector<std::byte> card_frame(std::span<const std::byte> group, std::span<const std::byte> card);
    static std::vector<std::byte> wired_frame(std::uint32_t serial);
    static std::vector<std::byte> unwired_frame(std::uint32_t serial, std::string_view why);
    static std::vector<std::byte> formed_frame(std::span<const PersonBody> newcomers,
                                               std::span<const PersonBody> left_out, std::span<const std::byte> group);
};

// By the launcher.
class LauncherAdmission final : public Admission {
  public:
    // Connects; one that was started late is a newcomer. `deadline_ns`: CLOCK_MONOTONIC, for connecting alone.
    static Result<std::unique_ptr<Admission>> enter(const LauncherEnvironment& environment, std::uint64_t deadline_ns);
    ~LauncherAdmission() override;

    int descriptor() const override { return connection_->poll_descriptor(); }
    Result<std::optional<Event>> next() override;
    void tell_card(std::span<const std::byte> group, std::span<const std::byte> card) override {
        connection_->post(card_frame(group, card));
    }
    void tell_wired(std::uint32_t serial) override { connection_->post(wired_frame(serial)); }
    void tell_unwired(std::uint32_t serial, std::string_view why) override {
        connection_->post(unwired_frame(serial, why));
    }
    void tell_formed(std::span<const PersonBody> newcomers, std::span<const PersonBody> left_out,
                     std::span<const std::byte> group) override {
        connection_->post(formed_frame(newcomers, left_out, group));
    }

  private:
    explicit LauncherAdmission(std::unique_ptr<LauncherConnection> connection) : connection_(std::move(connection)) {}

    std::unique_ptr<LauncherConnection> connection_;
};

}  // namespace coppice::bootstrap
