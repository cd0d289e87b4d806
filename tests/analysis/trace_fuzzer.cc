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

#include "analysis/digest/digest_builder.h"
#include "analysis/output/report_json.h"
#include "analysis/output/report_text.h"
#include "analysis/trace/trace_reader.h"
#include "analysis/verdict/reduce.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope::analysis;  // NOLINT(google-build-using-namespace)
  Digests digests;
  for (const char* name : {"a", "b"}) {
    TraceReader reader;
    (void)reader.Read(std::string_view(reinterpret_cast<const char*>(data), size));
    RunWorker worker;
    worker.name = name;
    const std::unique_ptr<WorkerTrace> trace = reader.Finish();
    digests.workers.push_back(BuildDigest(worker, trace.get()));
    jobscope::v1::Digest again;
    if (!again.ParseFromString(digests.workers.back().SerializeAsString())) std::abort();
    if (!ViewOf(again).ok()) std::abort();
  }
  const Report report = Reduce(digests);
  if (ReportJson(report).empty() || ReportText(report).empty()) std::abort();
  return 0;
}
