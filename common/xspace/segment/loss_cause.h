// SPDX-License-Identifier: Apache-2.0
//
// Defines why an event that was attempted is not in the trace. docs/trace_format.md lists the
// causes with what to do about them.
#ifndef COMMON_XSPACE_SEGMENT_LOSS_CAUSE_H_
#define COMMON_XSPACE_SEGMENT_LOSS_CAUSE_H_

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "jobscope/v1/item.pb.h"

namespace jobscope {

// In the order of their names.
enum class LossCause {
  kBufferFull,      // given by a provider or tracer faster than its buffer is emptied
  kClock,           // unread when the tick counter jumped: its time is unknown
  kCuptiDropped,    // CUPTI had no room for it
  kDeadline,        // unread at the time limit of the last drain
  kGpuNoTimestamp,  // CUPTI gave it no start time
  kGpuPool,         // in a buffer of CUPTI's that was discarded because the pool was full
  kGpuUnfinished,   // launched in the window; had not begun at its end, or its record never came
  kGpuUnread,       // in a buffer of CUPTI's that was not read in time, or after CUPTI had failed
  kInvalid,         // malformed record
  kMalformed,       // given by a provider without a name, with a negative duration, or the like
  kMaxTrace,        // beyond the size that the client, or a ceiling of the worker, gave the trace
  kNoRing,          // its thread got no ring: the process's cap was exhausted
  kNvmlFailed,      // a sample that NVML did not deliver
  kOtherThread,     // a scope that ended on another thread than it began on
  kOverwritten,     // overwritten by newer events of its thread before it was read
  kReentered,       // a signal handler recorded while its thread was recording
  kStoreFull,       // the session's store had no space for it, or was full before it was read
  kTooManyLines,    // of a line beyond those that a provider may have
  kUnreadable,      // behind an item that the client could not read
};

inline constexpr size_t kLossCauses = static_cast<size_t>(LossCause::kUnreadable) + 1;

// The cause in traces, manifests and tables: "overwritten", ...
const char* Name(LossCause cause);
// What happened to the events and what helps, after "N events lost (cause): ".
const char* Explanation(LossCause cause);
// Likewise, of the cause with this name. If only a newer worker knows the name: that they are lost.
const char* ExplanationOf(std::string_view name);

// Events lost, by cause; a cause without losses may be absent.
using LossesByCause = std::map<LossCause, uint64_t>;

// Appends what was lost to a message's list.
void Append(const LossesByCause& losses, google::protobuf::RepeatedPtrField<v1::LossByCause>* out);

}  // namespace jobscope

#endif  // COMMON_XSPACE_SEGMENT_LOSS_CAUSE_H_
