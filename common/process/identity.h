// SPDX-License-Identifier: Apache-2.0
//
// Who this process is within its job.
#ifndef COMMON_PROCESS_IDENTITY_H_
#define COMMON_PROCESS_IDENTITY_H_

#include <functional>
#include <mutex>

#include "common/process/own_environment.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {

// Host, pid, executable, and from the environment rank, local rank, world size (RANK, LOCAL_RANK,
// WORLD_SIZE, SLURM_PROCID, SLURM_LOCALID, SLURM_NTASKS, OMPI_COMM_WORLD_*, PMI_*), job
// (SLURM_JOB_ID, HOSTNAME of a pod with KUBERNETES_SERVICE_HOST, ...). What is not set, or is not a
// number in range, is absent.
//
// Of several launchers the innermost wins: torchrun's names, then MPI's, then Slurm's, because
// mpirun and torchrun are themselves started by srun, and their children inherit the Slurm rank of
// the launcher, not their own.
//
// A program may set its rank long after it has started (torch.multiprocessing.spawn), so the
// environment is read anew each time. A variable that was seen once counts with its last value,
// also where the program has removed it since. Thread-safe, also beside threads that change the
// environment.
class ProcessIdentity {
 public:
  // Reads the environment for the first time. Where this process may not read its own memory
  // (seccomp), that is also the last time, and by getenv.
  ProcessIdentity();

  // Who this process is now. Takes some 0.1 ms.
  v1::Identity Read();

 private:
  v1::Identity fixed_;  // host, pid, executable
  std::mutex mutex_;
  Variables known_;
};

// ProcessIdentity::Read, or a test's. Thread-safe, never empty.
using IdentitySource = std::function<v1::Identity()>;

// The version of jobscope, "0.1.0".
const char* Version();

}  // namespace jobscope

#endif  // COMMON_PROCESS_IDENTITY_H_
