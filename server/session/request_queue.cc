// SPDX-License-Identifier: Apache-2.0
#include "server/session/request_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/monotonic.h"
#include "server/guard/resource_guard.h"

namespace jobscope {
namespace {

// The time that a request needs once its turn comes.
absl::Duration TimeNeeded(const SessionOptions& options) {
  if (options.duration == absl::InfiniteDuration() || options.steps || options.on_command) {
    return absl::ZeroDuration();
  }
  return options.duration;
}

}  // namespace

void RequestQueue::Push(SessionRequest* request) { requests_.push_back(std::move(*request)); }

SessionRequest RequestQueue::TakeFirst() {
  SessionRequest request = std::move(requests_.front());
  requests_.pop_front();
  return request;
}

SessionRequest RequestQueue::TakeLast() {
  SessionRequest request = std::move(requests_.back());
  requests_.pop_back();
  return request;
}

bool RequestQueue::Refuse(SessionTicket ticket, absl::Status why) {
  for (SessionRequest& request : requests_) {
    if (request.ticket != ticket) continue;
    request.refused = std::move(why);
    return true;
  }
  return false;
}

bool RequestQueue::RefuseSession(std::string_view session_id, absl::Status why) {
  for (SessionRequest& request : requests_) {
    if (request.options.session_id != session_id || !request.refused.ok()) continue;
    request.refused = std::move(why);
    return true;
  }
  return false;
}

void RequestQueue::RefuseAll(const absl::Status& why) {
  for (SessionRequest& request : requests_) {
    if (request.refused.ok()) request.refused = why;
  }
}

CondVar::Clock::time_point RequestQueue::TakeLeaving(bool delivering,
                                                     const std::function<absl::Status()>& busy,
                                                     Requests* leaving) {
  auto next = CondVar::Clock::time_point::max();
  const absl::Time now = SteadyNow();
  const auto steady_now = CondVar::Clock::now();
  for (auto request = requests_.begin(); request != requests_.end();) {
    const absl::Duration left = request->deadline - now - TimeNeeded(request->options);
    if (request->refused.ok() && left <= absl::ZeroDuration()) {
      // Nothing of a session that only delivers can be stopped.
      request->refused = StatusOrCode(absl::StatusCode::kDeadlineExceeded, [delivering] {
        return absl::DeadlineExceededError(absl::StrCat(
            "the worker was busy for longer than the caller could wait; try again with a longer "
            "deadline",
            delivering ? "" : ", or end the running capture with `capture stop`"));
      });
    }
    if (request->refused.ok() && delivering && request->refuse_at <= steady_now) {
      request->refused = StatusOrCode(absl::StatusCode::kAlreadyExists, busy);
    }
    if (!request->refused.ok()) {
      leaving->splice(leaving->end(), requests_, request++);
      continue;
    }
    if (left < absl::Hours(24)) {
      next = std::min(next, steady_now + absl::ToChronoNanoseconds(left));
    }
    if (delivering) next = std::min(next, request->refuse_at);
    ++request;
  }
  return next;
}

}  // namespace jobscope
