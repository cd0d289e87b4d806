// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/start_lead.h"

#include <algorithm>

namespace jobscope {
namespace {

constexpr absl::Duration kMinLead = absl::Milliseconds(10);
// A single worker waits for no other: only its own message has to arrive.
constexpr absl::Duration kMinLeadAlone = absl::Milliseconds(1);
constexpr absl::Duration kMaxLead = absl::Seconds(2);
// Time to send the start to one more worker: twice what it takes if 900 workers and the client
// share two cores (31 to 50 ms in all).
constexpr absl::Duration kLeadPerWorker = absl::Microseconds(100);

}  // namespace

absl::Duration StartLead(const std::vector<ArmedWorker>& workers, absl::Duration sync_phase) {
  const bool alone = workers.size() == 1;
  absl::Duration lead = alone ? kMinLeadAlone : kMinLead;
  absl::Duration way;
  for (const ArmedWorker& worker : workers) {
    if (worker.clock.has_value()) {
      way = std::max(way, absl::Nanoseconds(worker.clock->round_trip_ns));
    }
  }
  lead = std::max(lead, 2 * way);
  // The shortest exchanges show how fast a message can be; the phase shows how slow many are on
  // busy machines. A clock measurement takes at least three exchanges, a start one.
  if (!alone) lead = std::max(lead, sync_phase / 2);
  if (!alone) lead += static_cast<double>(workers.size()) * kLeadPerWorker;
  return std::min(lead, kMaxLead);
}

uint64_t GrantedLookback(uint64_t wanted_ns, const std::vector<ArmedWorker>& workers) {
  uint64_t reach = 0;
  for (const ArmedWorker& worker : workers) {
    if (worker.streams) reach = std::max(reach, worker.lookback_ns);
  }
  return std::min(wanted_ns, reach);
}

}  // namespace jobscope
