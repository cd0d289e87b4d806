// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/bridge/api.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/process/loaded_libraries.h"
#include "common/sync/mutex.h"

namespace jobscope::python {
namespace {

constexpr int kOldestMinor = 9;
constexpr char kProbe[] = "Py_IsInitialized";

// Number of loaded libraries when the last search found no Python.
std::atomic<uint64_t> g_loads_without{0};

absl::Status AbsentError() { return absl::NotFoundError("there is no Python in this process"); }

// Finds a libpython that a program embedding Python as a plugin loaded outside of the global scope.
void* PrivateLibrary() {
  for (const std::string& path : LoadedLibraries()) {
    const std::string_view file = FileNameOf(path);
    // "libpython3.so" is only a stub that loads the real library.
    if (file.substr(0, 11) != "libpython3." || file == "libpython3.so") continue;
    return dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  }
  return nullptr;
}

class Loader {
 public:
  explicit Loader(Api* api) : api_(api) {}

  template <typename T>
  void operator()(const char* name, T* target) {
    void* const symbol = api_->Symbol(name);
    if (symbol == nullptr && missing_ == nullptr) missing_ = name;
    *target = reinterpret_cast<T>(symbol);
  }
  const char* missing() const { return missing_; }

 private:
  Api* const api_;
  const char* missing_ = nullptr;
};

absl::Status CheckVersion(Api* api) {
  const std::string_view text = api->GetVersion();
  const std::string version(text.substr(0, text.find(' ')));
  const std::vector<std::string> numbers = absl::StrSplit(version, '.');
  if (numbers.size() < 2 || numbers[0] != "3" || !absl::SimpleAtoi(numbers[1], &api->minor) ||
      api->minor < kOldestMinor) {
    return absl::UnimplementedError(
        absl::StrCat("Python ", version, " is not served; 3.", kOldestMinor, " and later are"));
  }
  if (text.find("free-threading") != std::string_view::npos) {
    return absl::UnimplementedError(
        absl::StrCat("Python ", version,
                     " is a free-threaded build, which jobscope does not support: its access to "
                     "Python is guarded by the GIL, which this build lacks"));
  }
  api->version = version;
  return absl::OkStatus();
}

absl::Status Load(Api* api) {
  Loader load(api);
  load("Py_GetVersion", &api->GetVersion);
  if (load.missing() == nullptr) {
    if (absl::Status served = CheckVersion(api); !served.ok()) return served;
  }
  load(kProbe, &api->IsInitialized);
  load(api->Symbol("Py_IsFinalizing") != nullptr ? "Py_IsFinalizing" : "_Py_IsFinalizing",
       &api->IsFinalizing);
  load("PyGILState_Ensure", &api->GILState_Ensure);
  load("PyGILState_Release", &api->GILState_Release);
  load("PyGILState_GetThisThreadState", &api->GILState_GetThisThreadState);
  load("PyInterpreterState_Main", &api->InterpreterState_Main);
  load("PyThreadState_New", &api->ThreadState_New);
  load("PyThreadState_Clear", &api->ThreadState_Clear);
  load("PyThreadState_DeleteCurrent", &api->ThreadState_DeleteCurrent);
  load("PyEval_SaveThread", &api->Eval_SaveThread);
  load("PyEval_RestoreThread", &api->Eval_RestoreThread);
  load("Py_IncRef", &api->IncRef);
  load("Py_DecRef", &api->DecRef);
  load("PyErr_Occurred", &api->Err_Occurred);
  load("PyErr_Fetch", &api->Err_Fetch);
  load("PyErr_Restore", &api->Err_Restore);
  load("PyErr_NormalizeException", &api->Err_NormalizeException);
  load("PyErr_Clear", &api->Err_Clear);
  load("PyErr_SetString", &api->Err_SetString);
  load("PyObject_Str", &api->Object_Str);
  load("PyObject_Type", &api->Object_Type);
  load("PyObject_GetAttrString", &api->Object_GetAttrString);
  load("PyObject_IsTrue", &api->Object_IsTrue);
  load("PyObject_CallObject", &api->Object_CallObject);
  load("PyType_GetFlags", &api->Type_GetFlags);
  load("PyType_IsSubtype", &api->Type_IsSubtype);
  load("PyUnicode_DecodeUTF8", &api->Unicode_DecodeUTF8);
  load("PyUnicode_AsEncodedString", &api->Unicode_AsEncodedString);
  load("PyUnicode_AsUTF8AndSize", &api->Unicode_AsUTF8AndSize);
  load("PyBytes_FromStringAndSize", &api->Bytes_FromStringAndSize);
  load("PyBytes_AsStringAndSize", &api->Bytes_AsStringAndSize);
  load("PyLong_FromLongLong", &api->Long_FromLongLong);
  load("PyLong_AsLongLong", &api->Long_AsLongLong);
  load("PyFloat_FromDouble", &api->Float_FromDouble);
  load("PyFloat_AsDouble", &api->Float_AsDouble);
  load("PyTuple_New", &api->Tuple_New);
  load("PyTuple_Size", &api->Tuple_Size);
  load("PyTuple_GetItem", &api->Tuple_GetItem);
  load("PyTuple_SetItem", &api->Tuple_SetItem);
  load("PyDict_GetItemString", &api->Dict_GetItemString);
  load("PyDict_GetItem", &api->Dict_GetItem);
  load("PyDict_SetItemString", &api->Dict_SetItemString);
  load("PyDict_Next", &api->Dict_Next);
  load("PyModule_New", &api->Module_New);
  load("PyModule_GetDict", &api->Module_GetDict);
  load("PyImport_GetModuleDict", &api->Import_GetModuleDict);
  load("PyImport_ImportModule", &api->Import_ImportModule);
  load("PyEval_GetBuiltins", &api->Eval_GetBuiltins);
  load("Py_CompileString", &api->CompileString);
  load("PyEval_EvalCode", &api->Eval_EvalCode);
  load("PyCFunction_NewEx", &api->CFunction_NewEx);
  load("PyCapsule_New", &api->Capsule_New);
  load("PyCapsule_GetPointer", &api->Capsule_GetPointer);
  load("_Py_NoneStruct", &api->none);
  load("PyFloat_Type", &api->float_type);
  load("PyExc_RuntimeError", &api->runtime_error_class);
  if (load.missing() != nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("Python ", api->version, " of this process has no ", load.missing()));
  }
  return absl::OkStatus();
}

}  // namespace

void* Api::Symbol(const char* name) const {
  return dlsym(library == nullptr ? RTLD_DEFAULT : library, name);
}

bool SurelyAbsent() { return g_loads_without.load(std::memory_order_relaxed) == LibraryLoads(); }

absl::StatusOr<const Api*> FindApi() {
  static std::atomic<const Api*> found{nullptr};
  if (const Api* api = found.load(std::memory_order_acquire)) return api;
  static Mutex mutex;
  const MutexLock lock(&mutex);
  if (const Api* api = found.load(std::memory_order_acquire)) return api;
  const uint64_t loads = LibraryLoads();
  if (g_loads_without.load(std::memory_order_relaxed) == loads) return AbsentError();
  void* const global = dlsym(RTLD_DEFAULT, kProbe);
  void* const library = global == nullptr ? PrivateLibrary() : nullptr;
  if (global == nullptr && library == nullptr) {
    g_loads_without.store(loads, std::memory_order_relaxed);
    return AbsentError();
  }
  auto api = std::make_unique<Api>();
  api->library = library;
  if (absl::Status loaded = Load(api.get()); !loaded.ok()) return loaded;
  found.store(api.get(), std::memory_order_release);
  return api.release();
}

}  // namespace jobscope::python
