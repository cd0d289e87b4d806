// SPDX-License-Identifier: Apache-2.0
#include "common/options/recording_options.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "jobscope/v1/options.pb.h"
#include "tensorflow/profiler_options.pb.h"

namespace jobscope {
namespace {

// Prefix of the keys in tensorflow.ProfileOptions.advanced_configuration.
constexpr char kKeyPrefix[] = "jobscope_";
// A text from C may be unterminated.
constexpr size_t kMaxTextBytes = 1024;
constexpr size_t kMaxByNameBytes = 4096;
// In the C ABI.
constexpr int kDefaultLevel = -1;

constexpr OptionSource kFromArm{"arm."};
constexpr OptionSource kFromStock{"opts."};
constexpr OptionSource kFromConfiguration{"opts.advanced_configuration[\"jobscope_", "\"]"};
constexpr OptionSource kFromC{"options."};

// Selects whether tensorflow.ProfileOptions has a field of the option's name.
using Stock = std::true_type;
using Ours = std::false_type;

// The properties in which options differ.
template <typename InStock, typename Value, typename InC, typename Get, typename Set>
struct Row {
  InStock in_stock;
  const char* name;
  Value RecordingOptions::*member;
  InC jobscope_capture_options::*member_in_c;
  Get get;  // from v1::Arm and, if `in_stock`, tensorflow::ProfileOptions
  Set set;  // in these and in v1::Options
  int max;  // maximum of a number; the minimum is 0
  const char* help;
};

template <typename InStock, typename Value, typename InC, typename Get, typename Set>
Row<InStock, Value, InC, Get, Set> MakeRow(InStock in_stock, const char* name,
                                           Value RecordingOptions::*member,
                                           InC jobscope_capture_options::*member_in_c, Get get,
                                           Set set, int max, const char* help) {
  return {in_stock, name, member, member_in_c, get, set, max, help};
}

// clang-format off
#define JOBSCOPE_OPTION(member)                                        \
  #member, &RecordingOptions::member, &jobscope_capture_options::member, \
      [](const auto& message) { return message.member(); },            \
      [](auto* message, const auto& value) { message->set_##member(value); }
// clang-format on

template <typename Visitor>
void ForEachRow(Visitor visit) {
  visit(MakeRow(Stock(), JOBSCOPE_OPTION(host_tracer_level), 3,
                "0 off, 1 user, 2 notable runtime work, 3 verbose"));
  visit(MakeRow(Stock(), JOBSCOPE_OPTION(device_tracer_level), 1, "0 off, 1 on"));
  visit(MakeRow(Stock(), JOBSCOPE_OPTION(python_tracer_level), 2,
                "0 off, 1 sampled stacks, 2 calls"));
  visit(MakeRow(Ours(), JOBSCOPE_OPTION(frameworks), 0,
                "frameworks whose own events are recorded: auto (all that a worker has loaded), "
                "none, or torch,jax,..."));
  visit(MakeRow(
      Ours(), JOBSCOPE_OPTION(device_tracer), 0,
      "tracer for GPUs: auto (JAX or TensorFlow if they use GPUs without PyTorch, otherwise "
      "jobscope), jobscope, or framework"));
  visit(MakeRow(Ours(), JOBSCOPE_OPTION(record_shapes), 1,
                "also record the shapes of the inputs of PyTorch's operators"));
}

// ---- from messages, flags and C ----

std::string Culprit(const OptionSource& source, absl::string_view name) {
  return absl::StrCat(source.prefix, name, source.suffix);
}

absl::Status OutOfRange(const OptionSource& source, absl::string_view name, absl::string_view value,
                        int max) {
  return absl::InvalidArgumentError(absl::StrCat(Culprit(source, name), source.equals, value,
                                                 " is out of range", source.range, "0 to ", max));
}

template <typename Row>
absl::Status Take(const OptionSource& source, const Row& row, int64_t value, int* out) {
  if (value < 0 || value > row.max)
    return OutOfRange(source, row.name, absl::StrCat(value), row.max);
  *out = static_cast<int>(value);
  return absl::OkStatus();
}

template <typename Row>
absl::Status Take(const OptionSource&, const Row&, int64_t value, bool* out) {
  *out = value != 0;
  return absl::OkStatus();
}

template <typename Value>
absl::Status TakeParsed(const std::string& culprit, absl::StatusOr<Value> value, Value* out) {
  if (!value.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(culprit, ": ", value.status().message()));
  }
  *out = *std::move(value);
  return absl::OkStatus();
}

template <typename Row>
absl::Status Take(const OptionSource& source, const Row& row, const std::string& text,
                  FrameworkChoice* out) {
  return TakeParsed(Culprit(source, row.name), FrameworkChoice::Parse(text), out);
}

template <typename Row>
absl::Status Take(const OptionSource& source, const Row& row, const std::string& text,
                  DeviceTracer* out) {
  return TakeParsed(Culprit(source, row.name), ParseDeviceTracer(text), out);
}

// Parses a number or a switch; texts are used unchanged.
template <typename Row, typename Value>
absl::Status TakeText(const OptionSource& source, const Row& row, const std::string& text,
                      Value* out) {
  if constexpr (std::is_same_v<Value, int>) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number)) return OutOfRange(source, row.name, text, row.max);
    return Take(source, row, number, out);
  } else if constexpr (std::is_same_v<Value, bool>) {
    if (!absl::SimpleAtob(text, out)) return OutOfRange(source, row.name, text, row.max);
    return absl::OkStatus();
  } else {
    return Take(source, row, text, out);
  }
}

