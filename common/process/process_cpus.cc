// SPDX-License-Identifier: Apache-2.0
#include "common/process/process_cpus.h"

#include <dirent.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "common/process/own_environment.h"
#include "common/sync/mutex.h"

namespace jobscope {
namespace {

// One core with its hyperthreads: what a runtime typically binds a thread to.
constexpr size_t kMaxBoundCpus = 2;

CpuSet OfAllThreads() {
  CpuSet cpus = CpuSet::OfThread(0);
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return cpus;
  const absl::Cleanup close_directory = [tasks] { closedir(tasks); };
  while (const dirent* const entry = readdir(tasks)) {
    const auto tid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (tid > 0) cpus.Add(CpuSet::OfThread(tid));
  }
  return cpus;
}

bool RuntimeBindsThreads() {
  for (const auto& [name, text] :
       CallersVariables({"OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"})) {
    if (text != "false" && text != "FALSE" && text != "none" && text != "disabled") return true;
  }
  return false;
}

struct Known {
  Mutex mutex;
  const CpuSet at_load = OfAllThreads();
  CpuSet last ABSL_GUARDED_BY(mutex);
};

Known& TheKnown() {
  static auto* const known = new Known;  // threads use it until the process exits
  return *known;
}

// Runs at load time: threads that bind themselves later are still seen unbound.
__attribute__((constructor)) void LookAtLoad() { (void)TheKnown(); }

}  // namespace

CpuSet CpuSet::OfThread(pid_t tid) {
  CpuSet cpus;
  if (sched_getaffinity(tid, sizeof(cpus.words_),
                        reinterpret_cast<cpu_set_t*>(cpus.words_.data())) != 0) {
    cpus.words_.fill(0);
  }
  return cpus;
}

void CpuSet::Add(const CpuSet& others) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= others.words_[i];
}

size_t CpuSet::count() const {
  size_t count = 0;
  for (const uint64_t word : words_) count += static_cast<size_t>(__builtin_popcountll(word));
  return count;
}

void CpuSet::ApplyToThisThread() const {
  if (count() == 0) return;
  (void)sched_setaffinity(0, sizeof(words_), reinterpret_cast<const cpu_set_t*>(words_.data()));
}

CpuSet ProcessCpus() {
  Known& known = TheKnown();
  const MutexLock lock(&known.mutex);
  const bool first = known.last.count() == 0;
  if (!first && CpuSet::OfThread(0) == known.last) return known.last;
  CpuSet cpus = OfAllThreads();
  if (first) {
    cpus.Add(known.at_load);
    if (cpus.count() <= kMaxBoundCpus && RuntimeBindsThreads()) {
      cpus.Add(CpuSet::OfThread(getppid()));
    }
  }
  known.last = cpus;
  return cpus;
}

}  // namespace jobscope
