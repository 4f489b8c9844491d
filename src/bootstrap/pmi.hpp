// PMI as the exchange: under srun --mpi=pmi2 and MPICH's mpiexec.hydra.
//
// Both give a process the descriptor of a connection to the launcher and serve PMI-1's lines of text there, so that no library
// is needed.
#pragma once

#include "bootstrap/store.hpp"

namespace coppice::bootstrap {

// Whether such a launcher has started this process: PMI_FD, PMI_RANK and PMI_SIZE.
bool has_pmi_environment();

// A process has one connection. It ends with the object under mpiexec.hydra, which takes the end of a rank that still has it for the
// job's failure; so there one group can be made this way. Elsewhere the next group goes on with it, and it ends when the process exits.
// COPPICE_ERR_CONFIG when the variables do not parse, COPPICE_ERR_BOOTSTRAP when the launcher does not answer as PMI says.
Result<std::unique_ptr<Store>> connect_to_pmi(std::uint64_t deadline_ns);

}  // namespace coppice::bootstrap
