// SPDX-License-Identifier: Apache-2.0
//
// Publishes a worker's address in a directory (JOBSCOPE_PORT_DIR), from which clients read it as a
// list of addresses.
#ifndef SERVER_LISTEN_PORT_FILE_H_
#define SERVER_LISTEN_PORT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {

// Returns <directory>/<rank>.addr, or <host>-<pid>.addr if the rank is unknown: unique also among
// containers that share the directory.
std::string PortFilePath(absl::string_view directory, const v1::Identity& identity);

// Writes `bound_address` and a line break to the worker's file, via a temporary name that cannot be
// guessed: a reader never sees half an address, and no file that others placed in the directory is
// opened or waited for. Writes a wildcard address with this host's name, so that other hosts can
// dial it. The directory must exist. Returns the path.
absl::StatusOr<std::string> WritePortFile(absl::string_view directory, const v1::Identity& identity,
                                          absl::string_view bound_address);

// Removes the file if it is this user's regular file and still holds this worker's address: a
// restarted worker of the same rank may have replaced it. Waits for no FIFO, only for the disk.
void RemovePortFile(const std::string& path, const v1::Identity& identity,
                    absl::string_view bound_address);

}  // namespace jobscope

#endif  // SERVER_LISTEN_PORT_FILE_H_
