// SPDX-License-Identifier: Apache-2.0
//
// Classifies events by their names, as chosen by jobscope, PyTorch, TensorFlow, JAX and CUPTI.
#ifndef ANALYSIS_TRACE_EVENT_KINDS_H_
#define ANALYSIS_TRACE_EVENT_KINDS_H_

#include <cstdint>
#include <string_view>

#include "analysis/steps/step_class.h"

namespace jobscope::analysis {

enum class EventKind : uint8_t {
  kScope,  // anything else
  kInput,
  kCollective,
  kGarbageCollection,
  kCompilation,
  kGil,
  kLaunch,  // of a thread: a call of the driver or of its runtime
  kKernel,  // from here on, of a device
  kCopy,
  kDeviceCollective,
};

// Of a thread's event. Stats may tell more: EventFacts in trace_reader.h.
EventKind HostEventKind(std::string_view name);
EventKind DeviceEventKind(std::string_view name);

// The class to which the time of such an event belongs.
StepClass ClassOf(EventKind kind);

// A thread that is in an event of this name waits: it does no work of its own.
bool IsWait(std::string_view name);

// A plane of a GPU or TPU, with the kernels that it ran.
bool IsDevicePlane(std::string_view plane);
// A line of such a plane that repeats what other lines of it hold, summed up.
bool IsDerivedLine(std::string_view plane, std::string_view line);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_EVENT_KINDS_H_
