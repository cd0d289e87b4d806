// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/loss_cause.h"

namespace jobscope {
namespace {

struct Words {
  const char* name;
  const char* explanation;
};

Words WordsFor(LossCause cause) {
  switch (cause) {
    case LossCause::kBufferFull:
      return {"buffer_full",
              "they arrived faster than the buffer of their source is emptied; a provider "
              "should give fewer, or give them in stop(), and a Python program should be traced "
              "at python_tracer_level 1"};
    case LossCause::kClock:
      return {"clock",
              "the time stamp counter jumped while they were recorded, so that their times are "
              "not known"};
    case LossCause::kCuptiDropped:
      return {"cupti_dropped",
              "CUPTI had no room for them; raise JOBSCOPE_CUDA_BUFFER_MB, or capture for a shorter "
              "time"};
    case LossCause::kDeadline:
      return {"deadline",
              "still unread when the capture had to end; capture again when the machine is less "
              "busy, or record less"};
    case LossCause::kGpuNoTimestamp:
      return {"gpu_no_timestamp",
              "CUPTI gave them no start time, mostly because its pool on the device was used up by "
              "graph nodes; raise JOBSCOPE_CUDA_DEVICE_BUFFER_MB"};
    case LossCause::kGpuPool:
      return {"gpu_pool",
              "CUPTI wrote them to a buffer discarded because the pool was full; raise "
              "JOBSCOPE_CUDA_BUFFER_MB"};
    case LossCause::kGpuUnfinished:
      return {"gpu_unfinished",
              "launched in the window, and still queued on the GPU after its end"};
    case LossCause::kGpuUnread:
      return {"gpu_unread",
              "in buffers of CUPTI's that were not read by the end, because there was no time for "
              "it or CUPTI had failed; capture for a shorter time"};
    case LossCause::kInvalid:
      return {"invalid", "their records were malformed; please report it with the trace"};
    case LossCause::kMalformed:
      return {"malformed",
              "a provider gave them without a name, with a negative duration, or the like"};
    case LossCause::kMaxTrace:
      return {"max_trace",
              "the trace has reached the size that --max_trace_mb or the worker's ceiling allows; "
              "capture for a shorter time, record less, or raise --max_trace_mb or the worker's "
              "JOBSCOPE_MAX_TRACE_MB (max_trace_bytes)"};
    case LossCause::kNoRing:
      return {"no_ring",
              "their threads found no ring because the process's limit on rings was reached; raise "
              "rings_cap_bytes"};
    case LossCause::kNvmlFailed:
      return {"nvml_failed",
              "NVML did not deliver these samples of a GPU; its state is in the trace's report of "
              "the collector nvml"};
    case LossCause::kOtherThread:
      return {"other_thread",
              "scopes of PyTorch that ended on another thread than they began on, and so have no "
              "place on either; no action is needed"};
    case LossCause::kOverwritten:
      return {"overwritten",
              "overwritten before they were read; record less (a lower host_tracer_level) or give "
              "each thread a larger ring (ring_records)"};
    case LossCause::kReentered:
      return {"reentered",
              "a signal handler recorded while its thread was recording; no action is needed"};
    case LossCause::kStoreFull:
      return {"store_full",
              "the worker's store was full; capture for a shorter time, record less, or raise "
              "JOBSCOPE_STORE_MB (store_bytes), or max_trace_bytes of a capture that the program "
              "started itself"};
    case LossCause::kTooManyLines:
      return {"too_many_lines", "a provider named more lines than the 128 that it may have"};
    case LossCause::kUnreadable:
      return {"unreadable",
              "behind an item of the worker's that could not be read; please report it with the "
              "trace"};
  }
  return {"", ""};
}

}  // namespace

const char* Name(LossCause cause) { return WordsFor(cause).name; }

const char* Explanation(LossCause cause) { return WordsFor(cause).explanation; }

const char* ExplanationOf(std::string_view name) {
  for (size_t i = 0; i < kLossCauses; ++i) {
    const auto cause = static_cast<LossCause>(i);
    if (name == Name(cause)) return Explanation(cause);
  }
  return "lost by the collector";
}

void Append(const LossesByCause& losses, google::protobuf::RepeatedPtrField<v1::LossByCause>* out) {
  for (const auto& [cause, events] : losses) {
    if (events == 0) continue;
    v1::LossByCause* const loss = out->Add();
    loss->set_cause(Name(cause));
    loss->set_events(events);
  }
}

}  // namespace jobscope
