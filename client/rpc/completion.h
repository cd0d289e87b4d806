// SPDX-License-Identifier: Apache-2.0
//
// Declares what the client puts into gRPC's completion queue.
#ifndef CLIENT_RPC_COMPLETION_H_
#define CLIENT_RPC_COMPLETION_H_

namespace jobscope {

// The tag of an operation in the queue of CallThreads.
class Completion {
 public:
  virtual ~Completion() = default;
  // Runs once for each time that this was put into the queue, on one of the threads; must not
  // block. `ok` is the queue's result of the operation; always true for the end of a call.
  virtual void OnDone(bool ok) = 0;
};

}  // namespace jobscope

#endif  // CLIENT_RPC_COMPLETION_H_
