/* A process's part of the library: its settings, its progress, and whether several threads call. Programs include <coppice/coppice.h>, of which this is a part. */
#ifndef COPPICE_CONTEXT_H
#define COPPICE_CONTEXT_H

#include <coppice/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coppice_context coppice_context_t;

typedef enum coppice_thread_mode { COPPICE_THREAD_SINGLE = 0, COPPICE_THREAD_MULTIPLE = 1 } coppice_thread_mode_t;

typedef struct coppice_context_options {
    size_t struct_size; /* sizeof(coppice_context_options_t) */
    coppice_thread_mode_t thread_mode;

    /* The thread that makes progress while no call of the application does. Also COPPICE_PROGRESS_THREAD=auto, 1, 0.
     *  0: one thread a process, however many contexts and groups. It takes over a context that no thread has
     *     entered for 1 to 4 ms. It blocks all signals and calls no function of the application but a witness's
     *     (coppice_group_options_t.witness): failure callbacks wait for
     *     the next call, and so does the part of an agreement that needs a combine function.
     *  1: the same thread, and it calls these functions, too; implies COPPICE_THREAD_MULTIPLE.
     * -1: none, for runtimes that poll by themselves. Until its groups are destroyed, each process must then call
     *     coppice_progress as often as the others can wait, within any bound of silence (COPPICE_DETECTION_BOUND),
     *     also while it waits elsewhere. While coppice_group_create waits for other ranks there is a thread all the same, where
     *     the context has other groups. */
    int progress_thread;

    /* "shm,tcp": which may be used, per peer the first that reaches it. Also COPPICE_TRANSPORT. */
    const char* transports;
} coppice_context_options_t;
#define COPPICE_CONTEXT_OPTIONS_INIT \
    { sizeof(coppice_context_options_t), COPPICE_THREAD_SINGLE, 0, NULL }

/* Reads the settings (environment, then options; options win) and refuses those that do not parse with
 * COPPICE_ERR_CONFIG. `options` may be NULL. Allocates; opens no connection. */
COPPICE_API coppice_status_t coppice_context_create(const coppice_context_options_t* options,
                                                    coppice_context_t** context);

/* COPPICE_ERR_BUSY while a group of it exists. NULL is allowed. */
COPPICE_API coppice_status_t coppice_context_destroy(coppice_context_t* context);

/* Makes all progress that can be made now, in all groups; never blocks. Blocking calls, test, wait and calls that begin something
 * do the same; of groups that they are not about in every 16th round.
 * Needed only with coppice_context_options_t.progress_thread -1. */
COPPICE_API coppice_status_t coppice_progress(coppice_context_t* context);

#ifdef __cplusplus
}
#endif

#endif /* COPPICE_CONTEXT_H */
