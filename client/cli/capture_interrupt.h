// SPDX-License-Identifier: Apache-2.0
//
// Decides what Ctrl-C does in each phase of a capture.
#ifndef CLIENT_CLI_CAPTURE_INTERRUPT_H_
#define CLIENT_CLI_CAPTURE_INTERRUPT_H_

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "client/cli/base/interrupt.h"
#include "client/fan_out/fan_out.h"
#include "common/run/run_directory.h"
#include "common/threads/thread_group.h"

namespace jobscope {

// Watches for the whole run. The first Ctrl-C ends the process while the run has no directory (a
// name that does not resolve), and interrupts the fan-out otherwise. The second one removes the
// run's directory if it is empty, because viewers would list it, and ends the process. One instance
// at a time.
class CaptureInterrupt {
 public:
  CaptureInterrupt();

  // Call it before the directory is created: from now on the first Ctrl-C does not end the process.
  void OnPreparing();
  void OnDirectory(const RunDirectory& directory);
  // `fan_out` must outlive this. Interrupts it if Ctrl-C came before.
  void OnFanOut(FanOut* fan_out);

 private:
  void First();
  void Second();

  absl::Mutex mutex_;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool preparing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<RunDirectory> directory_ ABSL_GUARDED_BY(mutex_);
  FanOut* fan_out_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Used by Second, after which the process ends.
  absl::Notification removed_;
  ThreadGroup remover_;

  const InterruptWatch watch_;  // calls the functions above
};

}  // namespace jobscope

#endif  // CLIENT_CLI_CAPTURE_INTERRUPT_H_
