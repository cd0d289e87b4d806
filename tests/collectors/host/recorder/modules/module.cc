// SPDX-License-Identifier: Apache-2.0
//
// A library with sites in it, built several times under several names; see modules_test.cc.
// Compiled with the user's flags, not ours: default visibility, GNU_UNIQUE symbols allowed.
#include "jobscope/trace.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

// In each library and in the executable: one place in the code, one site.
inline void InlineFunction() { JOBSCOPE_SCOPE("inline function"); }

template <typename T>
void TemplateFunction() {
  JOBSCOPE_STEP("template function", sizeof(T));
}

// Before main, or while it is being loaded, of the library's own threads.
struct RecordsWhileLoading {
  RecordsWhileLoading() { JOBSCOPE_INSTANT("static constructor"); }
  ~RecordsWhileLoading() { JOBSCOPE_INSTANT("static destructor"); }
};
RecordsWhileLoading g_records;

extern "C" {

void JOIN(MODULE, _record)(const char* text) {
  JOBSCOPE_SCOPE("in a module", "text", text);
  InlineFunction();
  TemplateFunction<int>();
  jobscope::AsyncEnd(jobscope::AsyncBegin("async in a module"));
}

const void* JOIN(MODULE, _mask)() { return jobscope_trace_writer()->mask; }
}