// In the C ABI, -1 is the default of a number, and NULL of a text.
template <typename Row, typename Value>
absl::Status TakeC(const Row& row, int given, Value* out) {
  if (std::is_same_v<Value, int> && given == kDefaultLevel) return absl::OkStatus();
  return Take(kFromC, row, int64_t{given}, out);
}

template <typename Row, typename Value>
absl::Status TakeC(const Row& row, const char* given, Value* out) {
  if (given == nullptr) return absl::OkStatus();
  const size_t length = strnlen(given, kMaxTextBytes + 1);
  if (length > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(Culprit(kFromC, row.name), " is longer than ", kMaxTextBytes, " bytes"));
  }
  return Take(kFromC, row, std::string(given, length), out);
}

// ---- to messages and texts ----

uint32_t ToWire(int value) { return static_cast<uint32_t>(value); }
bool ToWire(bool value) { return value; }
std::string ToWire(const FrameworkChoice& value) { return value.text(); }
std::string ToWire(DeviceTracer value) { return std::string(DeviceTracerText(value)); }

using Configuration = tensorflow::ProfileOptions::AdvancedConfigValue;
template <typename Value>
void Put(const Value& value, Configuration* out) {
  if constexpr (std::is_same_v<Value, std::string>) {
    out->set_string_value(value);
  } else if constexpr (std::is_same_v<Value, bool>) {
    out->set_bool_value(value);
  } else {
    out->set_int64_value(value);
  }
}

// Conversions of an option whose value is a `Wire`. A value of another type counts as 0, false or
// empty.
template <typename Wire>
auto Get(const Configuration& in) {
  if constexpr (std::is_same_v<Wire, std::string>) {
    return in.string_value();
  } else if constexpr (std::is_same_v<Wire, bool>) {
    return in.bool_value();
  } else {
    return in.int64_value();
  }
}

template <typename Message>
void ToMessage(const RecordingOptions& options, Message* message) {
  ForEachRow([&](const auto& row) { row.set(message, ToWire(options.*row.member)); });
}

template <typename Value>
constexpr RecordingOption::Kind KindOf() {
  if (std::is_same_v<Value, int>) return RecordingOption::Kind::kNumber;
  if (std::is_same_v<Value, bool>) return RecordingOption::Kind::kSwitch;
  return RecordingOption::Kind::kText;
}

// ---- options by name in the C ABI ----

absl::Status TakeByName(const char* given, RecordingOptions* options) {
  const size_t length = strnlen(given, kMaxByNameBytes + 1);
  if (length > kMaxByNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("options.by_name is longer than ", kMaxByNameBytes, " bytes"));
  }
  absl::Status status;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(given, length), '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> option =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    status.Update(SetOption(kFromC, option.first, option.second, options));
  }
  return status;
}

}  // namespace

