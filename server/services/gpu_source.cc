// SPDX-License-Identifier: Apache-2.0
#include "server/services/gpu_source.h"

#include <memory>
#include <utility>

#include "common/sync/mutex.h"
#include "server/rpc/grpc_timer.h"

namespace jobscope {
namespace {

// Shared by the source's callback and the alarm, either of which may answer. The first one releases
// the alarm.
struct Wait {
  Mutex mutex;
  bool answered ABSL_GUARDED_BY(mutex) = false;
  std::unique_ptr<GrpcTimer> alarm ABSL_GUARDED_BY(mutex);
  std::function<void()> then;

  void Answer() {
    std::unique_ptr<GrpcTimer> done_with;
    {
      const MutexLock lock(&mutex);
      if (std::exchange(answered, true)) return;
      done_with = std::move(alarm);
    }
    then();
  }
};

}  // namespace

void WithGpus(const GpuSource& source, absl::Duration max_age, absl::Duration limit,
              std::function<void()> then) {
  if (!source) return then();
  const auto wait = std::make_shared<Wait>();
  wait->then = std::move(then);
  // A call that hangs keeps this callback, and with it `wait`. This happens once per hang, because
  // a source that hangs is not queried again.
  if (!source.refresh(max_age, [wait] { wait->Answer(); })) return wait->Answer();
  auto alarm = RunAfter(limit, [wait] { wait->Answer(); });
  const MutexLock lock(&wait->mutex);
  if (!wait->answered) wait->alarm = std::move(alarm);
}

}  // namespace jobscope
