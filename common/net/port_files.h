// SPDX-License-Identifier: Apache-2.0
//
// Reads port directories, in which each worker publishes its address (JOBSCOPE_PORT_DIR). Their
// content may come from anybody: nothing in them may keep the client waiting.
#ifndef COMMON_NET_PORT_FILES_H_
#define COMMON_NET_PORT_FILES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope {

// Returns the paths of the files *.addr, by the numbers in their names (ranks and pids), others
// after them. Ends after kMaxEndpoints + 1 files.
absl::StatusOr<std::vector<std::string>> ListPortFiles(const std::string& directory);

// Reads one of them, unless it is larger than `max_bytes`. NOT_FOUND: it is gone, because its
// worker has ended.
absl::StatusOr<std::string> ReadPortFile(const std::string& path, size_t max_bytes);

}  // namespace jobscope

#endif  // COMMON_NET_PORT_FILES_H_
