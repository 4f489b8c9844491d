// Messages and the board between the ranks of one host, through shared memory of our own.
//
// Each rank owns one segment (segment.hpp). A rank that sends to it for the first time claims an inbox there, which
// then has that one writer for good (link.hpp), and rings the reader's doorbell after each message; an idle poll reads
// the doorbell's cache line and one peer's obituary, and makes no system call. Deaths are read from obituaries
// (obituary.hpp); a slow look at the processes themselves, some peer every ShmOptions::second_look_ns, backs them up.
//
// Everything that a rank published or sent completely before it died is still delivered; nothing is delivered by half.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/host_memory.hpp"
#include "transport/shm/bell.hpp"
#include "transport/shm/bulk.hpp"
#include "transport/shm/link.hpp"
#include "transport/shm/segment.hpp"
#include "transport/shm/shm_board.hpp"
#include "transport/transport.hpp"

namespace coppice::transport {

struct ShmOptions {
    Seat self;
    std::uint32_t group_size = 1;
    std::uint32_t window = 32;                  // W, 1 … 1024; the same at all ranks
    std::string host;                           // as host_identity(): the name of the simulated host, usually empty
    std::uint32_t max_local = 0;                // ranks of the group on one host at most; 0: min(group_size, 1024)
    std::uint64_t second_look_ns = 20'000'000;  // between two looks at processes themselves; 0: none
    std::span<const Region> regions{};          // of each board; the same at all ranks of the host
};

class ShmTransport final : public Transport, public HostMemory, public shm::ShmBoard::Owner {
  public:
    // Makes the segment: three file descriptors for a moment, two for good, and W·8 KiB of memory for the lines, twice
    // once a board is sealed. Inboxes
    // take memory when somebody sends (24 KiB and 64 KiB for large payloads, growing to 2·W·8 KiB while the reader lags).
    static Result<std::unique_ptr<ShmTransport>> create(const ShmOptions& options);
    ~ShmTransport() override;

    // The host key (host_identity()) in an address of this transport; "" when it is none of this version.
    static std::string host_of(std::span<const std::byte> address);

    const Capabilities& capabilities() const override;
    Counters counters() const override { return counters_; }
    std::vector<std::byte> address() const override;