const std::vector<RecordingOption>& AllRecordingOptions() {
  static const auto* const all = [] {
    auto* const options = new std::vector<RecordingOption>;
    ForEachRow([options](const auto& row) {
      using Value = std::decay_t<decltype(RecordingOptions().*row.member)>;
      options->push_back({row.name, row.help, KindOf<Value>()});
    });
    return options;
  }();
  return *all;
}

absl::Status SetOption(const OptionSource& source, absl::string_view name, absl::string_view text,
                       RecordingOptions* options) {
  absl::Status status =
      absl::InvalidArgumentError(absl::StrCat(Culprit(source, name), " is not an option"));
  ForEachRow([&](const auto& row) {
    if (name == row.name) {
      status = TakeText(source, row, std::string(text), &(options->*row.member));
    }
  });
  return status;
}

std::string OptionText(const RecordingOptions& options, absl::string_view name) {
  std::string text;
  ForEachRow([&](const auto& row) {
    if (name == row.name) text = absl::StrCat(ToWire(options.*row.member));
  });
  return text;
}

std::string LevelsText(const RecordingOptions& options) {
  std::vector<std::string> levels;
  for (const RecordingOption& option : AllRecordingOptions()) {
    if (option.kind != RecordingOption::Kind::kNumber) continue;
    levels.push_back(OptionText(options, option.name));
  }
  return absl::StrJoin(levels, "/");
}

void ToProto(const RecordingOptions& options, v1::Arm* arm) { ToMessage(options, arm); }

void ToProto(const RecordingOptions& options, v1::Options* effective) {
  ToMessage(options, effective);
}

void ToProto(const RecordingOptions& options, tensorflow::ProfileOptions* stock) {
  const RecordingOptions defaults;
  ForEachRow([&](const auto& row) {
    const auto value = ToWire(options.*row.member);
    if constexpr (decltype(row.in_stock)::value) {
      row.set(stock, value);
    } else if (value != ToWire(defaults.*row.member)) {
      Put(value, &(*stock->mutable_advanced_configuration())[absl::StrCat(kKeyPrefix, row.name)]);
    }
  });
}

absl::StatusOr<RecordingOptions> FromProto(const v1::Arm& arm) {
  RecordingOptions options;
  absl::Status status;
  ForEachRow([&](const auto& row) {
    status.Update(Take(kFromArm, row, row.get(arm), &(options.*row.member)));
  });
  if (!status.ok()) return status;
  return options;
}

absl::StatusOr<RecordingOptions> FromProto(const tensorflow::ProfileOptions& stock) {
  RecordingOptions options;
  absl::Status status;
  ForEachRow([&](const auto& row) {
    auto* const out = &(options.*row.member);
    if constexpr (decltype(row.in_stock)::value) {
      // Version 0 means all defaults.
      if (stock.version() != 0) status.Update(Take(kFromStock, row, row.get(stock), out));
    } else {
      const auto found = stock.advanced_configuration().find(absl::StrCat(kKeyPrefix, row.name));
      if (found == stock.advanced_configuration().end()) return;
      status.Update(Take(kFromConfiguration, row, Get<decltype(ToWire(*out))>(found->second), out));
    }
  });
  if (!status.ok()) return status;
  return options;
}

absl::StatusOr<RecordingOptions> FromC(const jobscope_capture_options& given) {
  RecordingOptions options;
  absl::Status status;
  if (given.by_name != nullptr) {
    status = TakeByName(given.by_name, &options);
  } else {
    ForEachRow([&](const auto& row) {
      status.Update(TakeC(row, given.*row.member_in_c, &(options.*row.member)));
    });
  }
  if (!status.ok()) return status;
  return options;
}

bool IsOptionKey(absl::string_view key) {
  if (!absl::ConsumePrefix(&key, kKeyPrefix)) return false;
  bool known = false;
  ForEachRow([&](const auto& row) {
    known = known || (!decltype(row.in_stock)::value && key == row.name);
  });
  return known;
}

}  // namespace jobscope
