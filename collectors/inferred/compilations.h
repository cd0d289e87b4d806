// SPDX-License-Identifier: Apache-2.0
//
// Which events of frameworks' own profilers are compilations.
#ifndef COLLECTORS_INFERRED_COMPILATIONS_H_
#define COLLECTORS_INFERRED_COMPILATIONS_H_

#include <string_view>

namespace jobscope::framework {

// Of the stat, an int64 of 1, that each compilation carries, whoever compiles.
inline constexpr char kCompilationStat[] = "compilation";

// Whether an event of this name, on a thread of the host, is the tracing, lowering or compiling of
// a program by JAX, TensorFlow or XLA. Nested ones are all told.
bool IsCompilation(std::string_view name);

}  // namespace jobscope::framework

#endif  // COLLECTORS_INFERRED_COMPILATIONS_H_
