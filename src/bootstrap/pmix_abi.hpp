// What is used of libpmix's binary interface, as the PMIx standard and the versions 3 to 5 of the library have it. The library
// is looked for at run time, so that neither Coppice nor its users need it to build or to start. tests/bootstrap/pmix_abi.c
// holds this against the headers where these are installed.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { COPPICE_PMIX_NAME = 256, COPPICE_PMIX_KEY = 512 };
enum {
    COPPICE_PMIX_BOOL = 1,
    COPPICE_PMIX_UINT32 = 14,
    COPPICE_PMIX_PROC = 22,
    COPPICE_PMIX_BYTE_OBJECT = 27,
    COPPICE_PMIX_DATA_ARRAY = 39
};
enum {
    COPPICE_PMIX_SUCCESS = 0,
    COPPICE_PMIX_PROCESS_NOT_FOUND = -17,
    COPPICE_PMIX_TIMEOUT = -24,
    COPPICE_PMIX_NOT_FOUND = -46
};
/* Events: a process has ended, and not as it should. */
enum {
    COPPICE_PMIX_PROC_ABORTED = -7,
    COPPICE_PMIX_PROC_REQUESTED_ABORT = -8,
    COPPICE_PMIX_PROC_TERM_WO_SYNC = -200,
    COPPICE_PMIX_PROC_KILLED_BY_CMD = -400,
    COPPICE_PMIX_PROC_ABORTED_BY_SIG = -402
};
/* What a handler answers that leaves an event to others, too. */
enum { COPPICE_PMIX_NO_ACTION_TAKEN = -331 };
enum { COPPICE_PMIX_SCOPE_GLOBAL = 3 };
#define COPPICE_PMIX_WILDCARD (UINT32_MAX - 1)
#define COPPICE_PMIX_JOB_SIZE "pmix.job.size"
#define COPPICE_PMIX_COLLECT_DATA "pmix.collect"
#define COPPICE_PMIX_OPTIONAL "pmix.optional"
#define COPPICE_PMIX_AFFECTED_PROC "pmix.evproc"
#define COPPICE_PMIX_AFFECTED_PROCS "pmix.evaffected"

typedef struct coppice_pmix_proc {
    char nspace[COPPICE_PMIX_NAME];
    uint32_t rank;
} coppice_pmix_proc_t;

typedef struct coppice_pmix_array {
    uint16_t type;
    size_t size;
    void* items;
} coppice_pmix_array_t;

typedef struct coppice_pmix_value {
    uint16_t type;
    union {
        uint8_t flag;
        uint32_t uint32;
        struct {
            char* bytes;
            size_t size;
        } object;
        coppice_pmix_proc_t* process;
        coppice_pmix_array_t* array;
        uint64_t room[3];
    } data;
} coppice_pmix_value_t;

typedef struct coppice_pmix_info {
    char key[COPPICE_PMIX_KEY];
    uint32_t flags;
    coppice_pmix_value_t value;
} coppice_pmix_info_t;

typedef void (*coppice_pmix_done_fn)(int status, void* argument);
typedef void (*coppice_pmix_value_fn)(int status, coppice_pmix_value_t* value, void* argument);
typedef void (*coppice_pmix_registered_fn)(int status, size_t reference, void* argument);
typedef void (*coppice_pmix_handled_fn)(int status, coppice_pmix_info_t* results, size_t count,
                                        coppice_pmix_done_fn done, void* done_argument, void* argument);
typedef void (*coppice_pmix_event_fn)(size_t reference, int event, const coppice_pmix_proc_t* source,
                                      coppice_pmix_info_t* infos, size_t count, coppice_pmix_info_t* results,
                                      size_t result_count, coppice_pmix_handled_fn handled, void* argument);

#ifdef __cplusplus
}
#endif
