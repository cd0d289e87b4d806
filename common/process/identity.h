// SPDX-License-Identifier: Apache-2.0
//
// Describes who this process is within its job.
#ifndef COMMON_PROCESS_IDENTITY_H_
#define COMMON_PROCESS_IDENTITY_H_

#include <functional>

#include "common/process/own_environment.h"
#include "common/sync/mutex.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {

// Reads who this process is: host, pid, executable, and from the environment rank, local rank,
// world size (RANK, LOCAL_RANK, WORLD_SIZE, SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS,
// OMPI_COMM_WORLD_*, PMI_*) and job (SLURM_JOB_ID, HOSTNAME of a pod with KUBERNETES_SERVICE_HOST,
// ...). A field is absent if its variable is unset or not a number in range.
//
// If several launchers are nested, the innermost wins: torchrun's names, then MPI's, then Slurm's,
// because srun starts mpirun and torchrun, whose children inherit the Slurm rank of the launcher,
// not their own.
//
// A program may set its rank long after it started (torch.multiprocessing.spawn), so each Read
// reads the environment again. A variable that was seen once keeps its last value even if the
// program removes it. Thread-safe, even while other threads change the environment.
class ProcessIdentity {
 public:
  // Reads the environment for the first time. If this process may not read its own memory
  // (seccomp), this is also the last time, and it uses getenv.
  ProcessIdentity();

  // Returns the current identity. Takes about 0.1 ms.
  v1::Identity Read();

 private:
  v1::Identity fixed_;  // host, pid, executable
  Mutex mutex_;
  Variables known_ ABSL_GUARDED_BY(mutex_);
};

// ProcessIdentity::Read, or a replacement in tests. Thread-safe, never empty.
using IdentitySource = std::function<v1::Identity()>;

// Returns the version of jobscope, "0.1.0".
const char* Version();

}  // namespace jobscope

#endif  // COMMON_PROCESS_IDENTITY_H_
