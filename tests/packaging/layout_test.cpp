// What programs that were compiled against an older coppice.h rely on: where each field stands, and which number is which constant.
// Fields are added at the end, and numbers are not given to others.
#include <coppice/coppice.h>

#include <cstddef>

#define FIELD(structure, field, offset) static_assert(offsetof(structure, field) == (offset))
#define NUMBER(constant, number) static_assert((constant) == (number))

// Of 64-bit machines: the only ones that there are.
static_assert(sizeof(void*) == 8);

FIELD(coppice_context_options_t, struct_size, 0);
FIELD(coppice_context_options_t, thread_mode, 8);
FIELD(coppice_context_options_t, progress_thread, 12);
FIELD(coppice_context_options_t, transports, 16);

FIELD(coppice_group_options_t, struct_size, 0);
FIELD(coppice_group_options_t, exchange, 8);
FIELD(coppice_group_options_t, exchange_argument, 16);
FIELD(coppice_group_options_t, rank, 24);
FIELD(coppice_group_options_t, size, 28);
FIELD(coppice_group_options_t, tree, 32);
FIELD(coppice_group_options_t, correction, 40);
FIELD(coppice_group_options_t, hierarchy, 48);
FIELD(coppice_group_options_t, window, 56);
FIELD(coppice_group_options_t, timeout_ns, 64);
FIELD(coppice_group_options_t, on_failure, 72);
FIELD(coppice_group_options_t, on_failure_argument, 80);
FIELD(coppice_group_options_t, algorithm, 88);
FIELD(coppice_group_options_t, agreement_tree, 96);
FIELD(coppice_group_options_t, switches, 104);
FIELD(coppice_group_options_t, ranks, 112);
FIELD(coppice_group_options_t, rank_count, 120);
FIELD(coppice_group_options_t, witness, 128);
FIELD(coppice_witness_t, struct_size, 0);
FIELD(coppice_witness_t, tell, 8);
FIELD(coppice_witness_t, ended, 16);
FIELD(coppice_witness_t, forget, 24);
FIELD(coppice_witness_t, argument, 32);

FIELD(coppice_group_info_t, struct_size, 0);
FIELD(coppice_group_info_t, rank, 8);
FIELD(coppice_group_info_t, size, 12);
FIELD(coppice_group_info_t, hosts, 16);
FIELD(coppice_group_info_t, window, 20);
FIELD(coppice_group_info_t, max_payload, 24);
FIELD(coppice_group_info_t, connections, 32);
FIELD(coppice_group_info_t, epoch, 36);
FIELD(coppice_group_info_t, garbage, 40);
FIELD(coppice_group_info_t, refused, 48);
FIELD(coppice_group_info_t, transports, 56);
FIELD(coppice_group_info_t, leaves, 152);

FIELD(coppice_group_counts_t, struct_size, 0);
FIELD(coppice_group_counts_t, sends, 8);
FIELD(coppice_group_counts_t, writes, 16);
FIELD(coppice_group_counts_t, received, 24);
FIELD(coppice_group_counts_t, doorbells, 32);
FIELD(coppice_group_counts_t, work_requests, 40);
FIELD(coppice_group_counts_t, signalled, 48);
FIELD(coppice_group_counts_t, probes, 56);
FIELD(coppice_group_counts_t, busy_polls, 64);
FIELD(coppice_group_counts_t, copies, 72);
FIELD(coppice_group_counts_t, registrations, 80);
FIELD(coppice_group_counts_t, takeovers, 88);
FIELD(coppice_group_counts_t, thread_rounds, 96);
FIELD(coppice_group_counts_t, thread_events, 104);
FIELD(coppice_group_counts_t, chunks, 112);
FIELD(coppice_group_counts_t, chunks_sent, 120);
FIELD(coppice_group_counts_t, chunks_again, 128);
FIELD(coppice_group_counts_t, chunks_damaged, 136);
FIELD(coppice_group_counts_t, chunks_read, 144);
FIELD(coppice_group_counts_t, reads, 152);
FIELD(coppice_group_counts_t, sent_in_host, 160);
FIELD(coppice_group_counts_t, sent_in_leaf, 168);
FIELD(coppice_group_counts_t, sent_in_pod, 176);
FIELD(coppice_group_counts_t, sent_beyond, 184);
FIELD(coppice_group_counts_t, unregistered, 192);

