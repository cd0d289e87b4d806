// SPDX-License-Identifier: Apache-2.0
#include "server/process/published_address.h"

#include <atomic>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "server/listen/port_file.h"

namespace jobscope {
namespace {

// File servers may need seconds while all ranks of a job start.
constexpr absl::Duration kWriteLimit = absl::Seconds(5);
constexpr absl::Duration kRemovalLimit = absl::Milliseconds(500);

}  // namespace

absl::Status PublishedAddress::Publish(const std::string& directory, const v1::Identity& identity,
                                       const std::string& address) {
  if (caller_ == nullptr) caller_ = std::make_unique<DetachedCaller>("jobscope-ports");
  if (!caller_->has_thread()) {
    caller_.reset();
    return absl::ResourceExhaustedError(
        "cannot start the thread that writes this worker's address to JOBSCOPE_PORT_DIR; raise the "
        "limit on threads (ulimit -u, pids.max of the cgroup)");
  }
  struct Attempt {
    absl::StatusOr<std::string> path;
    // By the first of the two: the write has ended, or the caller no longer waits for it.
    std::atomic<bool> decided{false};
  };
  const auto attempt = std::make_shared<Attempt>();
  const absl::Time deadline = SteadyNow() + kWriteLimit;
  const bool in_time =
      caller_->Wait(kWriteLimit) &&
      caller_->Run("write", deadline - SteadyNow(), [attempt, directory, identity, address] {
        attempt->path = WritePortFile(directory, identity, address);
        const bool awaited = !attempt->decided.exchange(true);
        if (!awaited && attempt->path.ok()) RemovePortFile(*attempt->path, identity, address);
      });
  if (!in_time && !attempt->decided.exchange(true)) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the address of this worker was not written to ", directory, " within ",
        absl::FormatDuration(kWriteLimit),
        ": its file system does not answer; set JOBSCOPE_PORT_DIR to a directory of another one, "
        "or try again later"));
  }
  if (!attempt->path.ok()) {
    caller_.reset();
    return attempt->path.status();
  }
  file_ = File{*attempt->path, identity, address};
  return absl::OkStatus();
}

void PublishedAddress::Withdraw() {
  if (!file_.has_value()) return;
  const auto remove = [file = *std::exchange(file_, std::nullopt)] {
    RemovePortFile(file.path, file.identity, file.address);
  };
  // A caller that hangs is kept: the next write waits for it.
  if (caller_->Run("remove", kRemovalLimit, remove)) caller_.reset();
}

}  // namespace jobscope
