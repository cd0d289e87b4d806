// SPDX-License-Identifier: Apache-2.0
//
// Holds the accepted connections, within a bound on their descriptors.
#ifndef SERVER_LISTEN_CONNECTION_TABLE_H_
#define SERVER_LISTEN_CONNECTION_TABLE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/listen/acceptor_limits.h"

namespace jobscope {

struct Connection {
  enum class Stage {
    kSilent,  // `own_fd` is the only descriptor
    kGiven,   // gRPC has `grpc_fd`; `own_fd` detects when that is closed, and can end it
    kProven,  // a request arrived, or cannot be attributed: only gRPC has it
    kClosed,  // ended, and gRPC had not noticed when it was last looked at
  };

  Stage stage = Stage::kSilent;
  size_t listener = 0;
  int own_fd = -1;
  int grpc_fd = -1;
  ino_t inode = 0;  // of the socket: shows whether `grpc_fd` is still its number
  int64_t accepted_ns = 0;
  std::string peer;  // empty for a unix socket: its requests cannot be attributed
};

// Decides which connection ends to make room for a new one, and counts what gRPC has not closed
// yet. For the acceptor's thread, except NoteRequest.
class ConnectionTable {
 public:
  using Iterator = std::vector<Connection>::iterator;

  // The bounds of `limits` on descriptors, age and waiting are the table's.
  explicit ConnectionTable(const AcceptorLimits& limits) : limits_(limits) {}

  // Allocates what Add needs. Throws without memory.
  void Reserve();
  // Returns the new connection, which is silent. Takes ownership of `fd`. Call it after MakeRoom
  // has returned 0; does not allocate.
  Connection& Add(int fd, size_t listener, int64_t accepted_ns);

  // From the oldest to the newest.
  Iterator begin() { return connections_.begin(); }
  Iterator end() { return connections_.end(); }
  const std::vector<Connection>& all() const { return connections_; }

  // Returns 0 if there is room for one more connection of that listener; otherwise the time at
  // which to ask again. Closes the oldest one without a request, silent ones first, if it is old
  // enough.
  int64_t MakeRoom(int listener_fd, int64_t now_ns);

  // Passes the connection on: sets its stage and the descriptor that gRPC gets. Only an `admitted`
  // one can be proven by a request. Returns false if no descriptor is available. Throws without
  // memory; the connection then is as it was.
  bool Give(Connection* connection, bool admitted);
  // Closes it; it remains in the table for as long as gRPC has it. Returns the next one.
  Iterator End(Iterator connection);
  void CloseAll();

  // Records that a request of that peer has passed gRPC's checks. Returns whether TakeProven has
  // something to do. Thread-safe.
  bool NoteRequest(absl::string_view peer);
  // Protects the connections whose requests were noted. Returns whether there was one.
  bool TakeProven();

 private:
  bool HasRoom() const;
  size_t CountClosing() const;
  void ForgetEnded();
  void Close(Connection* connection);

  const AcceptorLimits limits_;
  std::vector<Connection> connections_;  // oldest first
  size_t waiting_ = 0;                   // the longest queue since there was room

  absl::Mutex mutex_;
  // Peers of given ones. An insertion without memory leaves a set as it was, Abseil's not.
  std::set<std::string, std::less<>> unproven_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> proven_ ABSL_GUARDED_BY(mutex_);  // TakeProven has not seen them
};

}  // namespace jobscope

#endif  // SERVER_LISTEN_CONNECTION_TABLE_H_
