// SPDX-License-Identifier: Apache-2.0
//
// A look at all stacks, taken by Python's main thread between two of its instructions.
//
// A thread of ours that asks for the GIL gets it when the program gives it up: after 5 ms, or
// before that when it waits for something. Samples would tell more of waiting than of computing.
// Python lets anybody leave a call for its main thread, which makes it at once while it runs
// Python code, without any change of threads. Since 3.13, that is: before, the main thread looks
// for such calls only when it has another reason to look up.
#ifndef COLLECTORS_PYTHON_MAIN_THREAD_SAMPLE_H_
#define COLLECTORS_PYTHON_MAIN_THREAD_SAMPLE_H_

#include <optional>

#include "absl/time/time.h"
#include "collectors/python/stacks.h"
#include "collectors/python/trace_api.h"

namespace jobscope::python {

struct HeldRound {
  StackRound round;
  absl::Duration hold;  // of the GIL
};

inline constexpr int kFirstWithPromptCalls = 13;

// Without the GIL; one caller at a time. Nothing if the main thread does not come by within
// `patience`: it waits, or is in a long call of an extension.
std::optional<HeldRound> ReadOnMainThread(const TraceApi& trace, StackReader* reader,
                                          absl::Duration budget, absl::Duration patience);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_MAIN_THREAD_SAMPLE_H_
