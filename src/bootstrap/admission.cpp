#include "bootstrap/admission.hpp"

#include <utility>

#include "bootstrap/bootstrap.hpp"

namespace coppice::bootstrap {

Result<std::unique_ptr<Admission>> Bootstrap::admission(std::uint64_t /*deadline_ns*/) {
    return std::unique_ptr<Admission>();
}

Result<std::vector<std::byte>> Admission::invite(std::uint32_t /*uses*/, std::uint64_t /*lifetime_ns*/,
                                                 std::span<const DoorAddress> /*others*/) {
    return fail(COPPICE_ERR_CONFIG,
                "the launcher starts those that join this group: have coppice-run start them (--respawn, --spares, "
                "--join), or start the ranks without these options, with COPPICE_JOIN=any");
}

Result<std::unique_ptr<Admission>> LauncherAdmission::enter(const LauncherEnvironment& environment,
                                                            std::uint64_t deadline_ns) {
    auto connection = LauncherConnection::open(environment.socket_path, environment.rank,
                                               max_formed_bytes(kMaxLauncherRanks), deadline_ns);
    if (!connection) return tl::unexpected(std::move(connection.error()));
    std::vector<std::byte> body;
    append(body, EnterBody{environment.rank.value, environment.incarnation ? 1U : 0U});
    if (auto sent = (*connection)->send_all(make_frame(FrameKind::enter, body), deadline_ns); !sent)
        return tl::unexpected(std::move(sent.error()));
    return std::unique_ptr<Admission>(new LauncherAdmission(std::move(*connection)));
}

LauncherAdmission::~LauncherAdmission() {
    connection_->post(make_frame(FrameKind::bye, std::string_view{}));
}

Result<std::optional<Admission::Event>> LauncherAdmission::next() {
    connection_->flush();
    auto frame = connection_->next_frame();
    if (!frame) return tl::unexpected(std::move(frame.error()));
    if (!*frame) return std::optional<Event>();
    auto event = event_of(**frame);
    if (!event) return fail(COPPICE_ERR_BOOTSTRAP, "the launcher says of newcomers what this rank does not understand");
    return event;
}

std::optional<Admission::Event> Admission::event_of(const LauncherFrame& frame) {
    using Kind = Event::Kind;
    Event event;
    std::span<const std::byte> rest(frame.body);
    bool is_good = true;
    switch (frame.kind) {
        case FrameKind::invitation:
            event.kind = Kind::invited;
            is_good = take(rest, event.who);
            break;
        case FrameKind::introduce:
            event.kind = Kind::introduced;
            is_good = take(rest, event.who);
            break;
        case FrameKind::gone:
            event.kind = Kind::gone;
            is_good = take(rest, event.who.serial) && rest.empty();
            break;
        case FrameKind::ready:
            event.kind = Kind::ready;
            is_good = take(rest, event.who) && rest.empty();
            break;
        case FrameKind::formed:
            event.kind = Kind::formed;
            break;
        default:
            is_good = false;
    }
    if (!is_good) return std::nullopt;
    event.body.assign(rest.begin(), rest.end());
    return event;
}

std::vector<std::byte> Admission::card_frame(std::span<const std::byte> group, std::span<const std::byte> card) {
    std::vector<std::byte> body;
    append(body, static_cast<std::uint32_t>(group.size()));
    append_bytes(body, group);
    append_bytes(body, card);
    return make_frame(FrameKind::card, body);
}

std::vector<std::byte> Admission::wired_frame(std::uint32_t serial) {
    std::vector<std::byte> body;
    append(body, serial);
    return make_frame(FrameKind::wired, body);
}

std::vector<std::byte> Admission::unwired_frame(std::uint32_t serial, std::string_view why) {
    std::vector<std::byte> body;
    append(body, serial);
    append_bytes(body, std::as_bytes(std::span(why.substr(0, kMaxRefusal))));
    return make_frame(FrameKind::unwired, body);
}

std::vector<std::byte> Admission::formed_frame(std::span<const PersonBody> newcomers,
                                               std::span<const PersonBody> left_out, std::span<const std::byte> group) {
    std::vector<std::byte> body;
    for (const std::span<const PersonBody> people : {newcomers, left_out}) {
        append(body, static_cast<std::uint32_t>(people.size()));
        for (const PersonBody& one : people)
            append(body, one);
    }
    append_bytes(body, group);
    return make_frame(FrameKind::formed, body);
}

}  // namespace coppice::bootstrap
