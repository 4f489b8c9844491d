// PMIx as the exchange: under Open MPI's mpirun, srun --mpi=pmix, prterun.
#pragma once

#include "bootstrap/store.hpp"

namespace coppice::bootstrap {

namespace pmix {
struct Library;
}

// Whether a server of PMIx has started this process: PMIX_NAMESPACE and PMIX_RANK.
bool has_pmix_environment();

// Connects. The connection ends with the object, so that a launcher that watches its clients does not take the death of a rank
// for the failure of the job; PMIx counts its users, so an MPI beside is not disturbed.
// COPPICE_ERR_BOOTSTRAP without a library, or where it can't talk to the server. A server that does not answer is waited for until the
// deadline, here and in the session, or a second where the deadline passes before a call or during it, and as long at its end.
Result<std::unique_ptr<Store>> connect_to_pmix(std::uint64_t deadline_ns);

// By a library that is there as long as the store is. A call has `least_ns` to return in, or until the deadline where that is later.
Result<std::unique_ptr<Store>> connect_to_pmix(const pmix::Library& library, std::uint64_t deadline_ns,
                                               std::uint64_t least_ns);

}  // namespace coppice::bootstrap
