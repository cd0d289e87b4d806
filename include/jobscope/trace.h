// SPDX-License-Identifier: Apache-2.0
//
// Records scopes, steps and other events of a running program. C++11 and later; link
// jobscope::trace (libjobscope_trace.so, which needs only libc). docs/recording.md describes use,
// cost and limits.
//
//   JOBSCOPE_SCOPE("load_batch");                        // until the end of the block
//   JOBSCOPE_SCOPE("decode", "bytes", n, "file", name);  // with key/value arguments
//   JOBSCOPE_SCOPE_AT(2, "detail");                      // level 1 (default), 2 or 3
//   JOBSCOPE_SCOPE_COARSE("checkpoint");                 // always on while a server runs:
//                                                        // at most 1,000 per second
//   JOBSCOPE_STEP("train", step);                        // a training step, until the block's end
//   JOBSCOPE_INPUT_WAIT("loader");                       // a wait for data, until the block's end
//   JOBSCOPE_INSTANT("checkpoint");
//   JOBSCOPE_COUNTER("loss", value);
//   jobscope::AsyncId id = jobscope::AsyncBegin("request");  // ends on any thread:
//   jobscope::AsyncEnd(id);
//   jobscope::Flow f = jobscope::FlowOut();                  // an arrow from here to
//   jobscope::FlowIn(f);
//   jobscope::SetThreadName("loader 3");
//
// Names and keys are string literals. Values are integers, enums, floating point numbers and
// strings (const char*, or any type with data() and size()), in up to 8 pairs. The first 120 bytes
// of a string are copied when the scope begins. Values are not evaluated while the site is off.
// JOBSCOPE_CATEGORY, defined before the include, is the category of a file's sites.
//
// A site that is off costs a load, a test and a jump. Nothing here throws, blocks or allocates,
// except a thread's first record, which maps its ring. Safe before main, after main and in a forked
// child, where nothing is recorded. With JOBSCOPE_DISABLED defined, everything compiles to nothing,
// and the library is not needed.
#ifndef JOBSCOPE_TRACE_H_
#define JOBSCOPE_TRACE_H_

#ifndef JOBSCOPE_CATEGORY
#define JOBSCOPE_CATEGORY ""
#endif

#if defined(JOBSCOPE_DISABLED)
#include "jobscope/detail/trace_disabled.h"
#else

#include "jobscope/detail/scope.h"

#define JOBSCOPE_SCOPE(...) \
  JOBSCOPE_SCOPE_(__COUNTER__, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_SCOPE, __VA_ARGS__)
#define JOBSCOPE_SCOPE_AT(level, ...)                                                \
  JOBSCOPE_SCOPE_(__COUNTER__, (::jobscope::trace_detail::LevelBit<(level)>::value), \
                  JOBSCOPE_ROLE_SCOPE, __VA_ARGS__)
#define JOBSCOPE_SCOPE_COARSE(...) \
  JOBSCOPE_SCOPE_(__COUNTER__, JOBSCOPE_BIT_COARSE, JOBSCOPE_ROLE_SCOPE, __VA_ARGS__)
#define JOBSCOPE_INPUT_WAIT(...) \
  JOBSCOPE_SCOPE_(__COUNTER__, JOBSCOPE_BIT_INPUT_WAIT, JOBSCOPE_ROLE_INPUT_WAIT, __VA_ARGS__)
#define JOBSCOPE_STEP(name, step) JOBSCOPE_STEP_(__COUNTER__, name, step)
#define JOBSCOPE_INSTANT(...) \
  JOBSCOPE_EVENT_(JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_INSTANT, JOBSCOPE_KIND_INSTANT, __VA_ARGS__)
// `sample` is a number.
#define JOBSCOPE_COUNTER(name, sample) JOBSCOPE_COUNTER_(name, sample)

namespace jobscope {
inline namespace recording {

// An operation that begins on one thread and may end on another. A value of 0 means that recording
// was off when it began.
struct AsyncId {
  uint64_t value;
  uint32_t site;
};

// Begins the operation `name`. `name` may be any text, because each call looks it up (about 20 ns).
// `file` and `line` are the caller's.
inline AsyncId AsyncBegin(const char* name, const char* file = __builtin_FILE(),
                          uint32_t line = __builtin_LINE()) {
  AsyncId id = {0, 0};
  if (JOBSCOPE_DETAIL_UNLIKELY(trace_detail::Enabled(JOBSCOPE_BIT_LEVEL1))) {
    const jobscope_site site = {
        sizeof(jobscope_site), 0, name, JOBSCOPE_CATEGORY, file, line, JOBSCOPE_BIT_LEVEL1,
        JOBSCOPE_ROLE_ASYNC,   0};
    id.site = trace_detail::Writer()->find_site(&site, nullptr, 0);
    id.value = trace_detail::Writer()->next_id();
    const jobscope_arg arg = trace_detail::ToArg(id.value);
    trace_detail::Writer()->event(id.site, JOBSCOPE_KIND_ASYNC_BEGIN, &arg, 1);
  }
  return id;
}

inline void AsyncEnd(AsyncId id) {
  if (id.value == 0 || !trace_detail::Enabled(JOBSCOPE_BIT_LEVEL1)) return;
  const jobscope_arg arg = trace_detail::ToArg(id.value);
  trace_detail::Writer()->event(id.site, JOBSCOPE_KIND_ASYNC_END, &arg, 1);
}

// An arrow from the scope around FlowOut to the scope around FlowIn, on any thread. A value of 0
// means that recording was off.
struct Flow {
  uint64_t value;
};

inline Flow FlowOut() {
  Flow flow = {0};
  if (JOBSCOPE_DETAIL_UNLIKELY(trace_detail::Enabled(JOBSCOPE_BIT_LEVEL1))) {
    flow.value = trace_detail::Writer()->next_id();
    trace_detail::FlowEvent(JOBSCOPE_KIND_FLOW_OUT, flow.value);
  }
  return flow;
}

inline void FlowIn(Flow flow) {
  if (flow.value == 0 || !trace_detail::Enabled(JOBSCOPE_BIT_LEVEL1)) return;
  trace_detail::FlowEvent(JOBSCOPE_KIND_FLOW_IN, flow.value);
}

// Names the calling thread in traces, for its whole life; keeps at most 63 bytes. Leaves the OS
// name unchanged. Also works while recording is off.
inline void SetThreadName(const char* name) { trace_detail::SetThreadName(name); }

}  // namespace recording
}  // namespace jobscope

#endif  // JOBSCOPE_DISABLED
#endif  // JOBSCOPE_TRACE_H_
