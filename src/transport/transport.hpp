// The seam to the wire between the ranks of one group: everything that the engine asks of shm, verbs, ucx or tcp.
//
// A receiver may call send(), write(), watch() and fence() too, but a transport may put them off: `again` is then the answer.
// One transport object serves one group at one rank. All calls come from one thread at a time (the engine serializes).
// A transport never blocks, never calls the receiver outside of poll(), and never ends the host process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"

namespace coppice::transport {

// The largest payload of one message, and the space for the engine's header in front of it.
inline constexpr std::size_t kMaxPayload = 8192;
inline constexpr std::size_t kMaxHeader = 48;

struct Capabilities {
    std::string_view name;         // as registered (registry.hpp)
    bool within_host = false;      // reaches ranks of the same host alone
    bool native_write = false;     // write() is one-sided on this wire: no receiver CPU
    bool native_read = false;      // has read(), one-sided: the process that is read from has no part in it
    std::size_t inline_size = 0;   // payloads up to here ride in the descriptor or header line itself
    std::size_t eager_size = 0;    // payloads up to here can be sent at all, see largest(); ≥ kMaxPayload
    bool keeps_batches = false;    // keep_batch() lets messages stay
    bool arm_is_complete = false;  // whatever happens shows at arm()'s descriptor: deaths and one-sided writes, too
    bool hears_unknown = false;    // delivers what peers send that were never added here, and can fence them
};

enum class SendStatus : std::uint8_t {
    sent,    // accepted; it arrives unless this process or the peer dies
    again,   // no room right now: poll, then try again; nothing was sent
    failed,  // the peer is dead or fenced; peer_failed is (or was) reported by poll()
};

enum class FailureCause : std::uint8_t { obituary, process_gone, transport_error, notice, fenced };
std::string_view to_string(FailureCause cause);

// A landed payload that the receiver decided to keep; given back with release(). 0 means "can't be kept".
using Buffer = std::uint64_t;

// What the engine offers to a transport. Called from poll() only.
class Receiver {
  public:
    // One message, in the order in which `from` sent it. Both spans are good until the call returns, unless it returns
    // true ("kept", allowed for buffer != 0 only): then `payload` stays good until release(buffer).
    // Nothing about the bytes has been checked except that they are within the transport's bounds.
    virtual bool message(Seat from, std::span<const std::byte> header, std::span<const std::byte> payload,
                         Buffer buffer) = 0;
    // A message with a payload of more than kMaxPayload is coming: where that is to be written to as it comes. message() then finds it
    // there. Asked again while it comes, `here` bytes of `bytes` being there: it is where it was, or nowhere, and then message() is
    // not called for this one. nullptr at the first time: the transport keeps it itself, and may ask again. Nothing has been
    // checked of it, as of a message.
    virtual std::byte* place(Seat /*from*/, std::span<const std::byte> /*header*/, std::size_t /*bytes*/,
                             std::size_t /*here*/) {
        return nullptr;
    }
    // At most once per peer, also for peers that were never sent to. After it no message of that peer is delivered.
    virtual void peer_failed(Seat peer, FailureCause cause) = 0;
    // The peer has left in peace (Transport::leave()): nothing of it is to come, and nothing reaches it any more. At most
    // once, and only for peers with an open connection; one that left before it was connected to looks like a dead one.
    virtual void peer_left(Seat /*peer*/) {}
    // That peer has fenced this rank: it takes it for dead. Told where the wire can, before the connection ends, so that this is
    // not mistaken for the peer's own death. May come more than once.
    virtual void fenced(Seat /*by*/) {}
    // Memory of that peer was read, as probe() asked for: its process lives, whatever it does.
    virtual void alive(Seat /*peer*/) {}

