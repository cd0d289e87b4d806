// SPDX-License-Identifier: Apache-2.0
//
// Bytes that claim to be a framework's XSpace, merged twice as pieces of one recording: whatever
// they are, the session's trace stays readable and its account adds up.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/xspace_import/foreign_xspace.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/store.h"
#include "tensorflow/xplane.pb.h"

namespace {

struct StringSink : jobscope::xspace::ByteSink {
  absl::Status Write(std::string_view bytes, bool /*stable*/) override {
    text.append(bytes);
    return absl::OkStatus();
  }
  std::string text;
};

jobscope::ClockSample ClocksAt(uint64_t ns) {
  jobscope::ClockSample sample;
  sample.ticks = sample.monotonic_ns = ns;
  sample.realtime_ns = 1'800'000'000'000'000'000 + ns;
  return sample;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using jobscope::framework::ForeignOptions;
  using jobscope::framework::ForeignTime;
  using jobscope::framework::ForeignWindow;
  using jobscope::framework::ForeignXSpace;
  if (size == 0) return 0;
  const uint8_t flags = data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);

  const jobscope::TickMap map =
      jobscope::TickMap::FromSamples(ClocksAt(0), ClocksAt(1'000'000'000)).WithZero(1'000'000'000);
  const ForeignTime time(map, ClocksAt(1'000'000'000), ClocksAt(3'000'000'000));
  jobscope::xspace::Store store(1 << 20);
  jobscope::xspace::Names names(&store);
  ForeignOptions options;
  options.origin = "fuzz";
  options.segment_source = 1;
  options.drop_steps = (flags & 1) != 0;
  if ((flags & 2) != 0) {
    options.step_calls =
        (flags & 16) != 0 ? jobscope::framework::kTensorflowCalls : jobscope::framework::kJaxCalls;
  }
  options.drop_gpu_planes = (flags & 4) != 0;
  ForeignWindow window;
  if ((flags & 8) != 0) window = {1'000'000'000, 2'000'000'000'000};
  ForeignXSpace merge(&store, &names, options);
  const bool first = merge.Merge(bytes, time, window).ok();
  if (merge.Merge(bytes, time, window).ok() != first) std::abort();
  merge.Finish();

  uint64_t lost = 0;
  for (const auto& [cause, events] : merge.account().lost_by_cause) lost += events;
  if (merge.account().attempted != merge.account().events + merge.account().outside + lost) {
    std::abort();
  }
  jobscope::xspace::AssembleOptions assemble;
  assemble.hostname = "host";
  const std::vector<jobscope::xspace::ItemView> items = store.Items();
  const auto assembler = jobscope::xspace::Assembler::Create(items, assemble);
  if (!assembler.ok()) std::abort();
  StringSink sink;
  tensorflow::profiler::XSpace space;
  if (!assembler->Write(0, &sink).ok() || !space.ParseFromString(sink.text)) std::abort();
  return 0;
}
