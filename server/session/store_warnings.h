// SPDX-License-Identifier: Apache-2.0
//
// Warnings of a capture whose events exceeded a limit of its memory or its size.
#ifndef SERVER_SESSION_STORE_WARNINGS_H_
#define SERVER_SESSION_STORE_WARNINGS_H_

#include <string>
#include <vector>

#include "common/xspace/segment/store.h"
#include "server/session/session_options.h"

namespace jobscope {

// Returns a warning for each limit that was reached, with the setting that raises it.
// `ended_early`: the recording ended because it had reached the ceiling.
std::vector<std::string> StoreWarnings(const xspace::Store& store, const SessionOptions& options,
                                       bool ended_early);

}  // namespace jobscope

#endif  // SERVER_SESSION_STORE_WARNINGS_H_