  protected:
    ~Receiver() = default;
};

// Memory of this rank that is open to reads.
struct Exposure {
    std::uint64_t address = 0;  // what a peer has to know, with `key`
    std::uint32_t key = 0;
    std::uint32_t own_key = 0;  // for this rank's own reads into it
};
// Memory of a peer that is.
struct RemoteMemory {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
};
// What became of reads from one peer; they arrive in the order in which they were asked for. It stays where it is while one is under way.
struct Reads {
    std::uint32_t under_way = 0;
    std::uint64_t arrived = 0;
};

// What was counted since the start, for people (coppice-info, coppice-perf --count) and for tests.
struct Counters {
    std::uint64_t sends = 0;        // messages accepted by send()
    std::uint64_t writes = 0;       // messages accepted by write()
    std::uint64_t reads = 0;        // accepted by read()
    std::uint64_t received = 0;     // messages handed to the receiver
    std::uint64_t garbage = 0;      // what arrived and was not ours: dropped
    std::uint64_t refused = 0;      // arrived from a fenced peer: dropped
    std::uint64_t connections = 0;  // opened by this side so far

    // What it cost, where the transport drives a device itself (verbs); 0 elsewhere. Of sends and writes alone: what
    // keeps a connection alive while nothing is said (probes) is counted by itself.
    std::uint64_t doorbells = 0;      // calls that handed work requests to the device
    std::uint64_t work_requests = 0;  // handed over with them
    std::uint64_t signalled = 0;      // of those, with a completion to be told of
    std::uint64_t probes = 0;         // one-sided reads of a peer's liveness word, each a doorbell of its own
    std::uint64_t busy_polls = 0;     // polls that found something
    std::uint64_t copies = 0;         // payloads copied into registered memory before they could leave
    std::uint64_t registrations = 0;  // memory registered with the device

    Counters& operator+=(const Counters& other);
};

// Something to tell people, such as {"gid_index", 1}.
struct Fact {
    std::string_view name;
    std::variant<bool, std::int64_t, std::string, std::vector<std::string>> value;
};

class Transport {
  public:
    virtual ~Transport() = default;

    virtual const Capabilities& capabilities() const = 0;
    // Its name for people, with the device where there is one: "verbs (rxe0)".
    virtual std::string description() const { return std::string(capabilities().name); }
    // What it found here, for coppice-info.
    virtual std::vector<Fact> facts() const { return {}; }
    virtual Counters counters() const = 0;
    // Why a connection could not be opened or broke, the last time; "" if none did.
    virtual std::string_view last_error() const { return {}; }

    // What peers need to reach this rank; exchanged by bootstrap, given to their add_peer(). At most 2 KiB.
    virtual std::vector<std::byte> address() const = 0;

    // Makes a peer known. Opens nothing yet. Checks version, word size and reachability of the address; the error
    // names rank, transport and remedy. A peer that was never added can't be sent to (SendStatus::failed). Once for each number,
    // and again after forget().
    virtual Result<void> add_peer(Seat peer, std::span<const std::byte> address) = 0;

    // Opens the connection to a peer now, so that its death is noticed although nothing is sent to it.
    virtual void watch(Seat peer) = 0;

    // Whether a message would leave for that peer at once, without a connection to be made first.
    virtual bool is_connected(Seat /*peer*/) const { return true; }

    // The largest payload that send() takes for that peer now: at least kMaxPayload, and no less later, while it is connected.
    virtual std::size_t largest(Seat /*to*/) const { return kMaxPayload; }

    // Sends a message (tree and control). `header` (≤ kMaxHeader) is copied before the call returns. `payload`
    // (≤ largest()) is copied too, or referred to until it has left: then *in_flight was incremented and is
    // decremented from within a later poll(). The caller keeps the payload unchanged while *in_flight > 0.
    virtual SendStatus send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                            std::uint32_t* in_flight) = 0;

