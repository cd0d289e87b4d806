// SPDX-License-Identifier: Apache-2.0
//
// One capture of many workers: connects, starts all at one instant, watches, gathers. One worker's
// trouble is its own.
#ifndef CLIENT_FAN_OUT_H_
#define CLIENT_FAN_OUT_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/outcome.h"
#include "client/progress.h"
#include "client/reply_file.h"
#include "client/worker.h"
#include "common/endpoint.h"
#include "common/manifest.h"

namespace jobscope {

// Limits of patience. docs/design/client.md says how they were chosen.
struct FanOutTimes {
  absl::Duration connect = absl::Seconds(5);  // for one attempt: connection and Describe
  absl::Duration transfer =
      absl::Seconds(120);  // from the planned end to the whole answer of a worker that lives
  absl::Duration first_backoff =
      absl::Milliseconds(500);  // doubles; up to a quarter more by chance
  absl::Duration max_backoff = absl::Seconds(4);
  // A start that all wait for waits for nobody who needs this much longer than the last one that
  // became ready.
  absl::Duration gather = absl::Milliseconds(500);
  // A worker that is overdue is asked for a sign of life each `probe_period`, and given `silence`
  // to answer.
  absl::Duration probe_period = absl::Seconds(2);
  absl::Duration silence = absl::Seconds(7);
};

struct FanOutOptions {
  std::string session_id;
  std::string repository_root;
  absl::Duration duration;
  absl::Duration delay;
  uint32_t host_tracer_level = 2;
  uint32_t device_tracer_level = 1;
  uint32_t python_tracer_level = 0;
  int attempts = 3;
  size_t max_parallel = 256;          // connecting at one time
  std::optional<size_t> min_workers;  // fewer can be armed: nothing is recorded
  FanOutTimes times;
};

struct WorkerResult {
  Verdict verdict;
  ManifestWorker account;  // without outcome, phase, reason, grpc_code: those are the verdict's
};

// Brings an answer to disk, and empties it on the way; runs in a write thread. `WriteReply` in
// production. By pointer: gRPC 1.51's ByteBuffer cannot be moved, and a copy would keep the
// answer's memory until the file is written.
using ReplyWriter = std::function<Verdict(size_t index, const ReplyContext& context,
                                          grpc::ByteBuffer* reply, ManifestWorker* account)>;

// The decisions of a capture, all made on the thread that calls Run; gRPC's callbacks and the write
// threads only post to its mailbox. No thread per worker.
class FanOut {
 public:
  // `stems[i]` names the files of endpoints[i]. `progress` must outlive this.
  FanOut(std::vector<Endpoint> endpoints, std::vector<std::string> stems, FanOutOptions options,
         WorkerFactory factory, ReplyWriter writer, Progress* progress);
  ~FanOut();
  FanOut(const FanOut&) = delete;
  FanOut& operator=(const FanOut&) = delete;

  // Blocks until each worker has its verdict: at most connect time and back-offs, then delay,
  // duration and transfer time. Once.
  std::vector<WorkerResult> Run();

  // Ends the capture early and keeps what there is. Thread-safe, at any time, also before Run;
  // returns at once.
  void Interrupt();

  // When recording was asked to begin, on this machine's clock; absent if it never was. After Run.
  std::optional<absl::Time> started() const;

 private:
  class State;
  const std::unique_ptr<State> state_;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_H_
