// Groups that are made by renewals: what their views have to say.
#include <algorithm>

#include "chaos_team.hpp"

namespace chaos {

void Team::join(std::uint32_t self, bool is_late) {
    told_ = std::make_shared<Told>();
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    if (!is_late) options.timeout_ns = patience_ns();  // one that is late waits until it is told why it can't come in
    options.on_failure = Told::on_failure;
    options.on_failure_argument = told_.get();
    coppice_group_t* group = nullptr;
    const coppice_status_t status = coppice_group_create(context_, &options, &group);
    const std::string what = describe("joining", status);
    if (options_.may_not_create &&
        (status == COPPICE_ERR_BOOTSTRAP || status == COPPICE_ERR_NO_TRANSPORT || status == COPPICE_ERR_NO_RESOURCES)) {
        leave("c " + what);
    }
    if (is_late && status == COPPICE_ERR_BOOTSTRAP)
        leave(fmt::format("w {} {}", microseconds_now(), coppice_last_error()));
    if (status == COPPICE_ERR_TIMEOUT || status == COPPICE_ERR_BOOTSTRAP) wrong("hung", what);
    if (status == COPPICE_ERR_FENCED && options_.may_be_fenced) leave("f");
    if (status != COPPICE_OK) wrong("lost", what);
    look(group, self);
    const bool is_new = seats_[info_.rank].before == COPPICE_NOBODY && seats_[info_.rank].since == view_.epoch;
    if (!is_new || is_late != (view_.epoch > 0))
        wrong("diverged",
              fmt::format("team {:x} of epoch {} is none that this process can have joined", id_, view_.epoch));
}

// Two groups that are not the same have different numbers.
void Team::look(coppice_group_t* group, std::uint32_t self) {
    self_ = self;
    view_.struct_size = sizeof view_;
    seats_.resize(256);
    const coppice_status_t status = coppice_group_view(group, &view_, seats_.data(), seats_.size());
    if (status != COPPICE_OK) wrong("lost", describe("asking a group that was just made for its view", status));
    seats_.resize(std::min<std::size_t>(view_.size, seats_.size()));
    members_.clear();
    id_ = mix(options_.seed, view_.epoch);
    std::string heritage;
    for (const coppice_member_t& seat : seats_) {
        members_.push_back(process_of(seat.seat, seat.incarnation));
        id_ = mix(id_, members_.back());
        heritage += heritage.empty() ? "" : ",";
        heritage += seat.before == COPPICE_NOBODY ? "-" : std::to_string(seat.before);
        heritage += fmt::format(":{}", seat.since);
    }
    id_ >>= 20;
    adopt(group);
    log_line(fmt::format("v {:x} {} {} {} {}", id_, view_.epoch, view_.eldest, view_.newcomers, heritage));
    if (view_.epoch != info_.epoch) wrong("diverged", fmt::format("team {:x} has two epochs", id_));
    if (members_[info_.rank] != self_)
        wrong("diverged", fmt::format("rank {} of team {:x} is said to be {}", info_.rank, id_, members_[info_.rank]));
    std::uint32_t eldest = 0;
    for (std::uint32_t rank = 1; rank < seats_.size(); ++rank)
        if (seats_[rank].since < seats_[eldest].since) eldest = rank;
    if (view_.eldest != eldest)
        wrong("diverged", fmt::format("rank {} is not the eldest of team {:x}", view_.eldest, id_));
}

// `gone`: ranks of the parent that are not in this group, as was agreed upon.
void Team::check_heritage(const Team& parent, const Members& gone) const {
    std::uint32_t newcomers = 0;
    Members lost(parent.members_.size());
    for (std::uint32_t rank = 0; rank < lost.size(); ++rank)
        lost[rank] = rank;
    for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
        const coppice_member_t& seat = seats_[rank];
        const bool is_new = seat.before == COPPICE_NOBODY;
        newcomers += is_new;
        std::erase(lost, seat.before);
        const bool is_right = is_new ? seat.since == view_.epoch
                                     : seat.before < parent.members_.size() &&
                                           parent.members_[seat.before] == members_[rank] &&
                                           parent.seats_[seat.before].since == seat.since;
        if (!is_right)
            wrong("diverged", fmt::format("team {:x} has made another of rank {} of team {:x}", id_, rank, parent.id_));
    }
    if (newcomers != view_.newcomers || view_.epoch != parent.view_.epoch + 1)
        wrong("diverged", fmt::format("team {:x} has {} newcomers and epoch {}", id_, newcomers, view_.epoch));
    if (lost != gone)
        wrong("diverged",
              fmt::format("team {:x} is without ranks {}, and {} were agreed upon", id_, listing(lost), listing(gone)));
}

