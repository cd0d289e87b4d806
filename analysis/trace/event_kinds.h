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
  kAllocation,    // of a block of memory, at one instant
  kDeallocation,  // likewise
  kLaunch,        // of a thread: a call of the driver or runtime API
  kKernel,        // device events from here on
  kCopy,
  kDeviceCollective,
};

// Classifies a thread's or a device's event. Stats may refine this: EventFacts in trace_reader.h.
EventKind HostEventKind(std::string_view name);
EventKind DeviceEventKind(std::string_view name);

// Returns the class to which the time of such an event belongs.
StepClass ClassOf(EventKind kind);

// Returns whether an event of this name only hands a collective to a device: "nccl:all_reduce
// (enqueue)". The kernel is the collective.
bool IsEnqueue(std::string_view name);

// Returns whether an event of this name launches the kernel of a collective, as jobscope and XProf
// name it: "Launch ncclDevKernel_AllReduce".
bool LaunchesCollective(std::string_view name);

// Returns whether a thread in an event of this name waits, without work of its own.
bool IsWait(std::string_view name);

// Returns whether this is an operator of a framework ("aten::mm"), not a scope of the program.
bool IsOperator(std::string_view name);

// Returns whether this is a plane of a GPU or TPU with the kernels that it ran.
bool IsDevicePlane(std::string_view plane);
bool IsTpuPlane(std::string_view plane);
// Returns whether this line of such a plane summarises other lines of it.
bool IsDerivedLine(std::string_view plane, std::string_view line);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_EVENT_KINDS_H_
