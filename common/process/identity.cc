// SPDX-License-Identifier: Apache-2.0
#include "common/process/identity.h"

#include <limits.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

// Bounds host names and paths, and the values set by a launcher; "..." is appended to a longer one.
constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxNameBytes = 253;

using Names = absl::Span<const std::string_view>;

constexpr std::string_view kRanks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
constexpr std::string_view kLocalRanks[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                            "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"};
constexpr std::string_view kWorldSizes[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                            "SLURM_NTASKS"};
constexpr std::string_view kBatchJobs[] = {"SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID"};
constexpr std::string_view kInPod = "KUBERNETES_SERVICE_HOST";
constexpr std::string_view kPod = "HOSTNAME";
constexpr std::string_view kElasticRun = "TORCHELASTIC_RUN_ID";

std::vector<std::string_view> AllNames() {
  std::vector<std::string_view> names = {kInPod, kPod, kElasticRun};
  for (const Names some :
       {Names(kRanks), Names(kLocalRanks), Names(kWorldSizes), Names(kBatchJobs)}) {
    names.insert(names.end(), some.begin(), some.end());
  }
  return names;
}

absl::string_view TextFrom(const Variables& variables, std::string_view name) {
  const auto found = variables.find(name);
  return found == variables.end() ? absl::string_view() : absl::string_view(found->second);
}

// Returns the first of `names` that holds a number in [low, INT32_MAX].
std::optional<int32_t> NumberFrom(const Variables& variables, Names names, int32_t low) {
  for (const std::string_view name : names) {
    int32_t number = 0;
    // This version of Abseil's string_view is not std::string_view.
    const std::string text(TextFrom(variables, name));
    if (absl::SimpleAtoi(text, &number) && number >= low) return number;
  }
  return std::nullopt;
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? Printable(name, kMaxTextBytes) : std::string();
}

std::string Executable() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? Printable(absl::string_view(path, static_cast<size_t>(length)), kMaxTextBytes)
                    : std::string();
}

std::string Job(const Variables& variables) {
  for (const std::string_view name : kBatchJobs) {
    if (const absl::string_view job = TextFrom(variables, name); !job.empty()) {
      return Printable(job, kMaxNameBytes);
    }
  }
  const std::string_view name = TextFrom(variables, kInPod).empty() ? kElasticRun : kPod;
  return Printable(TextFrom(variables, name), kMaxNameBytes);
}

}  // namespace

ProcessIdentity::ProcessIdentity() {
  fixed_.set_host(HostName());
  fixed_.set_pid(getpid());
  fixed_.set_executable(Executable());
  // Labels that launchers give, which permit nothing.
  known_ = CallersVariables(AllNames());
}

v1::Identity ProcessIdentity::Read() {
  absl::StatusOr<Variables> now = ReadOwnEnvironment(AllNames());
  v1::Identity identity = fixed_;
  const MutexLock lock(&mutex_);
  if (now.ok()) {
    for (auto& [name, value] : *now) known_.insert_or_assign(name, std::move(value));
  }
  identity.set_job(Job(known_));
  if (const auto rank = NumberFrom(known_, kRanks, 0)) {
    identity.set_rank(*rank);
    identity.set_has_rank(true);
  }
  if (const auto local_rank = NumberFrom(known_, kLocalRanks, 0)) {
    identity.set_local_rank(*local_rank);
    identity.set_has_local_rank(true);
  }
  if (const auto world_size = NumberFrom(known_, kWorldSizes, 1)) {
    identity.set_world_size(*world_size);
    identity.set_has_world_size(true);
  }
  return identity;
}

const char* Version() { return JOBSCOPE_VERSION; }

}  // namespace jobscope
