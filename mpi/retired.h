/* Communicators that MPI has freed, or is about to in MPI_Finalize, while their groups may still be needed. */
#ifndef COPPICE_MPI_RETIRED_H
#define COPPICE_MPI_RETIRED_H

#include "communicators.h"

/* Takes over a state that has a group. The group ends when the requests of this process are over, and all processes that live have come
 * so far with it; the state goes with it if its communicator was freed. Waits for nobody, and may be called from within MPI. */
void retire(struct communicator* state);

/* Ends groups whose time has come. Looks at a few at each call, by turns, however many there are. */
void look_at_retired(void);

/* MPI_Finalize: waits for the others, for a while, and ends all groups. */
void end_retired(void);

#endif
