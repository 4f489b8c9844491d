// The board of one host: lines, counters and failure logs in the ranks' shared segments (layout.hpp).
#pragma once

#include <functional>
#include <vector>

#include "transport/board.hpp"
#include "transport/shm/segment.hpp"

namespace coppice::transport::shm {

class ShmBoard final : public Board {
  public:
    // What a board asks of its transport.
    class Owner {
      public:
        virtual void listen() = 0;          // as Board::listen()
        virtual void ring_listeners() = 0;  // something was published, and Mailroom::listeners is 1
        // As the calls of Board, for a panel, and for the rank whose segment is mapped there.
        virtual Bulk take_bulk(std::size_t bytes, std::uint64_t most, std::uint32_t panel) = 0;
        virtual void give_bulk_back(std::uint64_t place, std::size_t keep) = 0;
        virtual const std::byte* bulk(const std::byte* segment, std::uint64_t place, std::size_t bytes) = 0;
        // Once the mailroom says that somebody takes this rank for dead: whether a member of that board does.
        virtual bool is_fenced_on(const ShmBoard& board) const = 0;

      protected:
        ~Owner() = default;
    };

    // `wake` wakes a member, by the number that the group has for it.
    ShmBoard(OwnSegment& own, const Regions& regions, std::uint32_t panel, Owner& bells,
             std::function<void(Rank)> wake);

    // The members as the group counts them, ascending, this rank among them, and the beginning of each one's segment as it is
    // mapped here (nullptr: it died before it could be). Called once, before anything else.
    void seal(std::vector<Rank> members, const std::vector<const std::byte*>& bases);

    // Whether a member's segment is mapped there.
    bool refers_to(const std::byte* base) const;

    std::span<const Rank> members() const override { return members_; }
    std::uint32_t lines() const override { return window_; }
    std::byte* line_memory(Sequence sequence) override;
    void will_publish(Sequence sequence) override;
    void publish(Sequence sequence, std::uint32_t length, std::uint32_t root, std::uint32_t detail) override;
    void publish_copy(Sequence sequence, std::span<const std::byte> payload, std::uint32_t root,
                      std::uint32_t detail) override;
    bool publish_unless_fenced(Sequence sequence, std::span<const std::byte> payload, Rank self) override;
    bool look(Rank member, Sequence sequence, PublishedLine& line) const override;
    bool copy_published(Rank member, Sequence sequence, std::span<std::byte> to, std::size_t* length) const override;
    void set_consumed(Sequence sequence) override;
    Sequence consumed(Rank member) const override;
    void set_stable(Sequence sequence) override;
    Sequence stable(Rank member) const override;
    void log_failure(Rank failed) override;
    std::uint32_t log_length(Rank member) const override;
    Rank logged(Rank member, std::uint32_t index) const override;
    Regions::Place find_region(std::string_view name) const override { return regions_.find(name); }
    std::byte* own_region(Regions::Place place) override { return own_panel() + regions_at_ + place.at; }
    const std::byte* region(Rank member, Regions::Place place) const override {
        const std::byte* const start = panel(member);
        return start == nullptr ? nullptr : start + regions_at_ + place.at;
    }
    Bulk take_bulk(std::size_t bytes, std::uint64_t most) override { return owner_.take_bulk(bytes, most, number_); }
    void give_bulk_back(std::uint64_t place, std::size_t keep) override { owner_.give_bulk_back(place, keep); }
    const std::byte* bulk(Rank member, std::uint64_t place, std::size_t bytes) override;
    bool alive(Rank member) const override;
    bool fenced() const override;
    void depart() override;
    bool departed(Rank member) const override;
    void wake(Rank member) override { wake_(member); }
    void listen() override { owner_.listen(); }
    void publish_word(shared::Published<std::uint64_t>& word, std::uint64_t value) override;

  private:
    // Ranks of one host mostly follow each other, so a member is found by its distance from the first.
    const std::byte* panel(Rank member) const {
        const std::uint32_t index = member.value - first_;
        return index < numbers_ ? panels_[index] : nullptr;
    }
    const PanelHeader* header(Rank member) const { return reinterpret_cast<const PanelHeader*>(panel(member)); }
    std::byte* own_panel() const { return own_panel_; }
    PanelHeader& own_header() const { return *reinterpret_cast<PanelHeader*>(own_panel()); }
    std::size_t line_at(Sequence sequence) const {
        std::uint64_t index = sequence.value & mask_;
        if (mask_ == 0) [[unlikely]]
            index = sequence.value % window_;
        return lines_at_ + static_cast<std::size_t>(index) * kLineStride;
    }

    // As look(), fenced().
    bool see(Rank member, Sequence sequence, PublishedLine& line) const;
    bool is_fenced() const;

    // A line of this rank's own is written there, or its payload is there: all see it.
    struct Label {
        Sequence sequence;
        std::uint32_t root;
        std::uint32_t detail;
    };
    void write(std::byte* at, Label label, std::span<const std::byte> payload);
    void write_longer(std::byte* at, Label label, std::span<const std::byte> payload);
    void show(std::byte* at, Label label, std::size_t length);

    void tell_listeners() {
        if (mailroom_.listeners.get() != 0) [[unlikely]]
            owner_.ring_listeners();
    }

    OwnSegment& own_;
    Owner& owner_;
    const Mailroom& mailroom_;
    std::function<void(Rank)> wake_;
    std::uint32_t number_;  // of the panel
    std::uint32_t window_;
    std::uint64_t mask_;  // window_ - 1 where that is a mask, else 0
    const Regions& regions_;
    std::size_t regions_at_;  // in a panel, as the next one
    std::size_t lines_at_;
    std::size_t panel_at_;  // in every segment
    std::byte* own_panel_;
    std::uint32_t first_ = 0;
    std::uint32_t numbers_ = 0;  // of panels_, from the first member's to the last one's
    std::vector<const std::byte*> panels_;
    std::vector<Rank> members_;
};

}  // namespace coppice::transport::shm
