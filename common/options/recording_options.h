// SPDX-License-Identifier: Apache-2.0
//
// Defines what a capture records: the options that every layer passes on unchanged, from the
// command line, the C ABI and Python through the wire to the collectors. An option is declared
// here, and has one row in recording_options.cc and one field in proto/jobscope/v1/options.proto.
#ifndef COMMON_OPTIONS_RECORDING_OPTIONS_H_
#define COMMON_OPTIONS_RECORDING_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/options/device_tracer.h"
#include "common/options/framework_choice.h"
#include "jobscope/jobscope_c.h"

namespace tensorflow {
class ProfileOptions;
}
namespace jobscope::v1 {
class Arm;
class Options;
}  // namespace jobscope::v1

namespace jobscope {

struct RecordingOptions {
  int host_tracer_level = 2;    // 0 off; 1 user and critical; 2 and notable runtime work; 3 all
  int device_tracer_level = 1;  // 0 off
  int python_tracer_level = 0;  // 0 off
  FrameworkChoice frameworks;   // other frameworks' collectors are off
  bool record_shapes = false;   // of the inputs of a framework's operators
  DeviceTracer device_tracer = DeviceTracer::kAuto;
};

// Describes one option, for command lines, manifests and bindings of other languages.
struct RecordingOption {
  enum class Kind { kNumber, kSwitch, kText };
  const char* name;
  const char* help;
  Kind kind;
};

// Returns all options, in the order of RecordingOptions.
const std::vector<RecordingOption>& AllRecordingOptions();

// Describes how errors name an invalid value: `prefix` + name + `suffix`, then "<equals>VALUE is
// out of range<range>0 to 3".
struct OptionSource {
  absl::string_view prefix;
  absl::string_view suffix = "";
  absl::string_view equals = " = ";
  absl::string_view range = ": ";
};
inline constexpr OptionSource kFromFlags{"--", "", "=", "; give "};

// Sets the option `name` from text. Returns INVALID_ARGUMENT if the name is unknown or the value
// invalid.
absl::Status SetOption(const OptionSource& source, absl::string_view name, absl::string_view text,
                       RecordingOptions* options);
// Returns the value of the option `name`; switches are "0" or "1".
std::string OptionText(const RecordingOptions& options, absl::string_view name);
// Returns all levels, for logs: "2/1/0".
std::string LevelsText(const RecordingOptions& options);

void ToProto(const RecordingOptions& options, v1::Arm* arm);
void ToProto(const RecordingOptions& options, v1::Options* effective);
// Options without a field of tensorflow.ProfileOptions go to advanced_configuration, and only if
// they differ from the default: a stock worker may refuse unknown keys.
void ToProto(const RecordingOptions& options, tensorflow::ProfileOptions* stock);

// Return INVALID_ARGUMENT, which names field, value and range.
absl::StatusOr<RecordingOptions> FromProto(const v1::Arm& arm);
absl::StatusOr<RecordingOptions> FromProto(const tensorflow::ProfileOptions& stock);
absl::StatusOr<RecordingOptions> FromC(const jobscope_capture_options& given);

// Returns whether FromProto reads this key of advanced_configuration.
bool IsOptionKey(absl::string_view key);

}  // namespace jobscope

#endif  // COMMON_OPTIONS_RECORDING_OPTIONS_H_
