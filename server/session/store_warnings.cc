// SPDX-License-Identifier: Apache-2.0
#include "server/session/store_warnings.h"

#include "absl/strings/str_cat.h"

namespace jobscope {

std::vector<std::string> StoreWarnings(const xspace::Store& store, const SessionOptions& options,
                                       bool ended_early) {
  std::vector<std::string> warnings;
  if (store.lacked_space()) {
    warnings.push_back(absl::StrCat("the capture's store of ", store.cap_bytes() >> 20,
                                    " MiB was full, and events are lost: give it more memory (",
                                    options.store_setting, "), or record less"));
  }
  if (store.spent()) {
    warnings.push_back(absl::StrCat(
        ended_early ? "the recording ended early: its events"
                    : "the last events of the recording are lost: its events",
        " reached this worker's ceiling of ", options.max_trace_bytes >> 20,
        " MiB; record less, or have the worker started with a higher JOBSCOPE_MAX_TRACE_MB "
        "(options.max_trace_bytes)"));
  }
  return warnings;
}

}  // namespace jobscope
