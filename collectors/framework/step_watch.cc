// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/step_watch.h"

#include <unistd.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/framework/keras_steps.h"
#include "collectors/torch/torch_steps.h"

namespace jobscope::framework {
namespace {

// A preloaded library waits some 20 ms for its interpreter; a program that embeds one may take
// seconds. The pause begins with 50 ms and doubles with each check: the last is after 26 s.
constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr int kLooks = 10;

}  // namespace

void WatchSteps() {
  const pid_t process = getpid();
  absl::Duration pause = kFirstPause;
  for (int look = 1; getpid() == process; ++look) {
    if (torch::LookForPython()) return keras::WatchImports();
    if (look == kLooks) return;
    absl::SleepFor(pause);
    pause *= 2;
  }
}

}  // namespace jobscope::framework
