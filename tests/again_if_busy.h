// SPDX-License-Identifier: Apache-2.0
//
// Repeats a check of a time limit that failed on a busy machine: no program keeps a limit while it
// does not run. tests/python/machine.py does the same for Python.
#ifndef TESTS_AGAIN_IF_BUSY_H_
#define TESTS_AGAIN_IF_BUSY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace jobscope {

// Returns how long, since the machine's start, somebody had to wait for a processor or a disk, as
// the kernel's pressure accounts tell. Where it keeps none, all time counts.
inline absl::Duration WaitedSinceBoot() {
  absl::Duration total;
  for (const char* const account : {"/proc/pressure/cpu", "/proc/pressure/io"}) {
    // "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", in us, is the first line.
    std::ifstream in(account);
    std::string line;
    std::getline(in, line);
    const size_t at = line.rfind("total=");
    int64_t total_us = 0;
    if (at == std::string::npos || !absl::SimpleAtoi(line.substr(at + 6), &total_us)) {
      return absl::Now() - absl::UnixEpoch();
    }
    total += absl::Microseconds(total_us);
  }
  return total;
}

// Calls `attempt` until it returns true: again only if somebody had to wait for `busy` in all
// meanwhile, and at most five times. Returns what the last call returned.
template <typename Attempt>
bool AgainIfBusy(Attempt attempt, absl::Duration busy = absl::Milliseconds(500)) {
  constexpr int kMostTries = 5;
  for (int tries = 1;; ++tries) {
    const absl::Duration before = WaitedSinceBoot();
    if (attempt()) return true;
    if (tries == kMostTries || WaitedSinceBoot() - before < busy) return false;
  }
}

// Expects that `attempt`, which returns how long it took, takes less than `limit`; made again as
// above. Other expectations in `attempt` hold in each of the tries.
template <typename Attempt>
void ExpectWithin(absl::Duration limit, Attempt attempt) {
  absl::Duration took;
  EXPECT_TRUE(AgainIfBusy(
      [&] {
        took = attempt();
        return took < limit;
      },
      std::min(absl::Milliseconds(500), limit / 2)))
      << "took " << took << ", the limit is " << limit;
}

}  // namespace jobscope

#endif  // TESTS_AGAIN_IF_BUSY_H_