    // The same for ring messages: one-sided into the writer's own landing slots at the peer where the wire has that
    // (Capabilities::native_write), else as send(). Ordered with send() to the same peer only when not native.
    virtual SendStatus write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                             std::uint32_t* in_flight) = 0;

    // What is sent between these two may leave as late as with the second, so that several messages to one peer leave together:
    // for a caller that has much to say at once. It does not poll in between.
    virtual void begin_batch() {}
    virtual void end_batch() {}
    // In place of end_batch(), for a caller that is back within microseconds, and has poll() called by somebody else where it is not:
    // messages may stay until the next batch ends, or poll(). False: none has stayed.
    virtual bool keep_batch() {
        end_batch();
        return false;
    }

    // Delivers what has arrived and makes progress with what is under way. Returns how many events it handed to the
    // receiver.
    virtual std::size_t poll(Receiver& receiver) = 0;

    // For a rank that has waited in vain and wants to sleep: a descriptor that becomes readable when a send arrives, or one
    // of this side's completes. Poll once more before sleeping on it. Unless Capabilities::arm_is_complete, one-sided
    // writes and deaths do not show there, so sleep for a short while only. −1: nothing to sleep on now. Some system calls.
    virtual int arm() { return -1; }

    // Memory that payloads will be sent from often: a transport whose device has to know such memory gets to know it
    // here, once, and then sends from where it is. It stays mapped until deregistered. Slow; never needed for correctness.
    virtual Result<void> register_memory(std::span<const std::byte> /*memory*/) { return {}; }
    virtual void deregister_memory(const std::byte* /*begin*/) {}

    // --- one-sided reads, where Capabilities::native_read
    // Lets connected peers read this memory, and this rank read into it, until it is withdrawn; it stays mapped until then. Slow. Refused
    // where the device, or a limit, has no room for it: last_error() says so.
    virtual Result<Exposure> expose(std::span<std::byte> /*memory*/) {
        return fail(COPPICE_ERR_NO_RESOURCES, "{} has no one-sided reads", capabilities().name);
    }
    // A peer that reads it later loses its connection to this rank, which looks like a death: its last read has to be over.
    virtual void withdraw(const Exposure& /*memory*/) {}
    // Reads so many bytes that the peer has exposed into `own`. `again`: the connection does not stand yet, or enough is under way.
    // reads->under_way was incremented, and is decremented from within a later poll() or forget(), with reads->arrived incremented where the bytes are
    // there. From then on nothing is written to `into`. What the peer has not exposed ends the connection to it.
    virtual SendStatus read(Seat /*from*/, const RemoteMemory& /*what*/, std::span<std::byte> /*into*/,
                            const Exposure& /*own*/, Reads* /*reads*/) {
        return SendStatus::failed;
    }
    // Whether what is exposed here has to stay for that peer: false from when it is fenced, or its connection has ended. (A fenced peer's
    // connection ends with the next poll at the latest, and until then it reads what is not withdrawn.)
    virtual bool may_be_read_by(Seat /*peer*/) const { return false; }

    // Gives back a kept buffer. Any order, any time; also after the peer has failed.
    virtual void release(Buffer buffer) = 0;

    // Reads a word of the peer's memory, one-sided, if the wire has that and the connection is open; poll() then says alive().
    virtual void probe(Seat /*peer*/) {}

    // From now on nothing of this peer is delivered and its rights to write end where the wire allows that.
    // Its sends in flight complete. No peer_failed is reported for it. The peer is told (Receiver::fenced) by all but verbs.
    virtual void fence(Seat peer) = 0;

    // A peer that has failed, has left or is fenced, and of which poll() has told all there was: nothing of it is known any
    // more, and what it took is given back; memory that it may still write to, once its process has ended. Then its number may
    // be added again, for another process: the next incarnation. Nothing that the earlier one has sent is delivered for the
    // later one; where that one lives it is told that it is fenced when it connects. Payloads that were kept of it stay until
    // release(). Not from within the receiver.
    virtual void forget(Seat peer) = 0;

    // Before leave(): this peer may come to need a connection to this rank only when this rank has gone. It is told that this
    // rank has left in peace, if the wire can tell it without its taking part (tcp): it may be stopped.
    virtual void say_farewell(Seat /*peer*/) {}

    // Tells peers with open connections that this rank leaves in peace, so that they do not report a failure, and
    // moves what was accepted. True when nothing is left to move; call it (and poll) until it is.
    virtual bool leave() = 0;
};

}  // namespace coppice::transport
