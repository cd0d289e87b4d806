// SPDX-License-Identifier: Apache-2.0
//
// Who this process is within its job.
#ifndef COMMON_IDENTITY_H_
#define COMMON_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>

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
v1::Identity ReadIdentity();

// The version of jobscope, "0.1.0".
const char* Version();

}  // namespace jobscope

#endif  // COMMON_IDENTITY_H_
