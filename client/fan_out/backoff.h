// SPDX-License-Identifier: Apache-2.0
//
// Computes how long to wait before a worker is contacted again.
#ifndef CLIENT_FAN_OUT_BACKOFF_H_
#define CLIENT_FAN_OUT_BACKOFF_H_

#include <algorithm>
#include <random>

#include "absl/time/time.h"
#include "client/fan_out/fan_out_options.h"

namespace jobscope {

class Backoff {
 public:
  explicit Backoff(const FanOutTimes& times)
      : first_(times.first_backoff), longest_(times.max_backoff) {}

  // The pause after `attempt` attempts, 1 or more: doubles each time, up to a bound, plus up to a
  // quarter at random, so that many clients that were refused together do not return together.
  absl::Duration After(int attempt) {
    absl::Duration backoff = first_;
    for (int i = 1; i < attempt && backoff < longest_; ++i) backoff *= 2;
    backoff = std::min(backoff, longest_);
    return backoff * (1.0 + std::uniform_real_distribution<double>(0.0, 0.25)(random_));
  }

 private:
  const absl::Duration first_;
  const absl::Duration longest_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_BACKOFF_H_
