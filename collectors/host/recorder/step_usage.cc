// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/recorder/step_usage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "collectors/host/recorder/process.h"
#include "collectors/host/recorder/second_number.h"

namespace jobscope::recorder {
namespace {

std::atomic<uint32_t> g_epoch{0};

// Opens the file each time: the program could close a permanently open descriptor, and reuse its
// number. Makes raw system calls, because libc's are thread cancellation points.
bool ReadRunDelay(uint64_t* delay_ns) {
  const long file =
      syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[96];
  const long length = syscall(SYS_read, file, text, sizeof(text));
  syscall(SYS_close, file);
  return length > 0 && SecondNumber(text, length, delay_ns);
}

bool IsKnown(const ThreadState* state) {
  // Ordered after the load of the mask that had the bit.
  std::atomic_thread_fence(std::memory_order_acquire);
  return state->usage.place == state->place &&
         state->usage.epoch == g_epoch.load(std::memory_order_relaxed);
}

// Reads the thread's usage. False: the system does not provide it. The delay only grows when a
// thread is switched to, so it is not read again if there was no switch.
bool Read(const ThreadState* state, uint64_t ticks, ThreadUsage* usage) {
  struct rusage resources;
  struct timespec cpu;
  if (syscall(SYS_getrusage, RUSAGE_THREAD, &resources) != 0 ||
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) != 0) {
    return false;
  }
  const ThreadUsage& before = state->usage;
  usage->place = state->place;
  usage->epoch = g_epoch.load(std::memory_order_relaxed);
  usage->ticks = ticks;
  usage->cpu_ns =
      static_cast<uint64_t>(cpu.tv_sec) * 1000000000u + static_cast<uint64_t>(cpu.tv_nsec);
  usage->involuntary_switches = static_cast<uint64_t>(resources.ru_nivcsw);
  usage->switches = usage->involuntary_switches + static_cast<uint64_t>(resources.ru_nvcsw);
  const bool unchanged = IsKnown(state) && before.switches == usage->switches;
  usage->run_delay_ns = before.run_delay_ns;
  usage->has_run_delay = unchanged ? before.has_run_delay : ReadRunDelay(&usage->run_delay_ns);
  return true;
}

jobscope_arg Difference(bool known, uint64_t before, uint64_t now) {
  jobscope_arg arg = {};
  if (!known || now < before) return arg;
  arg.type = JOBSCOPE_ARG_INT64;
  arg.value.int64_value = static_cast<int64_t>(now - before);
  return arg;
}

}  // namespace

void BeginUsageEpoch() { g_epoch.fetch_add(1); }

void BeginStepUsage(ThreadState* state, uint64_t begin_ticks) {
  if (IsKnown(state)) return;
  const KeepErrno keep;
  ThreadUsage usage;
  if (Read(state, begin_ticks, &usage)) state->usage = usage;
}

uint32_t EndStepUsage(ThreadState* state, uint64_t begin_ticks, jobscope_arg* args) {
  const KeepErrno keep;
  const bool has_before = IsKnown(state) && state->usage.ticks <= begin_ticks;
  const ThreadUsage before = state->usage;
  ThreadUsage now;
  if (!Read(state, Ticks(), &now)) return 1;
  state->usage = now;
  if (!has_before) return 1;
  args[JOBSCOPE_STEP_CPU_NS] = Difference(/*known=*/true, before.cpu_ns, now.cpu_ns);
  args[JOBSCOPE_STEP_RUN_DELAY_NS] =
      Difference(before.has_run_delay && now.has_run_delay, before.run_delay_ns, now.run_delay_ns);
  args[JOBSCOPE_STEP_INVOLUNTARY_SWITCHES] =
      Difference(/*known=*/true, before.involuntary_switches, now.involuntary_switches);
  return kStepArguments;
}

}  // namespace jobscope::recorder
