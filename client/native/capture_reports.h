// SPDX-License-Identifier: Apache-2.0
//
// Reports one worker's capture through its WorkerEvents, no more often than they promise.
#ifndef CLIENT_NATIVE_CAPTURE_REPORTS_H_
#define CLIENT_NATIVE_CAPTURE_REPORTS_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/worker/worker_client.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// Not thread-safe. Refused and Ended are the last report: they release the callbacks, which may own
// the capture.
class CaptureReports {
 public:
  void SetEvents(WorkerEvents events) { events_ = std::move(events); }

  void Armed(v1::Armed armed) { events_.armed(grpc::Status::OK, std::move(armed)); }
  void Refused(const grpc::Status& status) {
    const WorkerEvents events = std::exchange(events_, {});
    events.armed(status, {});
  }
  // Only the first call counts.
  void Started(v1::Started started) {
    if (!std::exchange(started_, true)) events_.started(std::move(started));
  }
  // Drops a report that follows the last one too closely.
  void Progress(v1::Progress progress, uint64_t now_ns) {
    if (now_ns < progress_ns_ + kMinProgressNs) return;
    progress_ns_ = now_ns;
    events_.progress(std::move(progress));
  }
  void Note(const std::string& text) { events_.note(text); }
  void Ended(const grpc::Status& status, std::unique_ptr<Delivery> delivery) {
    const WorkerEvents events = std::exchange(events_, {});
    events.ended(status, std::move(delivery));
  }

 private:
  // Shortest interval of progress reports. Workers send progress every 200 ms at most; most of a
  // faster sequence is dropped, because the receiver may be slower than the network.
  static constexpr uint64_t kMinProgressNs = 20'000'000;

  WorkerEvents events_;
  bool started_ = false;
  uint64_t progress_ns_ = 0;  // when progress was last reported
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_CAPTURE_REPORTS_H_