std::unique_ptr<Team> Team::renew(const coppice_renew_options_t& how, bool admits) {
    const std::uint64_t number = shrinks_++;
    coppice_group_t* group = nullptr;
    coppice_status_t status = COPPICE_OK;
    if (own_.one_in(2)) {
        status = admits ? coppice_group_renew(group_, &how, &group, patience_ns())
                        : coppice_group_shrink(group_, &group, patience_ns());
    } else {
        coppice_request_t* request = nullptr;
        status = admits ? coppice_group_renew_nb(group_, &how, &group, &request)
                        : coppice_group_shrink_nb(group_, &group, &request);
        if (status == COPPICE_OK) {
            status = coppice_request_wait(request, nullptr, patience_ns());
            coppice_request_free(request);
        }
    }
    const std::string what = describe(fmt::format("renewal {} of team {:x}", number, id_), status);
    const auto log_end = [&](const std::string& next) {
        log_line(fmt::format("n {:x} {} {} {}", id_, number, std::to_string(status), next));
    };
    if (status != COPPICE_OK || group == nullptr) log_end("-");
    if (status == COPPICE_ERR_NO_QUORUM) {
        lost_quorum_ = true;
        return nullptr;
    }
    if (status == COPPICE_ERR_FENCED && options_.may_be_fenced) leave("f");
    if (status == COPPICE_ERR_TIMEOUT) wrong("hung", what);
    if (status != COPPICE_OK) wrong("lost", what);
    if ((group == nullptr) != is_leaving_)
        wrong("lost", fmt::format("{}: this rank {}", what,
                                  is_leaving_ ? "is in it, though it wanted to leave" : "is not in it"));
    has_left_ = is_leaving_;
    if (has_left_) return nullptr;
    auto made = std::make_unique<Team>(options_, 0, context_, own_);
    made->told_ = told_;
    made->look(group, self_);
    log_end(fmt::format("{:x}", made->id_));
    made->check_heritage(*this, listed([&](std::uint32_t* ranks, std::size_t capacity, std::size_t* count) {
        return coppice_group_agreed(group_, ranks, capacity, count);
    }));
    return made;
}

void Team::want_to_leave() {
    log_line(fmt::format("l {:x}", id_));
    const coppice_status_t status = coppice_group_leave(group_);
    if (status == COPPICE_ERR_FENCED && options_.may_be_fenced) leave("f");
    if (status != COPPICE_OK) wrong("lost", describe("wanting to leave", status));
    is_leaving_ = true;
}

bool Team::tell(void* data, std::size_t bytes) {
    Flight flight;
    flight.root = view_.eldest;
    flight.bytes = bytes;
    number_it(flight);
    std::size_t received = 0;
    const coppice_status_t status = coppice_broadcast(group_, data, bytes, flight.root, &received, patience_ns());
    if (status != COPPICE_OK) {
        broadcast_ended(flight, status, received);
        return false;
    }
    log_line(fmt::format("b {:x} {} {} 0", id_, flight.number, members_[flight.root]));
    if (flight.root != info_.rank && received != bytes)
        wrong("corrupt", name(flight) + ": another state than the eldest's");
    return true;
}

bool Team::agree_on(std::vector<std::uint64_t>& words, bool& pending) {
    coppice_agree_options_t options = COPPICE_AGREE_OPTIONS_INIT;
    options.operation = COPPICE_MAX;
    options.type = COPPICE_UINT64;
    const std::uint64_t number = number_++;
    const coppice_status_t status =
        coppice_agree(group_, words.data(), words.size() * sizeof words[0], &options, patience_ns());
    const bool has_ended = status == COPPICE_OK || status == COPPICE_ERR_PEER_FAILED;
    Members failed;
    int waits = 0;
    if (has_ended) {
        failed = listed([&](std::uint32_t* ranks, std::size_t capacity, std::size_t* count) {
            return coppice_group_agreed(group_, ranks, capacity, count);
        });
        if (const auto asked = coppice_group_pending(group_, &waits); asked != COPPICE_OK)
            wrong("lost", describe("asking what is pending", asked));
    }
    pending = waits != 0;
    std::string text = pending ? "pending" : "";
    for (const std::uint64_t word : words)
        text += fmt::format(":{:x}", word);
    log_line(fmt::format("a {:x} {} {} {} {}", id_, number, std::to_string(status), text, listing(failed)));
    const std::string what = fmt::format("agreement {} of team {:x}", number, id_);
    if (ends_here(status, what)) return false;
    if (!has_ended) wrong("lost", describe(what, status));
    if (!std::ranges::includes(failed, agreed_)) wrong("lost", what + ": a rank that had failed is alive again");
    if (is_leaving_ && !pending) wrong("lost", what + ": nothing is pending, though this rank wants to leave");
    agreed_ = failed;
    return status == COPPICE_OK;
}

}  // namespace chaos
