// What is particular to UCX with one-sided writes: that they are, which peers are refused, and that fencing ends the
// right to them.
#include <cstring>

#include "transport/landing.hpp"
#include "ucx_rc.hpp"

namespace coppice::testing {

namespace {

using namespace transport;

std::string error_of(const UcxOptions& options) {
    const auto made = UcxTransport::create(options);
    COPPICE_CHECK(!made && made.error().status == COPPICE_ERR_CONFIG);
    return made.error().message;
}

// Rank 1 of a group of two, by hand: it takes the slots that rank 0 gives it, and goes on writing there when it is
// fenced.
class Visitor {
  public:
    Visitor()
        : worker_(std::move(*ucx::Worker::create({.net_devices = ucx_rc_options(Seat(1), 2, true).net_devices,
                                                  .tls = ucx_rc_options(Seat(1), 2, true).tls,
                                                  .put = true}))) {
        ucp_am_handler_param_t handler{};
        handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                             UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
        handler.id = ucx::kMessageId;
        handler.flags = UCP_AM_FLAG_WHOLE_MSG;
        handler.cb = &Visitor::on_message;
        handler.arg = this;
        COPPICE_CHECK(ucp_worker_set_am_recv_handler(worker_.handle(), &handler) == UCS_OK);
    }
    ~Visitor() {
        if (key_ != nullptr) ucp_rkey_destroy(key_);
        close_by_force(worker_, endpoint_);
    }
    Visitor(const Visitor&) = delete;
    Visitor& operator=(const Visitor&) = delete;

    Bytes address() const { return *ucx::pack_address(*worker_.address(), true); }

    // Greets rank 0 and waits for its offer; `host` is moved meanwhile.
    void meet(UcxTransport& host, Receiver& receiver) {
        const auto there = ucx::unpack_address(Seat(0), host.address(), true);
        COPPICE_CHECK(there.has_value());
        endpoint_ = connect(worker_, there->worker);
        const Bytes handshake = bytes_of({.token = kToken, .from = 1, .kind = ucx::Kind::handshake});
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_EAGER;
        ucs_status_ptr_t request =
            ucp_am_send_nbx(endpoint_, ucx::kMessageId, handshake.data(), handshake.size(), nullptr, 0, &param);
        COPPICE_CHECK(!UCS_PTR_IS_ERR(request));
        poll_until(host, receiver, [&] {
            worker_.progress();
            return !offered_key_.empty();
        });
        if (request != nullptr) ucp_request_free(request);
        COPPICE_CHECK(ucp_ep_rkey_unpack(endpoint_, offered_key_.data(), &key_) == UCS_OK);
    }

    const ucx::Offer& offer() const { return offer_; }

    // Write number `number` (from 1); how it ended, after a flush: that it has landed, or why it has not.
    ucs_status_t write(std::uint32_t number, const Bytes& payload) {
        SlotPrefix prefix{.stamp = number, .payload_size = static_cast<std::uint16_t>(payload.size())};
        seal(prefix, slot_seed(kToken, 1, 0), {}, payload);
        Bytes bytes(sizeof prefix + payload.size());
        std::memcpy(bytes.data(), &prefix, sizeof prefix);
        std::copy(payload.begin(), payload.end(), bytes.begin() + sizeof prefix);
        ucp_request_param_t param{};
        const std::uint64_t where = offer_.address + (number - 1) * kSlotStride;
        const ucs_status_t put = wait(ucp_put_nbx(endpoint_, bytes.data(), bytes.size(), where, key_, &param));
        const ucs_status_t flush = wait(ucp_ep_flush_nbx(endpoint_, &param));
        return put != UCS_OK ? put : flush;
    }

  private:
    static ucs_status_t on_message(void* argument, const void* header, size_t header_size, void* data, size_t size,
                                   const ucp_am_recv_param_t*) {
        auto& self = *static_cast<Visitor*>(argument);
        const std::span<const std::byte> bytes(static_cast<const std::byte*>(header), header_size);
        const auto prefix = ucx::parse_prefix(bytes, size, kToken, 2);
        if (prefix && prefix->kind == ucx::Kind::slots) {
            self.offer_ = *ucx::parse_offer(bytes.subspan(sizeof(ucx::Prefix)), size);
            const auto* key = static_cast<const std::byte*>(data);
            self.offered_key_.assign(key, key + size);
        }
        return UCS_OK;
    }

    ucs_status_t wait(ucs_status_ptr_t request) {
        if (!UCS_PTR_IS_PTR(request)) return UCS_PTR_STATUS(request);
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            COPPICE_CHECK(now_ns() < deadline);
            worker_.progress();
        }
        const ucs_status_t status = ucp_request_check_status(request);
        ucp_request_free(request);
        return status;
    }

