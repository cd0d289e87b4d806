// SPDX-License-Identifier: Apache-2.0
//
// Digests from anywhere: a report without them, or with.
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "analysis/output/html_memory.h"
#include "analysis/output/html_timeline.h"
#include "analysis/output/report_json.h"
#include "analysis/output/report_text.h"
#include "analysis/verdict/reduce.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope::analysis;  // NOLINT(google-build-using-namespace)
  static const google::protobuf::LogSilencer silencer;
  Digests digests;
  digests.workers.resize(2);
  if (!digests.workers[0].ParseFromArray(data, static_cast<int>(size))) return 0;
  digests.workers[1] = digests.workers[0];
  const Report report = Reduce(digests);
  if (ReportJson(report).empty() || ReportText(report).empty()) std::abort();
  (void)Timelines(report);
  (void)MemorySection(report);
  return 0;
}
