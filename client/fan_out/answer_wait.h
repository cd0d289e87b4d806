// SPDX-License-Identifier: Apache-2.0
//
// Decides how long a run waits for workers that have not answered yet.
#ifndef CLIENT_FAN_OUT_ANSWER_WAIT_H_
#define CLIENT_FAN_OUT_ANSWER_WAIT_H_

#include <algorithm>

#include "absl/time/time.h"

namespace jobscope {

// Workers have four times as long as the slowest answer so far took, from the last question or
// answer on: no answer is late only because all are slow. Times are those of SteadyNow. Not
// thread-safe.
class AnswerWait {
 public:
  // The first question is asked now; keeps how long the slowest answer took.
  void Begin(absl::Time now) { last_asked_ = last_answer_ = now; }
  void OnAsked(absl::Time now) { last_asked_ = now; }
  // A worker that was asked at `asked` has answered.
  void OnAnswer(absl::Time asked, absl::Time now) {
    last_answer_ = now;
    slowest_ = std::max(slowest_, now - asked);
  }

  absl::Time last_answer() const { return last_answer_; }
  // Returns until when to wait, if nothing is asked or answered before: for `shortest` or longer.
  absl::Time Deadline(absl::Duration shortest) const {
    return std::max(last_asked_, last_answer_) + std::max(shortest, 4 * slowest_);
  }

 private:
  absl::Time last_asked_;
  absl::Time last_answer_;
  absl::Duration slowest_;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_ANSWER_WAIT_H_