    ucx::Worker worker_;
    ucp_ep_h endpoint_ = nullptr;
    ucp_rkey_h key_ = nullptr;
    ucx::Offer offer_;
    Bytes offered_key_;
};

}  // namespace

TEST(UcxPut, IsRefusedWhereUcxWouldEmulateIt) {
    in_child([] {
        auto options = ucx_rc_options(Seat(0), 2, true);
        COPPICE_CHECK(UcxTransport::create(options).has_value());
        options.tls = "rc_verbs,ud_verbs,tcp";
        options.net_devices.clear();
        COPPICE_CHECK(error_of(options).find("TCP") != std::string::npos);
        options.tls = "tcp";
        COPPICE_CHECK(error_of(options).find("TCP") != std::string::npos);
    });
}

TEST(UcxPut, IsASettingOfAllRanksOrOfNone) {
    in_child([] {
        const auto with = make_ucx(ucx_rc_options(Seat(0), 2, true));
        const auto without = make_ucx(ucx_rc_options(Seat(1), 2, false));
        const auto added = with->add_peer(Seat(1), without->address());
        COPPICE_CHECK(!added && added.error().status == COPPICE_ERR_MISMATCH);
        COPPICE_CHECK(added.error().message.find("rank 1 has COPPICE_UCX_PUT off") != std::string::npos);
        COPPICE_CHECK(!without->add_peer(Seat(0), with->address()));
        COPPICE_CHECK(with->capabilities().native_write && !without->capabilities().native_write);
    });
}

// From the moment a connection stands: what is written before that goes as a message.
TEST(UcxPut, CarriesEveryWriteOfAConnectionThatStands) {
    in_child([] {
        std::vector<std::unique_ptr<UcxTransport>> wires;
        for (std::uint32_t rank = 0; rank < 2; ++rank)
            wires.push_back(make_ucx(ucx_rc_options(Seat(rank), 2, true)));
        std::vector<Recorder> recorders(2);
        for (std::uint32_t rank = 0; rank < 2; ++rank)
            COPPICE_CHECK(wires[rank]->add_peer(Seat(1 - rank), wires[1 - rank]->address()).has_value());
        const auto until = [&](const std::function<bool()>& condition) {
            poll_until(*wires[0], recorders[0], [&] {
                wires[1]->poll(recorders[1]);
                return condition();
            });
        };
        std::uint64_t written = 0;
        std::uint32_t in_flight = 0;
        const auto write = [&](std::size_t size) {
            const Bytes payload = pattern(written, size);
            until(
                [&] { return wires[0]->write(Seat(1), header_of(written), payload, &in_flight) == SendStatus::sent; });
            ++written;
            until([&] { return recorders[1].messages.size() == written && in_flight == 0; });
        };
        while (wires[0]->puts() == 0)
            write(64);
        const std::uint64_t before = written - 1;
        for (const std::size_t size : {0U, 1U, 256U, 257U, 4096U, 8192U})
            for (int times = 0; times < 20; ++times)
                write(size);
        COPPICE_CHECK(wires[0]->puts() == written - before && wires[0]->counters().writes == written);
        for (std::uint64_t number = 0; number < written; ++number) {
            COPPICE_CHECK(header_word(recorders[1].messages[number].header, 0) == number);
            COPPICE_CHECK(is_pattern(recorders[1].messages[number].payload, number));
        }
    });
}

// The host is not moved after fence(): the connection stands, and it is the end of the right alone that the write
// meets.
TEST(UcxPut, OfAFencedPeerDoesNotLand) {
    in_child([] {
        auto host = make_ucx(ucx_rc_options(Seat(0), 2, true));
        Recorder recorder;
        Visitor visitor;
        COPPICE_CHECK(host->add_peer(Seat(1), visitor.address()).has_value());
        visitor.meet(*host, recorder);
        COPPICE_CHECK(visitor.write(1, pattern(1, 100)) == UCS_OK);
        host->poll(recorder);
        COPPICE_CHECK(recorder.messages.size() == 1 && is_pattern(recorder.messages[0].payload, 1));
        COPPICE_CHECK(visitor.write(2, pattern(2, 100)) == UCS_OK);

        host->fence(Seat(1));
        // The slots' memory is there until the next poll, and this process may look at it: the host lives here.
        const auto* slots = reinterpret_cast<const std::byte*>(visitor.offer().address);
        const Bytes before(slots, slots + 4 * kSlotStride);
        COPPICE_CHECK(visitor.write(3, pattern(3, 100)) != UCS_OK);
        COPPICE_CHECK(std::memcmp(slots, before.data(), before.size()) == 0);
        for (int polls = 0; polls < 1000; ++polls)
            host->poll(recorder);
        COPPICE_CHECK(recorder.messages.size() == 1 && !recorder.failed(Seat(1)));
        COPPICE_CHECK(host->counters().refused == 1);
    });
}

}  // namespace coppice::testing
