// SPDX-License-Identifier: Apache-2.0
//
// Recognises compilations among the events of frameworks' own profilers.
#ifndef COLLECTORS_INFERRED_COMPILATIONS_H_
#define COLLECTORS_INFERRED_COMPILATIONS_H_

#include <string_view>

namespace jobscope::framework {

// Name of the stat, an int64 of 1, that marks each compilation.
inline constexpr char kCompilationStat[] = "compilation";

// Returns whether an event of this name, on a host thread, is the tracing, lowering or compiling of
// a program by JAX, TensorFlow or XLA. True for nested ones, too.
bool IsCompilation(std::string_view name);

}  // namespace jobscope::framework

#endif  // COLLECTORS_INFERRED_COMPILATIONS_H_
