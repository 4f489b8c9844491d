// What the tests of the verbs transport share. They need an RDMA device; the ranks of a test take turns at all there
// are.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/conformance.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace coppice::testing {

inline constexpr std::uint64_t kVerbsToken = 0x5EED0FBEEF5EED01ULL;

// Names of the RDMA devices of this host.
std::vector<std::string> rdma_devices();

// How long a device waits for an answer (4.096 µs · 2^n) and how often it asks again: two seconds at least together,
// for where everything is emulated an answer may take its time.
inline constexpr std::uint8_t kAnswerTimeout = 16;
inline constexpr std::uint8_t kAnswerRetries = 6;

transport::VerbsOptions verbs_options(Seat self, std::uint32_t size);
// Throws CheckFailed with the error's sentence if there is none.
std::unique_ptr<transport::VerbsTransport> make_verbs(const transport::VerbsOptions& options);

class VerbsFactory final : public Factory {
  public:
    const char* name() const override { return "verbs"; }
    Result<std::unique_ptr<Transport>> make(Seat self, std::uint32_t size) override;
    Bytes of_other_version(Bytes address) override;
    bool send_garbage(Transport& transport) override;
    std::uint64_t replacements() const override { return 5; }
    // It shares its connections.
    bool forked_children_do_not_count() const override { return false; }
};

// A stranger that connects to a rank's address with any bytes for a card, and then does what a rank would not. It lives
// in the host's process, whose polls it needs.
class Visitor {
  public:
    // How far it goes: it has asked and does not wait, it was answered one way or the other but never says that it has
    // got the answer, or the connection is open.
    enum class Until : std::uint8_t { asked, answered, open };
    Visitor(transport::VerbsTransport& host, transport::Receiver& receiver, const Bytes& card,
            Until until = Until::open);
    Visitor(const Visitor&) = delete;
    Visitor& operator=(const Visitor&) = delete;
    ~Visitor();

    bool accepted() const { return accepted_; }
    transport::verbs::Refusal refusal() const { return refusal_; }
    // What the host gave: where this visitor may write.
    const transport::verbs::Card& host_card() const { return host_card_; }

    // One RDMA write, or send, of these bytes; how it ended.
    ibv_wc_status write(const Bytes& bytes, std::uint64_t address, std::uint32_t key);
    ibv_wc_status send(const Bytes& bytes);

  private:
    void make_queue_pair();
    void activate();
    ibv_wc_status post(ibv_send_wr& request, const Bytes& bytes);

    rdma_event_channel* channel_ = nullptr;
    rdma_cm_id* id_ = nullptr;
    ibv_pd* domain_ = nullptr;
    ibv_cq* queue_ = nullptr;
    ibv_qp* pair_ = nullptr;
    ibv_mr* region_ = nullptr;
    Bytes memory_ = Bytes(16384);
    bool accepted_ = false;
    transport::verbs::Refusal refusal_ = transport::verbs::Refusal::none;
    transport::verbs::Card host_card_;
};

// A card as rank `rank` of the tests' group of `size` would show it.
transport::verbs::Card visiting_card(std::uint32_t rank);

// What a rank's write number `number` (from 1) into its slots at another one looks like.
Bytes sealed_write(std::uint32_t number, std::uint32_t from, std::uint32_t to, const Bytes& payload);

// Of a transport that can't be made.
std::string error_of(const transport::VerbsOptions& options);
// Throws CheckFailed with the message unless this is part of it.
bool says(const std::string& message, const char* part);

// Runs `body` in a process of its own, as what is forked later must not share a device with it.
void in_process(const std::function<void()>& body);

// Ranks of one group in this process.
struct VerbsGroup {
    explicit VerbsGroup(std::uint32_t size);
    void poll_until(const std::function<bool()>& condition, const char* what);
    transport::SendStatus send(std::uint32_t from, std::uint32_t to, std::span<const std::byte> payload,
                               bool one_sided = false);

    std::vector<std::unique_ptr<transport::VerbsTransport>> wires;
    std::vector<Recorder> recorders;
};

}  // namespace coppice::testing
