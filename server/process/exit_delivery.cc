// SPDX-License-Identifier: Apache-2.0
#include "server/process/exit_delivery.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "server/guard/fork_guard.h"

namespace jobscope {
namespace {

// How long captures may delay the exit of the process; a function may need up to 0.5 s more to
// clean up. Kubernetes and Slurm grant 30 s after SIGTERM; people wait less.
constexpr absl::Duration kExitGrace = absl::Seconds(1);

// Never destroyed: exit handlers may register others.
struct Deliveries {
  absl::Mutex mutex;
  struct Function {
    ExitFunction deliver;
    ExitFunction clean_up;  // may be null
  };
  std::vector<Function> functions ABSL_GUARDED_BY(mutex);
  bool registered ABSL_GUARDED_BY(mutex) = false;
};

Deliveries& TheDeliveries() {
  static auto* const deliveries = new Deliveries;
  return *deliveries;
}

// No exception may leave an exit handler: it would abort a process that has done its work.
void CallAtExit(ExitFunction function, absl::Time deadline) {
  try {
    function(deadline);
  } catch (const std::exception&) {
    Log(LogLevel::kError, "a capture could not be delivered while the process exits: no memory");
  }
}

void OnExit() {
  if (InForkedChild()) return;
  const absl::Time deadline = SteadyNow() + kExitGrace;
  std::vector<Deliveries::Function> functions;
  {
    const absl::MutexLock lock(&TheDeliveries().mutex);
    functions = std::exchange(TheDeliveries().functions, {});
  }
  for (const auto& function : functions) CallAtExit(function.deliver, deadline);
  for (const auto& function : functions) {
    if (function.clean_up != nullptr) CallAtExit(function.clean_up, deadline);
  }
}

}  // namespace

void DeliverAtExit(ExitFunction deliver, ExitFunction clean_up) {
  Deliveries& deliveries = TheDeliveries();
  const absl::MutexLock lock(&deliveries.mutex);
  const auto is_it = [deliver](const auto& function) { return function.deliver == deliver; };
  if (std::none_of(deliveries.functions.begin(), deliveries.functions.end(), is_it)) {
    deliveries.functions.push_back({deliver, clean_up});
  }
  if (!deliveries.registered) deliveries.registered = std::atexit(&OnExit) == 0;
}

// Exit handlers and static destructors run last in, first out.
void DeliverBeforeOthersExit() { (void)std::atexit(&OnExit); }

}  // namespace jobscope
