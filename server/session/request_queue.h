// SPDX-License-Identifier: Apache-2.0
//
// Holds the requests that wait for the session slot of this process.
#ifndef SERVER_SESSION_REQUEST_QUEUE_H_
#define SERVER_SESSION_REQUEST_QUEUE_H_

#include <cstddef>
#include <functional>
#include <list>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/sync/mutex.h"
#include "server/session/session_callbacks.h"
#include "server/session/session_options.h"

namespace jobscope {

struct SessionRequest {
  SessionTicket ticket = 0;
  SessionOptions options;
  absl::Time deadline;  // an instant of SteadyNow
  SessionCallbacks callbacks;
  // For a request that waits only for a delivery, not for a recording: it is refused if the
  // delivery still holds the slot at this time.
  CondVar::Clock::time_point refuse_at = CondVar::Clock::time_point::max();
  bool only_delivers = false;
  absl::Status refused;  // not OK: the request leaves the queue with this status
};

// First come, first served. Not thread-safe: guarded by the lock of its owner. A request that is
// refused stays until TakeLeaving. Only Push needs memory: requests also leave without any.
class RequestQueue {
 public:
  using Requests = std::list<SessionRequest>;

  bool empty() const { return requests_.empty(); }
  size_t size() const { return requests_.size(); }

  // Moves `*request` to the end of the queue. Throws, and leaves it as it is, if memory runs out.
  void Push(SessionRequest* request);
  SessionRequest TakeFirst();
  SessionRequest TakeLast();

  // Refuses one request. Returns whether there is one.
  bool Refuse(SessionTicket ticket, absl::Status why);
  // Likewise the first one of that session that is not refused yet.
  bool RefuseSession(std::string_view session_id, absl::Status why);
  // Refuses those that are not refused yet.
  void RefuseAll(const absl::Status& why);

  // Moves to `leaving` the requests that are refused or have run out of time; `delivering`: also
  // those that have waited long enough for the delivery, with the status `busy()`. Their statuses
  // lack texts if memory runs out. Returns the time at which the next one may leave.
  CondVar::Clock::time_point TakeLeaving(bool delivering, const std::function<absl::Status()>& busy,
                                         Requests* leaving);

 private:
  Requests requests_;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_REQUEST_QUEUE_H_
