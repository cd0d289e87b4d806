// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/collective_kernels.h"

#include <algorithm>
#include <set>
#include <string>

namespace jobscope::analysis {
namespace {

// Bounds the search for calls that contain a launch: as many may have begun after such a call.
constexpr int kMaxCalls = 64;

}  // namespace

const CollectiveEvent* CollectiveKernels::CallAt(int64_t time_ns) const {
  const auto after = std::upper_bound(
      calls_.begin(), calls_.end(), time_ns,
      [](int64_t time, const CollectiveEvent& call) { return time < call.call.span.begin_ns; });
  const CollectiveEvent* found = nullptr;
  int looked_at = 0;
  for (auto call = after; call != calls_.begin() && looked_at < kMaxCalls; ++looked_at) {
    --call;
    if (call->call.span.end_ns < time_ns) continue;
    if (found == nullptr) {
      found = &*call;
    } else if (call->call.span.end_ns < found->call.span.end_ns) {
      return nullptr;  // not around it: of another thread
    }
  }
  return found;
}

uint64_t CollectiveKernels::Join(std::vector<CollectiveEvent>* collectives) {
  std::stable_sort(calls_.begin(), calls_.end(),
                   [](const CollectiveEvent& a, const CollectiveEvent& b) {
                     return a.call.span.begin_ns < b.call.span.begin_ns;
                   });
  std::vector<size_t> others;
  for (const auto& [correlation, index] : kernels_) {
    const auto launch = launches_.find(correlation);
    const CollectiveEvent* call = launch == launches_.end() ? nullptr : CallAt(launch->second);
    if (call == nullptr) {
      others.push_back(index);
      continue;
    }
    CollectiveEvent& kernel = (*collectives)[index];
    kernel.group = call->group;
    kernel.sequence = call->sequence;
    kernel.bytes = call->bytes;
    kernel.group_size = call->group_size;
  }
  std::set<std::string> groups;
  for (const CollectiveEvent& call : calls_) groups.insert(call.group);
  if (groups.size() < 2) return 0;
  for (const size_t index : others) (*collectives)[index].of_unknown_group = true;
  return others.size();
}

}  // namespace jobscope::analysis
