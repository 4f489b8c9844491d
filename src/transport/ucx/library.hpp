// UCX's libraries, which are loaded when the transport is used for the first time: most programs have no use for them, and pay 2 ms or
// more where they are linked with them.
//
// UCX is called by `library` alone. A call by its name would link Coppice with it again (packaging.needed finds such).
#pragma once

#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include "base/error.hpp"

// What is called of libucp.so, and of libucs.so.
#define COPPICE_UCP_FUNCTIONS(DO)  \
    DO(ucp_am_data_release)        \
    DO(ucp_am_send_nbx)            \
    DO(ucp_cleanup)                \
    DO(ucp_config_modify)          \
    DO(ucp_config_read)            \
    DO(ucp_config_release)         \
    DO(ucp_context_print_info)     \
    DO(ucp_ep_close_nbx)           \
    DO(ucp_ep_create)              \
    DO(ucp_ep_flush_nbx)           \
    DO(ucp_ep_print_info)          \
    DO(ucp_ep_rkey_unpack)         \
    DO(ucp_get_nbx)                \
    DO(ucp_get_version)            \
    DO(ucp_init_version)           \
    DO(ucp_mem_map)                \
    DO(ucp_mem_unmap)              \
    DO(ucp_put_nbx)                \
    DO(ucp_request_check_status)   \
    DO(ucp_request_free)           \
    DO(ucp_rkey_buffer_release)    \
    DO(ucp_rkey_destroy)           \
    DO(ucp_rkey_pack)              \
    DO(ucp_worker_arm)             \
    DO(ucp_worker_create)          \
    DO(ucp_worker_destroy)         \
    DO(ucp_worker_get_efd)         \
    DO(ucp_worker_progress)        \
    DO(ucp_worker_query)           \
    DO(ucp_worker_release_address) \
    DO(ucp_worker_set_am_recv_handler)
#define COPPICE_UCS_FUNCTIONS(DO) \
    DO(ucs_debug_disable_signal)  \
    DO(ucs_log_push_handler)      \
    DO(ucs_status_string)

namespace coppice::transport::ucx {

struct Library {
#define COPPICE_AS_FIELD(function) decltype(&::function) function = nullptr;
    COPPICE_UCP_FUNCTIONS(COPPICE_AS_FIELD)
    COPPICE_UCS_FUNCTIONS(COPPICE_AS_FIELD)
#undef COPPICE_AS_FIELD
};

// Once load() has succeeded. A plain variable: a call costs as much as one of a function that is linked.
extern Library library;

// Loads it, once for the process and for good. COPPICE_ERR_NO_TRANSPORT where it is not installed: the error says what is missing.
//
// UCX takes over the process's fatal signals (and SIGHUP, to stop for a debugger), and the signal stack of the thread that loads it. A
// library inside somebody's process must not do that: handlers and stack are given back immediately, unless the user has asked for
// UCX's (UCX_HANDLE_ERRORS, UCX_ERROR_SIGNALS, UCX_DEBUG_SIGNO), or UCX was in the process before, where it is somebody else's.
Result<void> load();

}  // namespace coppice::transport::ucx
