#include "communicators.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "library.h"
#include "requests.h"
#include "retired.h"
#include "shared.h"

#ifdef OPEN_MPI
#define THIS_MPI "Open MPI"
#define OTHER_MPI "MPICH"
#define OTHER_LIBRARY "/libmpich.so."
#define THIS_PRELOAD "libcoppice-openmpi.so"
#define OTHER_PRELOAD "libcoppice-mpich.so"
#else
#define THIS_MPI "MPICH"
#define OTHER_MPI "Open MPI"
#define OTHER_LIBRARY "/libmpi.so."
#define THIS_PRELOAD "libcoppice-mpich.so"
#define OTHER_PRELOAD "libcoppice-openmpi.so"
#endif

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static int keyval = MPI_KEYVAL_INVALID;
static int self_keyval = MPI_KEYVAL_INVALID;
static coppice_context_t* context;
static int error_class = MPI_ERR_OTHER;

/* Of the list. A communicator may be freed under locks of MPI's, so nothing of MPI's is called with it. */
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct communicator* communicators;

/* The communicator that a thread has used last: MPI looks attributes up under a lock. Only until any is freed, because its handle may be
 * used again. */
static unsigned frees;
static _Thread_local struct {
    MPI_Comm comm;
    struct communicator* state; /* NULL: there is none */
    unsigned frees;
} latest;

static int is_other_mpi(struct dl_phdr_info* info, size_t size, void* found) {
    (void)size;
    if (strstr(info->dlpi_name, OTHER_LIBRARY) != NULL) *(int*)found = 1;
    return 0;
}

/* A context enlarges the process's table of descriptors, for which a process with threads, as MPI's are soon, waits some 25 ms. Now there
 * are none yet. */
__attribute__((constructor)) static void make_room_for_descriptors(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == 0) return;
    const int any = open("/", O_PATH | O_CLOEXEC);
    const int last =
        any < 0 ? -1 : fcntl(any, F_DUPFD_CLOEXEC, (int)(limit.rlim_cur < 1024 ? limit.rlim_cur : 1024) - 1);
    if (last >= 0) close(last);
    if (any >= 0) close(any);
}

__attribute__((constructor)) void refuse_other_mpi(void) {
    int found = 0;
    dl_iterate_phdr(is_other_mpi, &found);
    if (!found) return;
    fprintf(stderr, "coppice-mpi: " THIS_PRELOAD " is preloaded, for " THIS_MPI ", and this is a program of " OTHER_MPI
                    ": preload " OTHER_PRELOAD ", or use coppice-mpirun with the launcher of " OTHER_MPI "\n");
    _exit(1);
}

int code_of(coppice_status_t status) {
    if (status == COPPICE_OK) return MPI_SUCCESS;
    if (status == COPPICE_ERR_TRUNCATED) return MPI_ERR_TRUNCATE;
    char sentence[MPI_MAX_ERROR_STRING];
    snprintf(sentence, sizeof sentence, "Coppice: %s", coppice.last_error());
    if (error_class != MPI_ERR_OTHER) PMPI_Add_error_string(error_class, sentence);
    return error_class;
}

int raise_status(MPI_Comm comm, coppice_status_t status) {
    const int code = code_of(status);
    if (code != MPI_SUCCESS) PMPI_Comm_call_errhandler(comm, code);
    return code;
}

static void forget(struct communicator* gone) {
    struct communicator** place = &communicators;
    while (*place != NULL && *place != gone)
        place = &(*place)->next;
    if (*place != NULL) *place = gone->next;
}

static int communicator_freed(MPI_Comm comm, int key, void* value, void* extra) {
    (void)comm;
    (void)key;
    (void)extra;
    struct communicator* state = value;
    shared_raise(&frees);
    pthread_mutex_lock(&list_mutex);
    forget(state);
    pthread_mutex_unlock(&list_mutex);
    if (state->group == NULL) {
        free(state);
    } else {
        state->is_freed = 1;
        if (!state->is_retired) retire(state); /* MPI may put a free off until MPI_Finalize makes progress */
    }
    return MPI_SUCCESS;
}

