// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/event_names.h"

#include <initializer_list>

#include "absl/strings/ascii.h"

namespace jobscope::xspace {
namespace {

bool IsOpNameByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' ||
         c == '-';
}

bool IsTypeByte(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Returns whether a name has the form "scope/op:Type", which XProf recognises.
bool IsOpWithType(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == 0 || colon == std::string_view::npos || colon + 1 == name.size()) return false;
  for (const char c : name.substr(0, colon)) {
    if (!IsOpNameByte(c)) return false;
  }
  if (!absl::ascii_isupper(static_cast<unsigned char>(name[colon + 1]))) return false;
  for (const char c : name.substr(colon + 1)) {
    if (!IsTypeByte(c)) return false;
  }
  return true;
}

bool StartsWith(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}

}  // namespace

bool IsMisleadingName(std::string_view name) {
  for (const std::string_view ignored :
       {"EagerExecute", "EagerLocalExecute", "EagerKernelExecute", "FunctionRun"}) {
    if (StartsWith(name, ignored)) return true;
  }
  if (name.find('/') != std::string_view::npos) return false;
  for (const std::string_view marker : {"train", "test", "TraceContext"}) {
    if (StartsWith(name, marker)) return true;
  }
  return false;
}

std::string SafeEventName(std::string_view name) {
  if (name.empty()) return "unnamed";
  std::string safe(IsMisleadingName(name) ? "scope/" : "");
  return safe.append(name);
}

std::string SafeStatName(std::string_view key) {
  if (key.empty()) return "arg";
  bool reserved = key[0] == '_';
  for (const std::string_view taken :
       {"group_id", "step_num", "step_name", "iter_num", "correlation_id", "tf_op", "flow",
        "device_id", "program_id", "hlo_op", "hlo_module", "graph_type", "process_id",
        "kernel_details", "counter_value", "is_eager", "clipped_step", "truncated"}) {
    reserved = reserved || key == taken;
  }
  std::string safe(reserved ? "arg." : "");
  return safe.append(key);
}

std::string TfOpOf(std::string_view name, std::string_view category) {
  if (IsOpWithType(name)) return "";
  // A function's argument list does not identify the op.
  if (const size_t paren = name.find('('); paren != std::string_view::npos && paren > 0) {
    name = name.substr(0, paren);
  }
  std::string op;
  op.reserve(name.size() + 8);
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == ':' && i + 1 < name.size() && name[i + 1] == ':') {
      op.push_back('/');
      ++i;
    } else {
      op.push_back(IsOpNameByte(name[i]) ? name[i] : '_');
    }
  }
  if (op.empty() || !absl::ascii_isalnum(static_cast<unsigned char>(op[0]))) op.insert(0, "x");
  std::string type;
  for (const char c : category) type.push_back(IsTypeByte(c) ? c : '_');
  if (type.empty()) type = "Scope";
  if (!absl::ascii_isalpha(static_cast<unsigned char>(type[0]))) type.insert(0, "C");
  type[0] = absl::ascii_toupper(static_cast<unsigned char>(type[0]));
  return op + ":" + type;
}

}  // namespace jobscope::xspace
