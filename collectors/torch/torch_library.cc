// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_library.h"

#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/process/loaded_libraries.h"
#include "common/process/own_environment.h"
#include "common/process/proc_files.h"

namespace jobscope::framework::torch {
namespace {

constexpr char kLibrary[] = "libtorch_cpu.so";
LibraryPresence torch_presence(kLibrary);
constexpr size_t kMaxVersionBytes = 8192;  // of a file of a few lines
constexpr char kAnyVersion[] = "JOBSCOPE_TORCH_ANY_VERSION";

// Tested range (make torch-versions): 1.13, 2.1, 2.4, 2.6, 2.9, 2.12 and 2.15. The struct and the
// functions did not change in between.
constexpr std::pair<int, int> kOldest = {1, 13};
constexpr std::pair<int, int> kNewest = {2, 15};
constexpr char kTested[] = "1.13 to 2.15";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Returns the quoted text in the line of a Python file that assigns `variable`.
std::string AssignedText(const std::string& file, std::string_view variable) {
  const std::vector<std::string> lines = absl::StrSplit(FileText(file, kMaxVersionBytes), '\n');
  for (const std::string& line : lines) {
    if (line.compare(0, variable.size(), variable) != 0) continue;
    const size_t open = line.find_first_of("'\"");
    const size_t close = line.find_last_of("'\"");
    if (open != std::string::npos && close > open) return line.substr(open + 1, close - open - 1);
  }
  return {};
}

std::string FirstWord(const std::string& file) {
  const std::string text = FileText(file, /*max_bytes=*/64);
  const absl::string_view line = absl::StripLeadingAsciiWhitespace(text);
  return std::string(line.substr(0, line.find_first_of(" \t\r\n")));
}

// Returns "1.13" for ".../libtorch_cpu.so.1.13": Debian's library, whose Python files are
// elsewhere.
std::string VersionInName(const std::string& path) {
  const size_t at = path.rfind(kLibrary);
  const size_t end = at == std::string::npos ? at : at + sizeof(kLibrary) - 1;
  if (end == std::string::npos || end >= path.size() || path[end] != '.') return {};
  return path.substr(end + 1);
}

// A function without which there are no callbacks; null: all are there.
const char* MissingFunction(const Api& api) {
  if (api.add_global_callback == nullptr) return "at::addGlobalCallback";
  if (api.remove_callback == nullptr) return "at::removeCallback";
  return api.name == nullptr ? "at::RecordFunction::name" : nullptr;
}

template <typename Function>
void Resolve(void* library, const char* symbol, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, symbol));
}

}  // namespace

bool IsLoaded() { return torch_presence.IsLoaded(); }
bool IsKnownLoaded() { return torch_presence.IsKnownLoaded(); }

std::optional<std::pair<int, int>> ParseVersion(std::string_view version) {
  const auto number = [&version]() -> std::optional<int> {
    size_t digits = 0;
    while (digits < version.size() &&
           absl::ascii_isdigit(static_cast<unsigned char>(version[digits]))) {
      ++digits;
    }
    int value = 0;
    if (!absl::SimpleAtoi(absl::string_view(version.data(), digits), &value)) return std::nullopt;
    version.remove_prefix(digits);
    return value;
  };
  const auto major = number();
  if (!major.has_value() || version.empty() || version[0] != '.') return std::nullopt;
  version.remove_prefix(1);
  const auto minor = number();
  if (!minor.has_value()) return std::nullopt;
  return std::make_pair(*major, *minor);
}

absl::Status CheckVersion(std::string_view version) {
  if (OwnVariable(kAnyVersion) == "1") return absl::OkStatus();
  if (version.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the version of this process's PyTorch is unknown (no version.py beside "
                     "its library); ",
                     kAnyVersion, "=1 records its operators anyway"));
  }
  const auto parsed = ParseVersion(version);
  if (parsed.has_value() && kOldest <= *parsed && *parsed <= kNewest) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("PyTorch ", absl::string_view(version.data(), version.size()),
                   " is not among the versions that this was tested with (", kTested, "); ",
                   kAnyVersion, "=1 records its operators anyway"));
}

std::string VersionOf(const std::string& path) {
  const std::string parent = FolderOf(path) + "/..";
  if (std::string version = AssignedText(parent + "/version.py", "__version__"); !version.empty()) {
    return version;
  }
  if (std::string version = FirstWord(parent + "/build-version"); !version.empty()) return version;
  if (std::string version = VersionInName(path); !version.empty()) return version;
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? std::string() : VersionInName(resolved);
}

absl::StatusOr<Api> Find() {
  const std::string path = FindLoadedLibrary(kLibrary);
  if (path.empty()) return absl::NotFoundError("this process has not loaded PyTorch");
#if !defined(__x86_64__)
  return absl::FailedPreconditionError(
      "PyTorch's operators are recorded on x86-64 only; torch.profiler in the program records them "
      "here");
#endif
  Api api;
  api.version = VersionOf(path);
  auto status = CheckVersion(api.version);
  if (!status.ok()) return status;
  // Never closed: its threads may run callbacks as long as the process lives.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is mapped but cannot be opened"));
  }
  Resolve(library, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
          &api.add_global_callback);
  Resolve(library, "_ZN2at14removeCallbackEm", &api.remove_callback);
  Resolve(library, "_ZNK2at14RecordFunction4nameEv", &api.name);
  Resolve(library, "_ZNK2at14RecordFunction7isAsyncEv", &api.is_async);
  Resolve(library, "_ZN5torch8profiler4impl10inputSizesERKN2at14RecordFunctionEb",
          &api.input_sizes);
  Resolve(library, "_ZN5torch8profiler4impl10inputTypesB5cxx11ERKN2at14RecordFunctionE",
          &api.input_types);
  Resolve(library,
          "_ZN5torch8profiler4impl12saveNcclMetaB5cxx11ERKN2at14RecordFunctionERKNS1_"
          "18SaveNcclMetaConfigE",
          &api.collective_parameters);
  Resolve(library, "_ZNK2at14RecordFunction10num_inputsEv", &api.num_inputs);
  Resolve(library, "_ZTVN4c10d12ProcessGroupE", &api.group_vtable);
  Resolve(library, "_ZTVN4c10d16ProcessGroupGlooE", &api.gloo_vtable);
  Resolve(library, "_ZNK4c10d12ProcessGroup12getGroupNameB5cxx11Ev", &api.group_name);
  Resolve(library, "__cxa_get_globals", &api.exception_globals);
  if (MissingFunction(api) != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "PyTorch ", api.version, " (", path, ") takes no callbacks: it lacks ",
        MissingFunction(api), ". Use a build of PyTorch ", kTested, " to record its operators"));
  }
  return api;
}

}  // namespace jobscope::framework::torch
