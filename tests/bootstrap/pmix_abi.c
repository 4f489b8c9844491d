/* Our own picture of libpmix's interface, held against the headers of the one that is installed. Compiling is the test. */
#include "bootstrap/pmix_abi.hpp"

#include <pmix.h>

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours)

SAME(sizeof(coppice_pmix_proc_t), sizeof(pmix_proc_t));
SAME(offsetof(coppice_pmix_proc_t, rank), offsetof(pmix_proc_t, rank));
SAME(sizeof(coppice_pmix_value_t), sizeof(pmix_value_t));
SAME(offsetof(coppice_pmix_value_t, data), offsetof(pmix_value_t, data));
SAME(offsetof(coppice_pmix_value_t, data.object.size), offsetof(pmix_value_t, data.bo.size));
SAME(sizeof(coppice_pmix_info_t), sizeof(pmix_info_t));
SAME(offsetof(coppice_pmix_info_t, flags), offsetof(pmix_info_t, flags));
SAME(offsetof(coppice_pmix_info_t, value), offsetof(pmix_info_t, value));
SAME(offsetof(coppice_pmix_value_t, data.process), offsetof(pmix_value_t, data.proc));
SAME(offsetof(coppice_pmix_value_t, data.array), offsetof(pmix_value_t, data.darray));
SAME(sizeof(coppice_pmix_array_t), sizeof(pmix_data_array_t));
SAME(offsetof(coppice_pmix_array_t, size), offsetof(pmix_data_array_t, size));
SAME(offsetof(coppice_pmix_array_t, items), offsetof(pmix_data_array_t, array));
SAME(COPPICE_PMIX_PROC, PMIX_PROC);
SAME(COPPICE_PMIX_DATA_ARRAY, PMIX_DATA_ARRAY);
#ifdef PMIX_ERR_PROC_ABORTED /* from the names that the versions have given up */
SAME(COPPICE_PMIX_PROC_ABORTED, PMIX_ERR_PROC_ABORTED);
#endif
SAME(COPPICE_PMIX_PROC_REQUESTED_ABORT, PMIX_ERR_PROC_REQUESTED_ABORT);
#ifdef PMIX_ERR_PROC_KILLED_BY_CMD /* since version 4 */
SAME(COPPICE_PMIX_PROC_TERM_WO_SYNC, PMIX_ERR_PROC_TERM_WO_SYNC);
SAME(COPPICE_PMIX_PROC_KILLED_BY_CMD, PMIX_ERR_PROC_KILLED_BY_CMD);
SAME(COPPICE_PMIX_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED_BY_SIG);
#endif
SAME(COPPICE_PMIX_NO_ACTION_TAKEN, PMIX_EVENT_NO_ACTION_TAKEN);
SAME(COPPICE_PMIX_BOOL, PMIX_BOOL);
SAME(COPPICE_PMIX_UINT32, PMIX_UINT32);
SAME(COPPICE_PMIX_BYTE_OBJECT, PMIX_BYTE_OBJECT);
SAME(COPPICE_PMIX_SUCCESS, PMIX_SUCCESS);
SAME(COPPICE_PMIX_NOT_FOUND, PMIX_ERR_NOT_FOUND);
#ifdef PMIX_ERR_PROC_ENTRY_NOT_FOUND /* version 5 has it no more */
SAME(COPPICE_PMIX_PROCESS_NOT_FOUND, PMIX_ERR_PROC_ENTRY_NOT_FOUND);
#endif
SAME(COPPICE_PMIX_TIMEOUT, PMIX_ERR_TIMEOUT);
SAME(COPPICE_PMIX_SCOPE_GLOBAL, PMIX_GLOBAL);
SAME(COPPICE_PMIX_WILDCARD, PMIX_RANK_WILDCARD);

#include <string.h>

int main(void) {
    return strcmp(COPPICE_PMIX_JOB_SIZE, PMIX_JOB_SIZE) != 0 ||
           strcmp(COPPICE_PMIX_COLLECT_DATA, PMIX_COLLECT_DATA) != 0 ||
           strcmp(COPPICE_PMIX_OPTIONAL, PMIX_OPTIONAL) != 0 ||
           strcmp(COPPICE_PMIX_AFFECTED_PROC, PMIX_EVENT_AFFECTED_PROC) != 0 ||
           strcmp(COPPICE_PMIX_AFFECTED_PROCS, PMIX_EVENT_AFFECTED_PROCS) != 0;
}
