// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_SILENT_PROTOBUF_H_
#define TESTS_SILENT_PROTOBUF_H_

#if __has_include(<google/protobuf/stubs/logging.h>)
#include <google/protobuf/stubs/logging.h>
#else
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#endif

namespace jobscope {

// While it lives, protobuf does not log what it refuses to parse.
#if __has_include(<google/protobuf/stubs/logging.h>)
using SilentProtobuf = google::protobuf::LogSilencer;
#else  // it logs by Abseil
struct SilentProtobuf {
  absl::ScopedStderrThreshold none{absl::LogSeverityAtLeast::kInfinity};
};
#endif

}  // namespace jobscope

#endif  // TESTS_SILENT_PROTOBUF_H_
