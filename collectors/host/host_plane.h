// SPDX-License-Identifier: Apache-2.0
//
// Planes, lines and sources of what runs on the host: agreed between the collectors that write
// there.
#ifndef COLLECTORS_HOST_HOST_PLANE_H_
#define COLLECTORS_HOST_HOST_PLANE_H_

#include <cstdint>
#include <string_view>

namespace jobscope::host {

// The one host plane that XProf analyses. Its lines are threads: key = OS thread id, name =
// "<thread name>/<tid>", because many threads of a training process have the same name and viewers
// show nothing but the name.
inline constexpr std::string_view kPlaneName = "/host:CPU";
inline constexpr int64_t kPlaneId = 0;

// XProf draws a line of this name as counter tracks: one event per sample with one numeric stat
// named like the metric. The key is no possible thread id, and outside of XProf's derived lines.
inline constexpr std::string_view kCountersLineName = "_counters_";
inline constexpr int64_t kCountersLine = INT64_MAX;

// Threads beyond those that are accounted for one by one share this line.
inline constexpr int64_t kOtherThreadsLine = (int64_t{1} << 40) + 1;

// Async pairs, in lanes that do not overlap: a plane of the kind that viewers draw and analysis
// leaves alone. The id keeps clear of the GPUs' planes, which may be published as custom planes
// under their own numbers.
inline constexpr std::string_view kAsyncPlaneName = "/device:CUSTOM:async";
inline constexpr int64_t kAsyncPlaneId = 100;

// Several sources may write to one line; each has a number of its own.
enum Source : uint32_t {
  kSourceScopes = 1,
  kSourceCounters = 2,
  kSourceAsync = 3,
  kSourceSystem = 4,
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_HOST_PLANE_H_
