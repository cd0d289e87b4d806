// SPDX-License-Identifier: Apache-2.0
//
// Defines planes, lines and sources that several collectors write to or must avoid.
#ifndef COMMON_XSPACE_SEGMENT_TRACE_PLANES_H_
#define COMMON_XSPACE_SEGMENT_TRACE_PLANES_H_

#include <cstdint>
#include <string_view>

namespace jobscope {

// The only host plane that XProf analyses. Its lines are threads: key = OS thread id, name =
// "<thread name>/<tid>", because many threads of a training process have the same name and viewers
// show only the name.
inline constexpr std::string_view kHostPlaneName = "/host:CPU";
inline constexpr int64_t kHostPlaneId = 0;

// Line of the host plane for threads beyond those with a line of their own; not a thread id.
inline constexpr std::string_view kOtherThreadsLineName = "other threads";
inline constexpr int64_t kOtherThreadsLine = (int64_t{1} << 40) + 1;

// XProf draws a line of this name as counter tracks: one event per sample with one numeric stat
// named like the metric. The key is neither a possible thread id nor one of XProf's derived lines.
inline constexpr std::string_view kCountersLineName = "_counters_";
inline constexpr int64_t kCountersLine = INT64_MAX;

// Plane of async pairs, in lanes that do not overlap. Viewers draw custom planes, and XProf's
// analysis ignores them. The id differs from the GPUs' planes, which may be published as custom
// planes under their own numbers.
inline constexpr std::string_view kAsyncPlaneName = "/device:CUSTOM:async";
inline constexpr int64_t kAsyncPlaneId = 100;

// XProf links events of other threads to a step by ids: `_pt`/`_p` of the step, `_ct`/`_c` of the
// event. The type differs from that of flows (0) and from the one that stock tracers use for thread
// pools, whose ids count from small numbers. The id is the tick at which the step began, so that it
// never equals one of theirs.
inline constexpr int64_t kStepContextType = 15;

// Identifies who made a segment: several sources may write to one line, each with its own number.
enum TraceSource : uint32_t {
  kSourceScopes = 1,
  kSourceCounters = 2,
  kSourceAsync = 3,
  kSourceSystem = 4,
  kSourceCuda = 5,
  kSourceNvml = 6,
  kSourcePython = 7,
  kSourceJax = 20,
  kSourceTensorflow = 21,
  kSourceTorchProfiler = 22,     // retired: read in old traces, never written; not to be reused
  kSourceProvider = 1000,        // + index of the provider
  kSourceProviderXSpace = 2000,  // likewise: of the XSpaces it gives
};

// Plane of a provider's own lines, plus its index; a custom plane, as above.
inline constexpr int64_t kProviderPlaneId = 1000;

}  // namespace jobscope

#endif  // COMMON_XSPACE_SEGMENT_TRACE_PLANES_H_
