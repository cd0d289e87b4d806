// SPDX-License-Identifier: Apache-2.0
//
// Accounts for each attempted event.
#ifndef COLLECTORS_HOST_ENCODING_ACCOUNT_H_
#define COLLECTORS_HOST_ENCODING_ACCOUNT_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/xspace/segment/loss_cause.h"

namespace jobscope::host {

// Accounts for each event. Once a session has stopped, attempted == in_trace + lost() +
// outside. `attempted` comes from the recorder's event counters, the others from processing each
// event: the two are independent.
struct Account {
  uint64_t attempted = 0;
  uint64_t in_trace = 0;
  uint64_t outside = 0;
  std::array<uint64_t, kLossCauses> lost_by_cause{};

  void Lose(LossCause cause, uint64_t events = 1) {
    lost_by_cause[static_cast<size_t>(cause)] += events;
  }
  uint64_t lost(LossCause cause) const { return lost_by_cause[static_cast<size_t>(cause)]; }
  uint64_t lost() const {
    uint64_t sum = 0;
    for (const uint64_t events : lost_by_cause) sum += events;
    return sum;
  }
  void Add(const Account& other) {
    attempted += other.attempted;
    in_trace += other.in_trace;
    outside += other.outside;
    for (size_t i = 0; i < lost_by_cause.size(); ++i) lost_by_cause[i] += other.lost_by_cause[i];
  }
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_ENCODING_ACCOUNT_H_
