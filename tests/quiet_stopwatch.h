// SPDX-License-Identifier: Apache-2.0
//
// Bounds on time that hold on a busy machine, too.
#ifndef TESTS_QUIET_STOPWATCH_H_
#define TESTS_QUIET_STOPWATCH_H_

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace jobscope {

// Measures time in which nobody on this machine had to wait for a processor or a disk, as the
// kernel's pressure accounts tell (/proc/pressure): what others take from a test is not counted,
// what the code under test sleeps away is. Where the kernel keeps no such accounts a wait can't be
// told from a sleep, and no time counts.
class QuietStopwatch {
 public:
  absl::Duration Elapsed() const { return Until(absl::Now()); }

  // Until an instant that is over.
  absl::Duration Until(absl::Time instant) const {
    return std::max(instant - begin_ - (Pressure() - pressure_), absl::ZeroDuration());
  }

 private:
  static absl::Duration Pressure() { return Total("cpu") + Total("io"); }

  // "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", in us, is the first line.
  static absl::Duration Total(const std::string& resource) {
    std::ifstream in("/proc/pressure/" + resource);
    std::string line;
    std::getline(in, line);
    const size_t at = line.rfind("total=");
    int64_t total_us = 0;
    if (at == std::string::npos || !absl::SimpleAtoi(line.substr(at + 6), &total_us)) {
      return absl::Now() - absl::UnixEpoch();
    }
    return absl::Microseconds(total_us);
  }

  absl::Duration pressure_ = Pressure();
  absl::Time begin_ = absl::Now();
};

}  // namespace jobscope

#endif  // TESTS_QUIET_STOPWATCH_H_
