// SPDX-License-Identifier: Apache-2.0
//
// Publishes the address of this process's server in the directory of JOBSCOPE_PORT_DIR.
#ifndef SERVER_PROCESS_PUBLISHED_ADDRESS_H_
#define SERVER_PROCESS_PUBLISHED_ADDRESS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/threads/detached_caller.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {

// Writes and removes the worker's file (port_file.h), on a thread of its own, which exists while an
// address is published: a file system that hangs (NFS) stops only this thread. Not thread-safe.
class PublishedAddress {
 public:
  // Writes the file. Blocks for at most 5 s; a write that takes longer is undone when it ends.
  // Returns an error that names JOBSCOPE_PORT_DIR. Waits for an earlier call that hangs, so that a
  // late removal never removes the new file.
  absl::Status Publish(const std::string& directory, const v1::Identity& identity,
                       const std::string& address);
  // Removes the file; does nothing if there is none. Blocks for at most 0.5 s; a removal that takes
  // longer continues alone.
  void Withdraw();

 private:
  struct File {
    std::string path;
    v1::Identity identity;
    std::string address;
  };

  // Several threads use it, one at a time: those that start, stop and exit call under the mutex of
  // the owner (process_server.cc).
  std::unique_ptr<DetachedCaller> caller_;
  std::optional<File> file_;
};

}  // namespace jobscope

#endif  // SERVER_PROCESS_PUBLISHED_ADDRESS_H_
