// SPDX-License-Identifier: Apache-2.0
//
// Defines the classes into which the time of a step is divided: docs/report.md.
#ifndef ANALYSIS_STEPS_STEP_CLASS_H_
#define ANALYSIS_STEPS_STEP_CLASS_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace jobscope::analysis {

// In the order of tables. The numbers are stored in digests: never reuse one.
enum class StepClass {
  kInput = 0,
  kWaiting = 1,   // in a collective, before the last rank arrived
  kTransfer = 2,  // in a collective, after that
  kDeviceCompute = 3,
  kDeviceCopy = 4,
  kCompilation = 5,
  kGarbageCollection = 6,
  kGil = 7,
  kNotRunning = 8,
  kHost = 9,
  kLaunch = 10,
  kUnexplained = 11,
};

inline constexpr size_t kStepClasses = 12;

// Converts nanoseconds, used for computing, to milliseconds, used in reports.
inline constexpr double kNsPerMs = 1e6;

constexpr size_t Index(StepClass step_class) { return static_cast<size_t>(step_class); }

// Names for JSON and digests, and names for people.
inline constexpr std::array<std::string_view, kStepClasses> kClassNames = {"input",
                                                                           "waiting",
                                                                           "transfer",
                                                                           "device_compute",
                                                                           "device_copy",
                                                                           "compilation",
                                                                           "garbage_collection",
                                                                           "gil",
                                                                           "not_running",
                                                                           "host",
                                                                           "launch",
                                                                           "unexplained"};
inline constexpr std::array<std::string_view, kStepClasses> kClassTitles = {
    "input",       "waiting for others", "transfer", "device compute", "device copies",
    "compilation", "garbage collection", "GIL wait", "not running",    "host work",
    "launch",      "unexplained"};

constexpr std::string_view ClassName(StepClass step_class) {
  return kClassNames[Index(step_class)];
}
constexpr std::string_view ClassTitle(StepClass step_class) {
  return kClassTitles[Index(step_class)];
}

}  // namespace jobscope::analysis

#endif  // ANALYSIS_STEPS_STEP_CLASS_H_