/* MPI_Finalize frees what hangs on MPI_COMM_SELF before anything else, whichever door it was called by. */
static int finalizing(MPI_Comm comm, int key, void* value, void* extra) {
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    end_requests();
    while (communicators != NULL) {
        struct communicator* state = communicators;
        communicators = state->next;
        if (state->group != NULL) retire(state);
    }
    end_retired();
    if (context != NULL) coppice.context_destroy(context);
    context = NULL;
    int rank = 0;
    int size = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    print_report(rank, size);
    return MPI_SUCCESS;
}

/* What all communicators share. With the mutex. */
static void prepare(void) {
    int running = 0;
    PMPI_Initialized(&running);
    if (!running || keyval != MPI_KEYVAL_INVALID) return;
    PMPI_Add_error_class(&error_class);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, communicator_freed, &keyval, NULL);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalizing, &self_keyval, NULL);
    PMPI_Comm_set_attr(MPI_COMM_SELF, self_keyval, NULL);
}

static void prepare_once(void) {
    if (SHARED_READ(keyval) != MPI_KEYVAL_INVALID) return;
    pthread_mutex_lock(&mutex);
    prepare();
    pthread_mutex_unlock(&mutex);
}

void expect_report(void) {
    if (report_is_wanted()) prepare_once();
}

/* A process whose group fails leaves the exchange early. So each step brings with it whether any process has, and all leave together. What
 * goes beyond the fixed size of a step follows only when nobody has. */
struct step {
    int failed;
    char bytes[512];
};

struct exchange {
    MPI_Comm comm;
    int size;
    struct step* steps; /* of all processes */
    int over;
};

/* The other processes wait for this one, and there is nothing that it could tell them. */
static void* room(MPI_Comm comm, size_t bytes) {
    void* memory = calloc(1, bytes);
    if (memory == NULL)
        end_program(comm, "coppice-mpi: no memory for the group of a communicator (%zu bytes)\n", bytes);
    return memory;
}

static int any_failed(struct exchange* exchange, int failed, const void* mine, size_t bytes) {
    struct step step = {.failed = failed};
    if (bytes > 0) memcpy(step.bytes, mine, bytes);
    exchange->over = PMPI_Allgather(&step, sizeof step, MPI_BYTE, exchange->steps, sizeof step, MPI_BYTE,
                                    exchange->comm) != MPI_SUCCESS;
    for (int i = 0; i < exchange->size; ++i)
        exchange->over |= exchange->steps[i].failed;
    return exchange->over;
}

static int allgather(void* argument, const void* mine, size_t bytes, void* all) {
    struct exchange* exchange = argument;
    const int fits = bytes <= sizeof exchange->steps->bytes;
    if (any_failed(exchange, 0, mine, fits ? bytes : 0)) return 1;
    if (!fits)
        return PMPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, exchange->comm) != MPI_SUCCESS;
    for (int i = 0; i < exchange->size; ++i)
        memcpy((char*)all + (size_t)i * bytes, exchange->steps[i].bytes, bytes);
    return 0;
}

/* What the library sends in one message. Larger payloads stay MPI's until the two have been measured against each other. */
enum { kMostInOneMessage = 8192 };

/* The context of all groups; NULL, or the sentence about why there is none. */
static const char* open_context(void) {
    pthread_mutex_lock(&mutex);
    const char* trouble = load_library();
    if (trouble == NULL && context == NULL) {
        int threads = MPI_THREAD_SINGLE;
        PMPI_Query_thread(&threads);
        coppice_context_options_t options = COPPICE_CONTEXT_OPTIONS_INIT;
        if (threads == MPI_THREAD_MULTIPLE) options.thread_mode = COPPICE_THREAD_MULTIPLE;
        if (coppice.context_create(&options, &context) != COPPICE_OK) trouble = coppice.last_error();
    }
    pthread_mutex_unlock(&mutex);
    return trouble;
}

