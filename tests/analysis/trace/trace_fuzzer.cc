// SPDX-License-Identifier: Apache-2.0
//
// A trace from anywhere: an error or a digest, which the reduce takes; and a report of two workers
// of which both are that one.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/digest/digest_builder.h"
#include "analysis/digest/digest_timeline.h"
#include "analysis/output/html_memory.h"
#include "analysis/output/html_timeline.h"
#include "analysis/output/report_json.h"
#include "analysis/output/report_text.h"
#include "analysis/trace/timeline_reader.h"
#include "analysis/trace/trace_reader.h"
#include "analysis/verdict/reduce.h"
#include "tests/silent_protobuf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope::analysis;  // NOLINT(google-build-using-namespace)
  static const jobscope::SilentProtobuf silent;
  Digests digests;
  for (const char* name : {"a", "b"}) {
    TraceReader reader;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    (void)reader.Read(bytes);
    const int64_t base_ns = reader.base_ns();
    RunWorker worker;
    worker.name = name;
    const std::unique_ptr<WorkerTrace> trace = reader.Finish();
    digests.workers.push_back(BuildDigest(worker, trace.get()));
    jobscope::v1::Digest& digest = digests.workers.back();
    const std::vector<size_t> steps = TimelineSteps(digest.steps());
    TimelineReader timeline(TimelineWindows(digest.steps(), steps), base_ns);
    (void)timeline.Read(bytes, reader.TakeStretches());
    EncodeTimeline(steps, &timeline, digest.mutable_timeline());
    jobscope::v1::Digest again;
    if (!again.ParseFromString(digest.SerializeAsString())) std::abort();
    if (!ViewOf(again).ok()) std::abort();
  }
  const Report report = Reduce(digests);
  if (ReportJson(report).empty() || ReportText(report).empty()) std::abort();
  (void)Timelines(report);
  (void)MemorySection(report);
  return 0;
}