FIELD(coppice_agree_options_t, struct_size, 0);
FIELD(coppice_agree_options_t, operation, 8);
FIELD(coppice_agree_options_t, type, 12);
FIELD(coppice_agree_options_t, combine, 16);
FIELD(coppice_agree_options_t, combine_argument, 24);

FIELD(coppice_renew_options_t, struct_size, 0);
FIELD(coppice_renew_options_t, least, 8);
FIELD(coppice_renew_options_t, most, 12);
FIELD(coppice_renew_options_t, numbering, 16);

FIELD(coppice_view_t, struct_size, 0);
FIELD(coppice_view_t, epoch, 8);
FIELD(coppice_view_t, size, 12);
FIELD(coppice_view_t, newcomers, 16);
FIELD(coppice_view_t, eldest, 20);

// Members stand one behind the other: no fields are added.
FIELD(coppice_member_t, seat, 0);
FIELD(coppice_member_t, incarnation, 4);
FIELD(coppice_member_t, before, 8);
FIELD(coppice_member_t, since, 12);
static_assert(sizeof(coppice_member_t) == 16);

NUMBER(COPPICE_OK, 0);
NUMBER(COPPICE_IN_PROGRESS, 1);
NUMBER(COPPICE_ERR_INVALID_ARGUMENT, -1);
NUMBER(COPPICE_ERR_OUT_OF_RANGE, -2);
NUMBER(COPPICE_ERR_TOO_LARGE, -3);
NUMBER(COPPICE_ERR_TRUNCATED, -4);
NUMBER(COPPICE_ERR_TIMEOUT, -5);
NUMBER(COPPICE_ERR_ROOT_FAILED, -6);
NUMBER(COPPICE_ERR_PEER_FAILED, -7);
NUMBER(COPPICE_ERR_FENCED, -8);
NUMBER(COPPICE_ERR_REVOKED, -9);
NUMBER(COPPICE_ERR_MISMATCH, -10);
NUMBER(COPPICE_ERR_NO_MEMORY, -11);
NUMBER(COPPICE_ERR_NO_RESOURCES, -12);
NUMBER(COPPICE_ERR_NO_TRANSPORT, -13);
NUMBER(COPPICE_ERR_BOOTSTRAP, -14);
NUMBER(COPPICE_ERR_BUSY, -15);
NUMBER(COPPICE_ERR_CONFIG, -16);
NUMBER(COPPICE_ERR_INTERNAL, -17);
NUMBER(COPPICE_ERR_FORKED, -18);
NUMBER(COPPICE_ERR_NO_QUORUM, -19);

NUMBER(COPPICE_THREAD_SINGLE, 0);
NUMBER(COPPICE_THREAD_MULTIPLE, 1);

NUMBER(COPPICE_AND, 0);
NUMBER(COPPICE_OR, 1);
NUMBER(COPPICE_MIN, 2);
NUMBER(COPPICE_MAX, 3);
NUMBER(COPPICE_COMBINE, 4);

NUMBER(COPPICE_NUMBERS_OF_THE_GONE, 0);
NUMBER(COPPICE_NUMBERS_LAST, 1);

NUMBER(COPPICE_UINT8, 0);
NUMBER(COPPICE_UINT16, 1);
NUMBER(COPPICE_UINT32, 2);
NUMBER(COPPICE_UINT64, 3);
NUMBER(COPPICE_INT8, 4);
NUMBER(COPPICE_INT16, 5);
NUMBER(COPPICE_INT32, 6);
NUMBER(COPPICE_INT64, 7);
