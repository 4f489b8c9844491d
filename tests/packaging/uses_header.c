/* Names everything that coppice.h offers, as a user would, for C11 and for C++. Compiled, not run. */
#include <coppice/coppice.h>

static int exchange(void* argument, const void* mine, size_t bytes, void* all) {
    return argument != NULL && mine != NULL && all != NULL && bytes > 0 ? 0 : 1;
}

static void on_failure(void* argument, coppice_group_t* group, uint32_t rank) {
    size_t count = 0;
    (void)argument;
    (void)rank;
    (void)coppice_group_failed(group, NULL, 0, &count);
}

int main(void) {
    coppice_context_options_t context_options = COPPICE_CONTEXT_OPTIONS_INIT;
    coppice_group_options_t group_options = COPPICE_GROUP_OPTIONS_INIT;
    coppice_context_t* context = NULL;
    coppice_group_t* group = NULL;
    coppice_request_t* request = NULL;
    coppice_group_info_t info;
    coppice_status_t status;
    char buffer[8] = {0};
    const void* view = NULL;
    void* memory = NULL;
    size_t bytes = 0;

    context_options.thread_mode = COPPICE_THREAD_MULTIPLE;
    group_options.exchange = exchange;
    group_options.on_failure = on_failure;
    status = coppice_context_create(&context_options, &context);
    if (status == COPPICE_OK) status = coppice_group_create(context, &group_options, &group);
    info.struct_size = sizeof info;
    if (status == COPPICE_OK) status = coppice_group_query(group, &info);
    if (status == COPPICE_OK) status = coppice_memory_register(group, buffer, sizeof buffer);
    if (status == COPPICE_OK) status = coppice_broadcast(group, buffer, sizeof buffer, 0, NULL, COPPICE_NO_TIMEOUT);
    if (status == COPPICE_OK) status = coppice_broadcast_nb(group, buffer, sizeof buffer, 0, &request);
    if (status == COPPICE_OK) status = coppice_request_test(request, &bytes);
    if (status == COPPICE_IN_PROGRESS) status = coppice_request_wait(request, &bytes, 1000);
    (void)coppice_request_free(request);
    if (status == COPPICE_OK) status = coppice_broadcast_view_nb(group, buffer, sizeof buffer, 0, &request);
    if (status == COPPICE_OK) status = coppice_request_view(request, &view, &bytes);
    if (status == COPPICE_OK) status = coppice_progress(context);
    if (status == COPPICE_OK) status = coppice_memory_deregister(group, buffer);
    if (status == COPPICE_OK) status = coppice_memory_allocate(group, sizeof buffer, &memory);
    if (status == COPPICE_OK) status = coppice_memory_free(group, memory);
    if (status == COPPICE_OK) status = coppice_group_destroy(group, COPPICE_NO_TIMEOUT);
    if (status == COPPICE_OK) status = coppice_context_destroy(context);
    return coppice_status_string(status) == coppice_last_error() && coppice_version() != NULL;
}
