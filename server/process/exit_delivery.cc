// SPDX-License-Identifier: Apache-2.0
#include "server/process/exit_delivery.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "server/guard/fork_guard.h"

namespace jobscope {
namespace {

// How long captures may delay the exit of the process; a function may need up to 0.5 s more to
// clean up. Kubernetes and Slurm grant 30 s after SIGTERM; people wait less.
constexpr absl::Duration kExitGrace = absl::Seconds(1);

// Never destroyed: exit handlers may register others.
struct Deliveries {
  absl::Mutex mutex;
  std::vector<void (*)(absl::Time)> functions ABSL_GUARDED_BY(mutex);
  bool registered ABSL_GUARDED_BY(mutex) = false;
};

Deliveries& TheDeliveries() {
  static auto* const deliveries = new Deliveries;
  return *deliveries;
}

void OnExit() {
  if (InForkedChild()) return;
  const absl::Time deadline = SteadyNow() + kExitGrace;
  std::vector<void (*)(absl::Time)> functions;
  {
    const absl::MutexLock lock(&TheDeliveries().mutex);
    functions = std::exchange(TheDeliveries().functions, {});
  }
  for (const auto deliver : functions) deliver(deadline);
}

}  // namespace

void DeliverAtExit(void (*deliver)(absl::Time deadline)) {
  Deliveries& deliveries = TheDeliveries();
  const absl::MutexLock lock(&deliveries.mutex);
  const auto begin = deliveries.functions.begin();
  const auto end = deliveries.functions.end();
  if (std::find(begin, end, deliver) == end) deliveries.functions.push_back(deliver);
  if (!deliveries.registered) deliveries.registered = std::atexit(&OnExit) == 0;
}

// Exit handlers and static destructors run last in, first out.
void DeliverBeforeOthersExit() { (void)std::atexit(&OnExit); }

}  // namespace jobscope
