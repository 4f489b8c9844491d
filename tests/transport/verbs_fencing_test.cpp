// What fencing ends on a device: whatever is written late, by any process and with any key, does not land.
#include <array>
#include <cstring>

#include "transport/landing.hpp"
#include "transport/verbs/library.hpp"
#include "transport/verbs_support.hpp"

namespace coppice::testing {

namespace {

using namespace transport;

struct ContextCloser {
    void operator()(ibv_context* context) const { ibv_close_device(context); }
};
using Context = std::unique_ptr<ibv_context, ContextCloser>;

Context open_device(const std::string& name) {
    ibv_device** const list = ibv_get_device_list(nullptr);
    COPPICE_CHECK(list != nullptr);
    Context context;
    for (ibv_device** at = list; *at != nullptr && !context; ++at)
        if (name == ibv_get_device_name(*at)) context.reset(ibv_open_device(*at));
    ibv_free_device_list(list);
    COPPICE_CHECK(context != nullptr);
    return context;
}

bool has_memory_windows(const std::string& device) {
    ibv_device_attr attributes{};
    COPPICE_CHECK(ibv_query_device(open_device(device).get(), &attributes) == 0);
    return (attributes.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
}

// Two queue pairs of this process that are connected to each other.
class Connected {
  public:
    Connected(const verbs::Device& device, ibv_context* context, ibv_pd* domain) {
        queue_ = ibv_create_cq(context, 8, nullptr, nullptr, 0);
        source_ = ibv_reg_mr(domain, bytes_.data(), bytes_.size(), IBV_ACCESS_LOCAL_WRITE);
        COPPICE_CHECK(queue_ != nullptr && source_ != nullptr);
        ibv_qp_init_attr wanted{};
        wanted.send_cq = wanted.recv_cq = queue_;
        wanted.qp_type = IBV_QPT_RC;
        wanted.cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        writer_ = ibv_create_qp(domain, &wanted);
        target_ = ibv_create_qp(domain, &wanted);
        COPPICE_CHECK(writer_ != nullptr && target_ != nullptr);
        activate(writer_, device, context, target_->qp_num);
        activate(target_, device, context, writer_->qp_num);
    }
    ~Connected() {
        ibv_destroy_qp(writer_);
        ibv_destroy_qp(target_);
        ibv_dereg_mr(source_);
        ibv_destroy_cq(queue_);
    }
    Connected(const Connected&) = delete;
    Connected& operator=(const Connected&) = delete;

    ibv_wc_status open(const verbs::Window& window, const verbs::Region& region) {
        ibv_send_wr request = window.opening(region);
        return post(target_, request);
    }
    ibv_wc_status write(std::uint64_t word, const std::byte* at, std::uint32_t key) {
        std::memcpy(bytes_.data(), &word, sizeof word);
        ibv_sge part{.addr = reinterpret_cast<std::uint64_t>(bytes_.data()), .length = 8, .lkey = source_->lkey};
        ibv_send_wr request{};
        request.sg_list = &part;
        request.num_sge = 1;
        request.opcode = IBV_WR_RDMA_WRITE;
        request.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(at);
        request.wr.rdma.rkey = key;
        return post(writer_, request);
    }

  private:
    static void activate(ibv_qp* pair, const verbs::Device& device, ibv_context* context, std::uint32_t to) {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_INIT;
        attributes.port_num = device.port;
        attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        COPPICE_CHECK(ibv_modify_qp(pair, &attributes,
                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
        attributes = {};
        attributes.qp_state = IBV_QPS_RTR;
        attributes.path_mtu = IBV_MTU_1024;
        attributes.dest_qp_num = to;
        attributes.min_rnr_timer = 12;
        attributes.ah_attr.port_num = device.port;
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device.gid_index);
        attributes.ah_attr.grh.hop_limit = 8;
        COPPICE_CHECK(ibv_query_gid(context, device.port, device.gid_index, &attributes.ah_attr.grh.dgid) == 0);
        COPPICE_CHECK(ibv_modify_qp(pair, &attributes,
                                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
        attributes = {};
        attributes.qp_state = IBV_QPS_RTS;
        attributes.timeout = kAnswerTimeout;
        attributes.retry_cnt = kAnswerRetries;
        attributes.rnr_retry = 6;
        COPPICE_CHECK(ibv_modify_qp(pair, &attributes,
                                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    }

    ibv_wc_status post(ibv_qp* pair, ibv_send_wr& request) {
        request.send_flags |= IBV_SEND_SIGNALED;
        ibv_send_wr* rejected = nullptr;
        COPPICE_CHECK(ibv_post_send(pair, &request, &rejected) == 0);
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        ibv_wc completion{};
        while (ibv_poll_cq(queue_, 1, &completion) == 0)
            COPPICE_CHECK(now_ns() < deadline);
        return completion.status;
    }

    std::array<std::byte, 64> bytes_{};
    ibv_cq* queue_ = nullptr;
    ibv_mr* source_ = nullptr;
    ibv_qp* writer_ = nullptr;
    ibv_qp* target_ = nullptr;
};

}  // namespace

// The queue pairs live on: it is the window's end alone that the write meets.
TEST(VerbsWindow, IsGoodForTheQueuePairThatOpenedItUntilItsEnd) {
    in_process([] {
        COPPICE_CHECK(verbs::load().has_value());
        const auto device = verbs::choose_device({.device = verbs_options(Seat{0}, 2).device});
        COPPICE_CHECK(device.has_value());
        const Context context = open_device(device->name);
        ibv_pd* const domain = ibv_alloc_pd(context.get());
        {
            auto region = verbs::Region::make(domain, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, "a test");
            verbs::Window window;
            COPPICE_CHECK(region && window.make(domain));
            const auto word = [&] { return *reinterpret_cast<volatile std::uint64_t*>(region->base()); };
            {
                Connected others(*device, context.get(), domain);
                COPPICE_CHECK(others.write(1, region->base(), region->remote_key()) == IBV_WC_REM_ACCESS_ERR);
            }
            Connected owner(*device, context.get(), domain);
            COPPICE_CHECK(owner.open(window, *region) == IBV_WC_SUCCESS);
            {
                Connected others(*device, context.get(), domain);
                COPPICE_CHECK(others.write(2, region->base(), window.remote_key()) == IBV_WC_REM_ACCESS_ERR);
            }
            COPPICE_CHECK(word() == 0);
            COPPICE_CHECK(owner.write(3, region->base(), window.remote_key()) == IBV_WC_SUCCESS && word() == 3);
            const std::uint32_t old_key = window.remote_key();
            window.revoke();
            COPPICE_CHECK(owner.write(4, region->base(), old_key) == IBV_WC_REM_ACCESS_ERR && word() == 3);
        }
        COPPICE_CHECK(ibv_dealloc_pd(domain) == 0);
    });
}

class VerbsFencing : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Rights, VerbsFencing, ::testing::Bool(),
                         [](const auto& rights) { return rights.param ? "windows" : "registrations"; });

TEST_P(VerbsFencing, LeavesNoWayForALateWriteToLand) {
    in_process([] {
        auto options = verbs_options(Seat{0}, 4);
        options.memory_windows = GetParam();
        auto host = make_verbs(options);
        Recorder recorder;
        Visitor fenced(*host, recorder, encode(visiting_card(1)));
        Visitor other(*host, recorder, encode(visiting_card(2)));
        const verbs::Card card = fenced.host_card();
        COPPICE_CHECK(fenced.write(sealed_write(1, 1, 0, pattern(1, 100)), card.landing_address, card.landing_key) ==
                      IBV_WC_SUCCESS);
        host->poll(recorder);
        COPPICE_CHECK(recorder.messages.size() == 1);

        host->fence(Seat{1});
        // The slots' memory is there until the next poll, and this process may look at it: the host lives here.
        const auto* slots = reinterpret_cast<const std::byte*>(card.landing_address);
        const Bytes before(slots, slots + 4 * kSlotStride);
        // By its own queue pair, and by another rank's with the key that it was given.
        const Bytes late = sealed_write(2, 1, 0, pattern(2, 100));
        const std::uint64_t second_slot = card.landing_address + kSlotStride;
        COPPICE_CHECK(other.write(late, second_slot, card.landing_key) == IBV_WC_REM_ACCESS_ERR);
        COPPICE_CHECK(fenced.write(late, second_slot, card.landing_key) != IBV_WC_SUCCESS);
        COPPICE_CHECK(std::memcmp(slots, before.data(), before.size()) == 0);
        for (int polls = 0; polls < 1000; ++polls)
            host->poll(recorder);
        COPPICE_CHECK(recorder.messages.size() == 1 && !recorder.failed(Seat{1}));
    });
}

// The connection of its own is what a window is bound to; a registration is as good as a secret is kept.
TEST_P(VerbsFencing, FindsAKeyInTheWrongHandsOfNoUseWhereThereAreWindows) {
    in_process([] {
        auto options = verbs_options(Seat{0}, 4);
        options.memory_windows = GetParam();
        const bool windows = options.memory_windows && has_memory_windows(options.device);
        auto host = make_verbs(options);
        Recorder recorder;
        Visitor owner(*host, recorder, encode(visiting_card(1)));
        Visitor thief(*host, recorder, encode(visiting_card(2)));
        const verbs::Card card = owner.host_card();
        const Bytes forged = sealed_write(1, 1, 0, pattern(1, 100));
        const ibv_wc_status stolen = thief.write(forged, card.landing_address, card.landing_key);
        COPPICE_CHECK(stolen == (windows ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
        host->poll(recorder);
        COPPICE_CHECK(recorder.messages.size() == (windows ? 0 : 1));
        const std::uint32_t number = windows ? 1 : 2;
        COPPICE_CHECK(owner.write(sealed_write(number, 1, 0, pattern(2, 100)),
                                  card.landing_address + (number - 1) * kSlotStride,
                                  card.landing_key) == IBV_WC_SUCCESS);
        host->poll(recorder);
        COPPICE_CHECK(recorder.messages.size() == number && is_pattern(recorder.messages.back().payload, 2));
    });
}

}  // namespace coppice::testing
