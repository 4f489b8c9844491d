// One of four ranks, each on a host of its own, over a wire whose reads land when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/context.hpp"
#include "engine/group.hpp"
#include "some_transport_set.hpp"

namespace coppice::engine {

inline constexpr Rank kSelf{1};
inline constexpr Rank kOther{3};  // stands in for the root
inline constexpr Rank kRoot{kPeer.value};

// A wire whose reads land when the test says so.
class ReadingWire final : public Wire {
  public:
    struct Read {
        transport::RemoteMemory what;
        std::span<std::byte> into;
        transport::Reads* reads;
    };
    std::vector<Read> under_way;

    ReadingWire() { reads(true); }
    void reads(bool native) { capabilities_.native_read = native; }
    const char* exposes_nothing_as = nullptr;  // there is a limit, say

    Result<transport::Exposure> expose(std::span<std::byte> memory) override {
        if (exposes_nothing_as != nullptr) return fail(COPPICE_ERR_NO_RESOURCES, "{}", exposes_nothing_as);
        return transport::Exposure{.address = reinterpret_cast<std::uint64_t>(memory.data()), .key = 1, .own_key = 1};
    }
    transport::SendStatus read(Seat, const transport::RemoteMemory& what, std::span<std::byte> into,
                               const transport::Exposure&, transport::Reads* reads) override {
        ++reads->under_way;
        under_way.push_back({what, into, reads});
        return transport::SendStatus::sent;
    }
    bool may_be_read_by(Seat) const override { return true; }

    // One of those under way does, by default the first.
    void land(std::span<const std::byte> bytes, std::size_t which = 0) {
        const Read read = under_way.at(which);
        under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
        ASSERT_EQ(read.into.size(), bytes.size());
        std::memcpy(read.into.data(), bytes.data(), bytes.size());
        --read.reads->under_way;
        ++read.reads->arrived;
    }
    // The first, which brings what is there already: nothing is written.
    void land_as_it_is() {
        const Read read = under_way.front();
        under_way.erase(under_way.begin());
        --read.reads->under_way;
        ++read.reads->arrived;
    }
};

// One of four ranks, each on a host of its own. Nobody moves it but the test.
class GroupOfFour : public ::testing::Test {
  protected:
    explicit GroupOfFour(std::map<std::string_view, const char*> settings = {}, Platform* platform = nullptr) {
        settings["COPPICE_PROGRESS_THREAD"] = "0";
        const SettingTexts texts([&settings](const char* name) -> const char* {
            const auto found = settings.find(name);
            return found != settings.end() ? found->second : nullptr;
        });
        context_ = Context::create(texts, false, platform).value();
        auto made = std::make_unique<ReadingWire>();
        wire_ = made.get();
        const std::uint8_t index = set_->add(std::move(made));
        for (std::uint32_t peer = 0; peer < kRanks; ++peer)
            set_->route(Seat(peer), index);
        group_ = make_group({.token = kToken, .epoch = Epoch(0)});
        wire_->sent_to.clear();
        wire_->sent.clear();
    }
    ~GroupOfFour() override { context_->detach(*group_); }

    std::unique_ptr<Group> make_group(GroupId id) {
        auto group = std::make_unique<Group>(Core::Parts{.context = context_.get(),
                                                         .settings = context_->settings(),
                                                         .members = Members(kSelf, topology::Nodes::flat(kRanks)),
                                                         .router = Router(set_, kRanks),
                                                         .id = id,
                                                         .on_failure = nullptr},
                                             context_->settings().plan_for(kRanks, {}).value());
        context_->attach(*group);
        return group;
    }

    // One poll hears all of that, and then the group goes on.
    void hear(std::function<void(transport::Receiver&)> what) {
        wire_->next_poll = std::move(what);
        group_->progress(Group::Care::thorough);
    }
    void say(Rank from, WireHeader header, std::span<const std::byte> payload = {}) {
        if (header.token == 0) header.token = kToken;
        header.length |= static_cast<std::uint32_t>(payload.size());
        hear([from, header, payload](transport::Receiver& set) {
            set.message(Seat(from.value), encode(header), payload, 0);
        });
    }
    bool has_sent(Rank to, Tag tag) const {
        for (std::size_t i = 0; i < wire_->sent.size(); ++i)
            if (wire_->sent_to[i] == Seat(to.value) && wire_->sent[i].tag == tag) return true;
        return false;
    }

    static constexpr std::uint32_t kToken = 7;
    std::unique_ptr<Context> context_;
    std::shared_ptr<TransportSet> set_ = std::make_shared<TransportSet>(kRanks);
    ReadingWire* wire_ = nullptr;
    std::unique_ptr<Group> group_;
};

}  // namespace coppice::engine
