// SPDX-License-Identifier: Apache-2.0
//
// Finds the PyTorch that the process has loaded; uses no headers of it, links and loads nothing.
#ifndef COLLECTORS_TORCH_TORCH_LIBRARY_H_
#define COLLECTORS_TORCH_TORCH_LIBRARY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace jobscope::framework::torch {

// Passes data from an operator's begin to its end. PyTorch owns it in between and deletes it
// through the destructor: the first virtual function, here as there.
struct ObserverContext {
  virtual ~ObserverContext() = default;
};

// at::RecordFunctionCallback, passed by value; unchanged since 1.13.
struct Callback {
  using StartFunction = std::unique_ptr<ObserverContext> (*)(const void* record_function);
  using EndFunction = void (*)(const void* record_function, ObserverContext* context);
  static constexpr size_t kScopes = 10;

  StartFunction start = nullptr;
  EndFunction end = nullptr;
  double sampling_probability = 1.0;
  std::array<bool, kScopes> scopes = {};
  bool needs_inputs = false;
  bool needs_outputs = false;
  bool needs_ids = false;
};

// at::RecordScope
inline constexpr size_t kScopeFunction = 0;
inline constexpr size_t kScopeBackward = 1;
inline constexpr size_t kScopeTorchScript = 2;
inline constexpr size_t kScopeCustomClass = 4;
inline constexpr size_t kScopeUser = 7;
inline constexpr size_t kScopeStaticRuntimeOp = 8;
inline constexpr size_t kScopeStaticRuntimeModel = 9;

// Sizes of each input, in order; empty for inputs that are not tensors.
using Sizes = std::vector<std::vector<int64_t>>;

// Parameters of a collective, by the names that PyTorch's own profiler uses; text is quoted.
using Parameters = std::unordered_map<std::string, std::string>;

// torch::profiler::impl::SaveNcclMetaConfig: selects parameters. Only those that the thread keeps,
// none that would read inputs or outputs.
struct ParameterChoice {
  bool truncate = true;
  bool metadata = true;
  bool inputs = false;
  bool outputs = false;
};

struct Api {
  std::string version;  // "2.15.0+cu132"
  uint64_t (*add_global_callback)(Callback callback) = nullptr;
  void (*remove_callback)(uint64_t handle) = nullptr;
  const char* (*name)(const void* record_function) = nullptr;
  bool (*is_async)(const void* record_function) = nullptr;  // may be null
  // May be null. Only within a start function of a callback that needs inputs. Throws PyTorch's
  // exceptions: see torch_shapes.h.
  Sizes (*input_sizes)(const void* record_function, bool flatten_lists) = nullptr;
  // Returns the names of the inputs' element types; same conditions.
  std::vector<std::string> (*input_types)(const void* record_function) = nullptr;
  // May be null. Only while PyTorch creates the work of an NCCL or XCCL collective.
  Parameters (*collective_parameters)(const void* record_function,
                                      const ParameterChoice& choice) = nullptr;
  // For process groups (torch_process_group.h); each may be null: the operator's number of inputs;
  // the virtual tables of c10d::ProcessGroup and ProcessGroupGloo; the name of a group and the
  // sequence number of a backend, which both throw PyTorch's exceptions.
  size_t (*num_inputs)(const void* record_function) = nullptr;
  const void* group_vtable = nullptr;
  const void* gloo_vtable = nullptr;
  const std::string* (*group_name)(const void* group) = nullptr;
  // __cxa_get_globals of PyTorch's C++ runtime, which may differ from ours. May be null.
  void* (*exception_globals)() = nullptr;
};

// Returns whether libtorch_cpu.so is mapped. Takes microseconds; does not wait for libraries being
// loaded.
bool IsLoaded();
// Likewise, but does not wait for a fork in progress: then returns the last known state.
bool IsKnownLoaded();

// Finds the process's PyTorch. NOT_FOUND: it has none. FAILED_PRECONDITION: its version is unknown
// or untested (JOBSCOPE_TORCH_ANY_VERSION=1 overrides that), or it lacks a function; the message
// names it. Acquires the loader's lock and reads a file or two.
absl::StatusOr<Api> Find();

// Parts of the above, exposed for tests.
std::optional<std::pair<int, int>> ParseVersion(std::string_view version);
absl::Status CheckVersion(std::string_view version);
// Returns the version of the library at `path`, from the files beside it; empty: unknown.
std::string VersionOf(const std::string& path);

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_LIBRARY_H_
