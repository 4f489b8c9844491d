#include "simulation/world/message_name.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "engine/wire/wire.hpp"

namespace coppice::world {
namespace {

using engine::Channel;

std::string_view name_of(Channel channel) {
    switch (channel) {
        case Channel::members:
            return "members";
        case Channel::window:
            return "window";
        case Channel::revocation:
            return "revocation";
        case Channel::broadcast:
            return "broadcast";
        case Channel::failure_proof:
            return "failure-proof";
        case Channel::agreement:
            return "agreement";
        case Channel::succession:
            return "succession";
        case Channel::payload:
            return "payload";
        case Channel::placed:
            return "placed";
        case Channel::reading:
            return "reading";
        case Channel::addresses:
            return "addresses";
    }
    return "?";
}

std::string_view to_string(engine::MembersKind kind) {
    using Kind = engine::MembersKind;
    switch (kind) {
        case Kind::failure_notice:
            return "failure-notice";
        case Kind::heartbeat:
            return "heartbeat";
        case Kind::left:
            return "left";
        case Kind::leaving_ask:
            return "leaving-ask";
        case Kind::leaving_answer:
            return "leaving-answer";
        case Kind::never_here:
            return "never-here";
        case Kind::still_lives:
            return "still-lives";
    }
    return "?";
}

std::string_view to_string(engine::ReadingKind kind) {
    return kind == engine::ReadingKind::here ? "here" : "done";
}

std::string_view to_string(engine::AddressesKind kind) {
    using Kind = engine::AddressesKind;
    switch (kind) {
        case Kind::wanted:
            return "wanted";
        case Kind::page:
            return "page";
        case Kind::introduction:
            return "introduction";
        case Kind::complete:
            return "complete";
    }
    return "?";
}

std::string_view to_string(engine::RevocationKind kind) {
    return kind == engine::RevocationKind::revoked ? "revoked" : "known";
}

template <class Kind>
std::string_view name_as(std::uint8_t kind) {
    return to_string(static_cast<Kind>(kind));
}

std::string_view kind_of(engine::Tag tag) {
    switch (tag.channel) {
        case Channel::members:
            return name_as<engine::MembersKind>(tag.kind);
        case Channel::window:
            return name_as<protocol::StabilityKind>(tag.kind);
        case Channel::revocation:
            return name_as<engine::RevocationKind>(tag.kind);
        case Channel::broadcast:
            return name_as<protocol::MessageKind>(tag.kind);
        case Channel::failure_proof:
            return name_as<protocol::FailureProofKind>(tag.kind);
        case Channel::agreement:
            return name_as<protocol::AgreementKind>(tag.kind);
        case Channel::succession:
            return name_as<protocol::MembershipKind>(tag.kind);
        case Channel::payload:
            return name_as<protocol::PullKind>(tag.kind);
        case Channel::placed:
            return name_as<protocol::PlacedKind>(tag.kind);
        case Channel::reading:
            return name_as<engine::ReadingKind>(tag.kind);
        case Channel::addresses:
            return name_as<engine::AddressesKind>(tag.kind);
    }
    return "?";
}

}  // namespace

std::string describe_message(std::span<const std::byte> header, std::size_t payload) {
    engine::WireHeader read;
    if (header.size() < engine::kShortHeader || header.size() > sizeof read)
        return fmt::format("a header of {} bytes, {} bytes", header.size(), payload);
    std::memcpy(static_cast<void*>(&read), header.data(), header.size());
    if (!engine::is_known(read.tag)) return fmt::format("a kind that nobody knows, {} bytes", payload);
    std::string text = fmt::format("{}/{}, sequence {}", name_of(read.tag.channel), kind_of(read.tag), read.sequence);
    if (read.detail != 0) text += fmt::format(", detail {}", read.detail);
    if (read.epoch != 0) text += fmt::format(", epoch {}", read.epoch);
    return text + fmt::format(", {} bytes", payload);
}

}  // namespace coppice::world
