// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/bridge/gil_holds.h"

#include <time.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "absl/strings/str_format.h"
#include "common/clock/monotonic.h"

namespace jobscope::python {
namespace {

constexpr size_t kUses = static_cast<size_t>(GilUse::kUses);
constexpr std::array<const char*, kUses> kWords = {"looking up", "scripts",        "arming",
                                                   "installing", "removing hooks", "sampling"};

// Written with the GIL held, so there is one writer at a time.
struct Longest {
  std::atomic<uint64_t> wall_ns{0};
  std::atomic<uint64_t> cpu_ns{0};
};
std::array<Longest, kUses> g_longest;

uint64_t ThreadCpuNs() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

void Raise(std::atomic<uint64_t>* longest, uint64_t ns) {
  if (ns > longest->load(std::memory_order_relaxed)) {
    longest->store(ns, std::memory_order_relaxed);
  }
}

double Ms(const std::atomic<uint64_t>& ns) {
  return static_cast<double>(ns.load(std::memory_order_relaxed)) / 1e6;
}

}  // namespace

GilHold::GilHold(GilUse use) : use_(use), wall_ns_(MonotonicNow()), cpu_ns_(ThreadCpuNs()) {}

uint64_t GilHold::End() const {
  const uint64_t wall_ns = MonotonicNow() - wall_ns_;
  Longest& longest = g_longest[static_cast<size_t>(use_)];
  Raise(&longest.wall_ns, wall_ns);
  Raise(&longest.cpu_ns, ThreadCpuNs() - cpu_ns_);
  return wall_ns;
}

std::string LongestGilHolds() {
  std::string text;
  for (size_t use = 0; use < kUses; ++use) {
    const Longest& longest = g_longest[use];
    if (longest.wall_ns.load(std::memory_order_relaxed) == 0) continue;
    absl::StrAppendFormat(&text, "%s%s %.3f ms (%.3f%s)", text.empty() ? "" : ", ", kWords[use],
                          Ms(longest.wall_ns), Ms(longest.cpu_ns),
                          text.empty() ? " of CPU time" : "");
  }
  return text;
}

}  // namespace jobscope::python
