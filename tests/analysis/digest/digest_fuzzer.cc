// SPDX-License-Identifier: Apache-2.0
//
// Digests from anywhere, of two workers that are alike and another one: a report without them, or
// with. The input is the digest of the first behind its size (2 bytes, little-endian), then that of
// the other one; the same one if there is none.
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "analysis/output/html_maps.h"
#include "analysis/output/report_html.h"
#include "analysis/output/report_json.h"
#include "analysis/output/report_text.h"
#include "analysis/verdict/reduce.h"
#include "tests/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope::analysis;  // NOLINT(google-build-using-namespace)
  static const google::protobuf::LogSilencer silencer;
  jobscope::FuzzInput input(data, size);
  const std::string first = input.TakeBytes16();
  const std::string second = input.empty() ? first : input.TakeBytes(size);
  Digests digests;
  digests.workers.resize(3);
  if (!digests.workers[0].ParseFromString(first)) return 0;
  if (!digests.workers[1].ParseFromString(second)) return 0;
  digests.workers[2] = digests.workers[0];
  const Report report = Reduce(digests);
  jobscope::Require(!ReportJson(report).empty() && !ReportText(report).empty());
  (void)HeatMap(report);
  (void)LastStrip(report);
  jobscope::Require(!ReportHtml(report).empty());
  return 0;
}
