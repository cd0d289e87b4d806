// SPDX-License-Identifier: Apache-2.0
//
// Pongs with any times: the estimate stays an interval, and nothing overflows. The input is a
// sequence of exchanges: worker received, worker sent, worker REALTIME (8 bytes each), and how long
// the ping took on this machine (4 bytes).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "client/clock/clock_sync.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBytes = 28;
  jobscope::ClockSync sync;
  uint64_t now_ns = 1'000'000'000'000;
  for (; size >= kBytes; data += kBytes, size -= kBytes) {
    jobscope::ClockExchange exchange;
    uint32_t took_ns = 0;
    std::memcpy(&exchange.worker_received_ns, data, 8);
    std::memcpy(&exchange.worker_sent_ns, data + 8, 8);
    std::memcpy(&exchange.worker_realtime_ns, data + 16, 8);
    std::memcpy(&took_ns, data + 24, 4);
    exchange.sent_ns = now_ns;
    now_ns += took_ns;
    exchange.received_ns = now_ns;
    exchange.realtime_ns = 1'795'248'345'000'000'000;
    sync.Add(exchange);
    (void)sync.Enough();
    const auto estimate = sync.estimate();
    if (!estimate.has_value()) continue;
    if (jobscope::UncertaintyAt(*estimate, now_ns + 3'600'000'000'000) < estimate->uncertainty_ns) {
      std::abort();
    }
  }
  return 0;
}
