// SPDX-License-Identifier: Apache-2.0
//
// Marks the logdir of a capture for TensorBoard.
#ifndef CLIENT_CLI_LOGDIR_MARKER_H_
#define CLIENT_CLI_LOGDIR_MARKER_H_

#include <mutex>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/run/write_pool.h"
#include "common/run/run_directory.h"

namespace jobscope {

// Writes the marker beside the first trace: without a trace, the logdir must not look like one with
// runs.
class LogdirMarker {
 public:
  LogdirMarker(const RunDirectory* directory, WritePool* disk)
      : directory_(directory), disk_(disk) {}

  // Thread-safe. The first call starts the writing, and does not wait for it.
  void OnDelivery() {
    std::call_once(first_, [this] {
      begun_ = true;
      disk_->Run([this] {
        status_ = directory_->WriteMarker(absl::Now());
        written_.Notify();
      });
    });
  }
  // Waits until the marker is written, if there was a delivery. Call it after the last one.
  absl::Status Await() {
    if (begun_) written_.WaitForNotification();
    return status_;
  }

 private:
  const RunDirectory* const directory_;
  WritePool* const disk_;
  std::once_flag first_;
  bool begun_ = false;
  absl::Notification written_;
  absl::Status status_;
};

}  // namespace jobscope

#endif  // CLIENT_CLI_LOGDIR_MARKER_H_
