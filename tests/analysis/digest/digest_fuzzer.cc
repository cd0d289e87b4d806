// SPDX-License-Identifier: Apache-2.0
//
// Digests from anywhere, of two workers that are alike and another one: a report without them, or
// with, and comparisons of runs that have one of them each. The input is the digest of the first
// behind its size (2 bytes, little-endian), then that of the other one; the same one if there is
// none.

#include <cstddef>
#include <cstdint>
#include <string>

#include "analysis/digest/digest_builder.h"
#include "analysis/output/diff_output.h"
#include "analysis/output/html_maps.h"
#include "analysis/output/report_html.h"
#include "analysis/output/report_json.h"
#include "analysis/output/report_text.h"
#include "analysis/verdict/diff.h"
#include "analysis/verdict/reduce.h"
#include "tests/fuzz_input.h"
#include "tests/silent_protobuf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope::analysis;  // NOLINT(google-build-using-namespace)
  static const jobscope::SilentProtobuf silent;
  jobscope::FuzzInput input(data, size);
  const std::string first = input.TakeBytes16();
  const std::string second = input.empty() ? first : input.TakeBytes(size);
  Digests digests;
  digests.workers.resize(3);
  if (!digests.workers[0].ParseFromString(first)) return 0;
  if (!digests.workers[1].ParseFromString(second)) return 0;
  // One without a schema has the present one, so that seeds do not become those of an older one.
  for (jobscope::v1::Digest& digest : digests.workers) {
    if (digest.schema() == 0) digest.set_schema(kDigestSchema);
  }
  digests.workers[2] = digests.workers[0];
  const Report report = Reduce(digests);
  jobscope::Require(!ReportJson(report).empty() && !ReportText(report).empty());
  (void)HeatMap(report);
  (void)LastArrivalStrips(report);
  jobscope::Require(!ReportHtml(report).empty());
  Digests one;  // a report points into them
  one.workers = {digests.workers[0]};
  Digests other;
  other.workers = {digests.workers[1]};
  const Report before = Reduce(one);
  const Report after = Reduce(other);
  (void)WhyUnlike(before, after);
  for (const RunDiff& diff : {DiffRuns(before, after, 0.05), DiffRuns(after, before, 0.05),
                              DiffRuns(before, report, 0.05)}) {
    jobscope::Require(!DiffText(diff, 5).empty() && !DiffJson(diff).empty());
  }
  // A run is as fast as itself.
  const auto same = DiffRuns(report, report, 0.05).outcome;
  jobscope::Require(same == RunDiff::Outcome::kNeutral || same == RunDiff::Outcome::kInconclusive);
  return 0;
}