    // COPPICE_ERR_NO_TRANSPORT for a peer on another host, COPPICE_ERR_MISMATCH for another version, word size, window
    // or group size, COPPICE_ERR_PEER_FAILED when the process has ended already. This rank itself is accepted and ignored.
    Result<void> add_peer(Seat peer, std::span<const std::byte> address) override;
    void watch(Seat peer) override;
    SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                    std::uint32_t* in_flight) override;
    SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                     std::uint32_t* in_flight) override;
    std::size_t poll(Receiver& receiver) override;
    int arm() override;
    void release(Buffer buffer) override;
    void fence(Seat peer) override;
    void forget(Seat peer) override;
    bool leave() override;

    void look_at_cores() override;
    std::uint32_t sharing_cores(std::span<const Seat> ranks) const override;
    pid_t process_of(Seat rank) const override;
    void keep_memory() override;

    Result<void> seal_board(std::vector<Seat> members) override;
    Result<void> admit(Seat rank, std::uint32_t incarnation) override;
    Board& board(std::uint32_t panel) override { return *boards_[panel]; }
    std::uint32_t clean_panels() const override { return clean_; }
    void make_panel_ready() override;
    void make_all_panels_ready() override;
    Board& open_board(std::uint32_t panel, std::span<const BoardMember> members) override;
    void close_board(std::uint32_t panel) override;
    std::uint32_t closed_panels() const override { return closed_; }
    void clear_panels(std::uint32_t panels) override;

    // Wakes that rank if it sleeps: for what was written where it does not show at its arm().
    void wake(Seat rank);
    // shm::ShmBoard::Owner
    void listen() override;
    void ring_listeners() override;
    Board::Bulk take_bulk(std::size_t bytes, std::uint64_t most, std::uint32_t panel) override;
    void give_bulk_back(std::uint64_t place, std::size_t keep) override { own_bulk_.give_back(place, keep); }
    const std::byte* bulk(const std::byte* segment, std::uint64_t place, std::size_t bytes) override;
    bool is_fenced_on(const shm::ShmBoard& board) const override;

  private:
    struct Peer;
    static constexpr std::uint32_t kUnheard = 64;  // publications that nobody listened for, until they are silent again
    // What this rank sleeps on.
    struct Sleep {
        explicit Sleep(shm::Bell own) : bell(std::move(own)) {}
        ~Sleep();
        Sleep(const Sleep&) = delete;
        Sleep& operator=(const Sleep&) = delete;
        shm::Bell bell;
        int set = -1;                        // epoll, of all of them
        int process = -1;                    // of the peer that is watched
        std::uint32_t watched = UINT32_MAX;  // index into peers_
        bool armed = false;  // and stays so through all the polls that bring nothing, of callers that do not sleep, too
        bool listens = false;
        std::uint32_t polls = 0;  // since then
    };

    ShmTransport(const ShmOptions& options, shm::OwnSegment segment, Regions regions, std::string host);
    Peer* find(Seat rank) const;
    Peer* find_for_board(const BoardMember& member) const;
    // Maps the peer's segment, once. False: not now, or never (Peer::lost).
    bool map(Peer& peer);
    // The same for boards, and watches it. Null: never, as it is dead.
    Result<const std::byte*> map_for_boards(Peer& peer);
    bool connect(Peer& peer);
    std::uint32_t claim_inbox(shm::Mailroom& mail) const;
    void start_watching(Peer& peer);
    SendStatus put(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                   std::uint64_t& counter);
    SendStatus put_any(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                       std::uint64_t& counter);
    SendStatus announce(const Peer& peer);
    SendStatus announce_to_sleeper(const Peer& peer);

    void collect_rings(shm::Mailroom& mail);
    void prepare_inboxes();
    std::size_t visit_rung(Receiver& receiver);
    Peer* claimant(std::uint32_t inbox) {
        const std::uint32_t known = inbox < peer_of_inbox_.size() ? peer_of_inbox_[inbox] : UINT32_MAX;
        return known != UINT32_MAX ? peers_[known].get() : new_claimant(inbox);
    }
    Peer* new_claimant(std::uint32_t inbox);
    std::size_t drain(Peer& peer, Receiver& receiver, std::size_t at_most, bool& more);
    std::size_t look_at_one(Receiver& receiver);
    bool second_look_due();
    std::size_t second_look(Receiver& receiver);
    std::size_t tell_who_fenced(Receiver& receiver);
    Peer* find_by_nonce(std::uint64_t nonce) const;
    std::size_t bury(Peer& peer, FailureCause cause, Receiver& receiver);
    void find_unrung(const Peer& peer);
    void give_back_what_was_forgotten();
    void give_inbox_back(Peer& peer);
    bool is_on_a_board(const Peer& peer) const;
    void stay_awake();
    void watch_next_process();
    std::size_t look_at_watched_process(Receiver& receiver);
    bool ring_bell(const Peer& peer);
    bool wake_listeners();

    shm::Mailroom& mailroom() const;
    shm::Claim& claim(std::uint32_t inbox) const;

    Seat self_;
    std::string host_;
    shm::OwnSegment own_;
    shm::OwnBulk own_bulk_;
    Regions regions_;
    Sleep sleep_;
    std::array<std::unique_ptr<shm::ShmBoard>, kPanels> boards_;  // open ones, and the first
    std::uint32_t unheard_ = 0;                                   // publications in a row
    std::uint32_t clean_ = 0;
    std::uint32_t closed_ = 0;
    Counters counters_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::vector<std::uint32_t> forgotten_;      // indices into peers_, of those of which something is left
    std::vector<std::uint32_t> unused_;         // the same, and nothing is
    std::vector<std::uint32_t> peer_of_rank_;   // index into peers_, or kNobody
    std::vector<std::uint32_t> peer_of_inbox_;  // the same, once its claim was found right
    std::vector<std::uint32_t> watched_;        // indices into peers_
    std::size_t watch_cursor_ = 0;
    std::size_t second_cursor_ = 0;
    std::uint32_t polls_ = 0;  // that brought messages
    std::uint32_t looks_ = 0;  // at obituaries
    const std::uint64_t second_look_period_ns_;
    std::uint64_t second_look_ns_ = 0;
    std::uint32_t bell_words_ = 0;
    std::uint64_t prepared_ = 0;          // so many inboxes are mapped
    bool rung_ = false;                   // some bit of pending_ is set
    std::vector<std::uint64_t> pending_;  // rung and not emptied yet, a bit per inbox
    std::vector<std::uint64_t> unknown_;  // claimed by a rank that was not added yet
};

}  // namespace coppice::transport
