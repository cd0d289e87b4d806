// SPDX-License-Identifier: Apache-2.0
//
// Decides from a worker's answer to Describe whether it takes part in the run, and over which
// protocol.
#ifndef CLIENT_FAN_OUT_ADMISSION_H_
#define CLIENT_FAN_OUT_ADMISSION_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/fan_out/fan_out_options.h"
#include "client/fan_out/roster.h"
#include "client/worker/worker_outcome.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// Belongs to the deciding thread.
class Admission {
 public:
  enum class Next {
    kArm,
    kAskTensorflow,  // describe it again, over the connection on which its trace will arrive
    kRetry,
    kFinish,
  };
  struct Decision {
    Next next = Next::kArm;
    WorkerOutcome outcome;    // of kRetry and kFinish
    absl::Duration at_least;  // of kRetry: until the worker may be free
    // If another process than at its last attempt has answered at the worker's address: the workers
    // that ended as duplicates of the earlier one, which may still be reached at theirs.
    std::vector<size_t> duplicates_of_earlier;
  };

  // Both must outlive this.
  Admission(const FanOutOptions& options, Roster* roster) : options_(options), roster_(roster) {}

  // `response`: null for a stock worker, which does not know Describe. Fills in the worker's slot
  // what the answer says.
  Decision Decide(size_t index, const v1::DescribeResponse* response);

  // If the path to the worker, which is done, failed before it recorded: returns the workers that
  // ended as its duplicates, each once. The first of them that is described again replaces it.
  std::vector<size_t> TakeDuplicates(size_t index);

 private:
  // `process`, here and below: as ProcessOf returns it.
  Decision DecideOn(size_t index, const v1::DescribeResponse* response, const std::string& process);
  // Returns the worker at another address that is the same process. The first one that was
  // described is kept, unless its path failed.
  std::optional<size_t> Twin(size_t index, const std::string& process);
  // The worker is `process` now: it stands for no earlier one any more. Returns the duplicates of
  // that one.
  std::vector<size_t> ForgetEarlier(size_t index, const std::string& process);
  bool PathFailed(size_t index) const;
  void NoteDescription(const v1::DescribeResponse& response, Slot* slot) const;
  // The worker does not speak the native protocol.
  Decision FallBack(size_t index) const;

  const FanOutOptions& options_;
  Roster* const roster_;
  std::map<std::string, size_t> processes_;           // process -> the worker that is recorded
  std::map<size_t, std::string> recorded_;            // the same, by the worker
  std::map<size_t, std::vector<size_t>> duplicates_;  // of that worker
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_ADMISSION_H_
