// SPDX-License-Identifier: Apache-2.0
#include "common/identity.h"

#include <limits.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "absl/strings/numbers.h"

namespace jobscope {
namespace {

// The first of `names` that is a number in [low, INT32_MAX].
std::optional<int32_t> NumberFrom(std::initializer_list<const char*> names, int32_t low) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    int32_t number = 0;
    if (value != nullptr && absl::SimpleAtoi(value, &number) && number >= low) return number;
  }
  return std::nullopt;
}

std::string_view TextFrom(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// Foreign bytes for a proto3 string field, which must be UTF-8: kept if they are plain ASCII, else
// marked.
std::string Printable(std::string_view text, size_t limit = 4096) {
  std::string out(text.substr(0, limit));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return out;
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? Printable(name) : std::string();
}

std::string Executable() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? Printable(std::string_view(path, static_cast<size_t>(length)))
                    : std::string();
}

std::string Job() {
  for (const char* name : {"SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID"}) {
    if (const std::string_view job = TextFrom(name); !job.empty()) return Printable(job, 256);
  }
  if (!TextFrom("KUBERNETES_SERVICE_HOST").empty()) return Printable(TextFrom("HOSTNAME"), 256);
  return Printable(TextFrom("TORCHELASTIC_RUN_ID"), 256);
}

}  // namespace

v1::Identity ReadIdentity() {
  v1::Identity identity;
  identity.set_host(HostName());
  identity.set_pid(getpid());
  identity.set_executable(Executable());
  identity.set_job(Job());
  if (const auto rank =
          NumberFrom({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, 0)) {
    identity.set_rank(*rank);
    identity.set_has_rank(true);
  }
  if (const auto local_rank = NumberFrom({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"},
                                         0)) {
    identity.set_local_rank(*local_rank);
    identity.set_has_local_rank(true);
  }
  if (const auto world_size =
          NumberFrom({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, 1)) {
    identity.set_world_size(*world_size);
    identity.set_has_world_size(true);
  }
  return identity;
}

const char* Version() { return JOBSCOPE_VERSION; }

}  // namespace jobscope
