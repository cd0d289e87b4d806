// SPDX-License-Identifier: Apache-2.0
//
// Lets a service close the server that runs it.
#ifndef SERVER_SERVICES_SERVER_CLOSER_H_
#define SERVER_SERVICES_SERVER_CLOSER_H_

#include <functional>

#include "absl/status/status.h"

namespace jobscope {

// Closes the server on a thread of its own: stops accepting, calls `closed`, then ends and delivers
// the running capture. Never blocks. Returns RESOURCE_EXHAUSTED if no thread can be created;
// `closed` is not called then, nor if the program stops the server meanwhile. Empty: the operator
// has not allowed it.
using ServerCloser = std::function<absl::Status(std::function<void()> closed)>;

}  // namespace jobscope

#endif  // SERVER_SERVICES_SERVER_CLOSER_H_
