// The libraries of RDMA devices, which are loaded when the transport is used for the first time: most programs have no use for them.
//
// They are called by `library` alone, but for what verbs.h has as inline functions that call the device's driver (ibv_post_send(),
// ibv_poll_cq() and others like them). A call by name would link Coppice with them again (packaging.needed finds such).
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"

// What is called of libibverbs.so, and of librdmacm.so.
#define COPPICE_IBV_FUNCTIONS(DO) \
    DO(_ibv_query_gid_ex)         \
    DO(ibv_ack_cq_events)         \
    DO(ibv_alloc_pd)              \
    DO(ibv_close_device)          \
    DO(ibv_create_comp_channel)   \
    DO(ibv_create_cq)             \
    DO(ibv_create_qp)             \
    DO(ibv_create_srq)            \
    DO(ibv_dealloc_pd)            \
    DO(ibv_dereg_mr)              \
    DO(ibv_destroy_comp_channel)  \
    DO(ibv_destroy_cq)            \
    DO(ibv_destroy_qp)            \
    DO(ibv_destroy_srq)           \
    DO(ibv_fork_init)             \
    DO(ibv_free_device_list)      \
    DO(ibv_get_cq_event)          \
    DO(ibv_get_device_list)       \
    DO(ibv_get_device_name)       \
    DO(ibv_modify_qp)             \
    DO(ibv_open_device)           \
    DO(ibv_port_state_str)        \
    DO(ibv_query_device)          \
    DO(ibv_query_port)            \
    DO(ibv_reg_mr)                \
    DO(ibv_resize_cq)             \
    DO(ibv_wc_status_str)
#define COPPICE_RDMA_FUNCTIONS(DO) \
    DO(rdma_accept)                \
    DO(rdma_ack_cm_event)          \
    DO(rdma_bind_addr)             \
    DO(rdma_connect)               \
    DO(rdma_create_event_channel)  \
    DO(rdma_create_id)             \
    DO(rdma_destroy_event_channel) \
    DO(rdma_destroy_id)            \
    DO(rdma_establish)             \
    DO(rdma_get_cm_event)          \
    DO(rdma_get_src_port)          \
    DO(rdma_init_qp_attr)          \
    DO(rdma_listen)                \
    DO(rdma_reject)                \
    DO(rdma_resolve_addr)          \
    DO(rdma_resolve_route)         \
    DO(rdma_set_option)

namespace coppice::transport::verbs {

struct Library {
#define COPPICE_AS_FIELD(function) decltype(&::function) function = nullptr;
    COPPICE_IBV_FUNCTIONS(COPPICE_AS_FIELD)
    COPPICE_RDMA_FUNCTIONS(COPPICE_AS_FIELD)
#undef COPPICE_AS_FIELD
};

// Once load() has succeeded.
extern Library library;

// Loads them, once for the process and for good. COPPICE_ERR_NO_TRANSPORT where one is not installed: the error says what is missing.
Result<void> load();

// Macros and inline functions of verbs.h have the names of these, and call others by name.
inline ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) {
    return (library.ibv_reg_mr)(domain, address, bytes, access);
}
inline int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry) {
    return library._ibv_query_gid_ex(context, port, index, entry, 0, sizeof *entry);
}
// Without what releases after libibverbs 1.0 have added at the end (port_cap_flags2 and on), which stays zero.
inline int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
    *attributes = {};
    return (library.ibv_query_port)(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

}  // namespace coppice::transport::verbs
