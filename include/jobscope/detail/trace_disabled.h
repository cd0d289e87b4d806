// SPDX-License-Identifier: Apache-2.0
//
// Replaces <jobscope/trace.h> under JOBSCOPE_DISABLED: the same names, no code. Arguments are
// compiled, so that values used only for recording cause no unused-variable warnings, but never
// evaluated.
#ifndef JOBSCOPE_DETAIL_TRACE_DISABLED_H_
#define JOBSCOPE_DETAIL_TRACE_DISABLED_H_

#include <stdint.h>

namespace jobscope {
// Types distinct from those that record: files of both kinds may be linked together.
inline namespace disabled {
namespace trace_detail {
template <typename... Args>
inline void Ignore(const Args&...) {}
}  // namespace trace_detail

struct AsyncId {
  uint64_t value;
  uint32_t site;
};
inline AsyncId AsyncBegin(const char*) {
  const AsyncId id = {0, 0};
  return id;
}
inline void AsyncEnd(AsyncId) {}

struct Flow {
  uint64_t value;
};
inline Flow FlowOut() {
  const Flow flow = {0};
  return flow;
}
inline void FlowIn(Flow) {}

inline void SetThreadName(const char*) {}

}  // namespace disabled
}  // namespace jobscope

#define JOBSCOPE_IGNORE_(...)                                           \
  do {                                                                  \
    if (false) ::jobscope::disabled::trace_detail::Ignore(__VA_ARGS__); \
  } while (false)

#define JOBSCOPE_SCOPE(...) JOBSCOPE_IGNORE_(__VA_ARGS__)
#define JOBSCOPE_SCOPE_AT(...) JOBSCOPE_IGNORE_(__VA_ARGS__)
#define JOBSCOPE_SCOPE_COARSE(...) JOBSCOPE_IGNORE_(__VA_ARGS__)
#define JOBSCOPE_INPUT_WAIT(...) JOBSCOPE_IGNORE_(__VA_ARGS__)
#define JOBSCOPE_STEP(...) JOBSCOPE_IGNORE_(__VA_ARGS__)
#define JOBSCOPE_INSTANT(...) JOBSCOPE_IGNORE_(__VA_ARGS__)
#define JOBSCOPE_COUNTER(...) JOBSCOPE_IGNORE_(__VA_ARGS__)

#endif  // JOBSCOPE_DETAIL_TRACE_DISABLED_H_