/* All processes get a group, or none. */
static void make_group(MPI_Comm comm, struct communicator* state) {
    struct exchange exchange = {comm, state->size, room(comm, (size_t)state->size * sizeof(struct step)), 0};
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.exchange = allgather;
    options.exchange_argument = &exchange;
    options.rank = (uint32_t)state->rank;
    options.size = (uint32_t)state->size;
    const char* trouble = open_context();
    if (trouble == NULL && coppice.group_create(context, &options, &state->group) != COPPICE_OK)
        trouble = coppice.last_error();
    const int failed_here = trouble != NULL && !exchange.over;
    const int all_made = !exchange.over && !any_failed(&exchange, trouble != NULL, NULL, 0);
    free(exchange.steps);
    state->reason = kNoGroup;
    if (all_made) {
        coppice_group_info_t info = {.struct_size = sizeof info};
        coppice.group_query(state->group, &info);
        if (info.max_payload < state->max_payload) state->max_payload = info.max_payload;
        count_group();
        return;
    }
    count_failed_group(failed_here ? trouble : "at another process");
    if (state->group != NULL) coppice.group_destroy(state->group, 0);
    state->group = NULL;
}

/* A group costs as much as many of its broadcasts can save. So communicators that a program makes get one when they have been used
 * that often; those of all processes get it at once, because what survives deaths is what has a group. Process 0's setting is that of
 * the communicator, because all have to count alike. */
enum { kAfter = 1024 };

static int operations_before_group(MPI_Comm comm, const struct communicator* state) {
    const char* text = getenv("COPPICE_MPI_AFTER");
    int compared = MPI_UNEQUAL;
    PMPI_Comm_compare(comm, MPI_COMM_WORLD, &compared);
    int after = compared == MPI_IDENT ? 0 : kAfter;
    if (state->rank == 0 && text != NULL) {
        char* end = NULL;
        const long number = strtol(text, &end, 10);
        if (end == text || *end != '\0' || number < 0 || number > INT_MAX) {
            end_program(comm, "coppice-mpi: COPPICE_MPI_AFTER='%s' is not a number of operations, 0 or more\n", text);
        }
        after = (int)number;
    }
    PMPI_Bcast(&after, 1, MPI_INT, 0, comm);
    return after;
}

/* Waits for nobody. */
static struct communicator* make_communicator(MPI_Comm comm) {
    struct communicator* state = room(comm, sizeof *state);
    int inter = 0;
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &state->size);
    PMPI_Comm_rank(comm, &state->rank);
    state->max_payload = kMostInOneMessage;
    if (inter) {
        state->reason = kIntercommunicator;
    } else if (state->size == 1) {
        state->reason = kAlone;
    } else {
        state->reason = kNotYet;
        state->is_unasked = 1;
    }
    pthread_mutex_lock(&list_mutex);
    state->next = communicators;
    communicators = state;
    pthread_mutex_unlock(&list_mutex);
    PMPI_Comm_set_attr(comm, keyval, state);
    return state;
}

/* What has been passed on before this was known counts, the same at all processes. */
static void ask_process_0(MPI_Comm comm, struct communicator* state) {
    const int after = operations_before_group(comm, state);
    state->after = after + state->after > 0 ? after + state->after : 0;
    state->is_unasked = 0;
    state->reason = kSeldom;
}

static struct communicator* find_communicator(MPI_Comm comm) {
    const unsigned freed = SHARED_READ(frees);
    if (latest.state != NULL && latest.comm == comm && latest.frees == freed) return latest.state;
    struct communicator* state = NULL;
    int found = 0;
    PMPI_Comm_get_attr(comm, keyval, (void*)&state, &found);
    if (!found) return NULL;
    latest.comm = comm;
    latest.state = state;
    latest.frees = freed;
    return state;
}

struct communicator* communicator_of(MPI_Comm comm, int may_wait) {
    look_at_retired();
    if (comm == MPI_COMM_NULL) return NULL;
    prepare_once();
    if (keyval == MPI_KEYVAL_INVALID) return NULL; /* MPI_Init has not been called */
    struct communicator* state = find_communicator(comm);
    if (state == NULL) state = make_communicator(comm);
    if (!may_wait) return state;
    if (state->is_unasked) ask_process_0(comm, state);
    if (state->reason == kSeldom && state->after == 0) make_group(comm, state);
    return state;
}
