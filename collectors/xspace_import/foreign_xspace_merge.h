// SPDX-License-Identifier: Apache-2.0
//
// Merges one plane with lines of a foreign XSpace into a session.
#ifndef COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_MERGE_H_
#define COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_MERGE_H_

#include <cstdint>

#include "collectors/xspace_import/foreign_xspace_reader.h"
#include "collectors/xspace_import/foreign_xspace_session.h"
#include "collectors/xspace_import/foreign_xspace_time.h"

namespace jobscope::framework {

// Encodes the plane's events anew: with times of the session, clipped to the window, under ids of
// the session's names. Counts them in the session's account, and infers steps if the options say
// so. `start_unix_ns`: when the framework began, for lines that count from there. Throws
// protozero::exception; what precedes the error is in the trace and counted.
void MergePlane(const ForeignPlane& plane, const ForeignTime& time, const ForeignWindow& window,
                int64_t start_unix_ns, ForeignSession* session);

}  // namespace jobscope::framework

#endif  // COLLECTORS_XSPACE_IMPORT_FOREIGN_XSPACE_MERGE_H_
