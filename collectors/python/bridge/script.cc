// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/bridge/script.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/interpreter.h"
#include "collectors/python/bridge/values.h"
#include "common/sync/mutex.h"

namespace jobscope::python {
namespace {

constexpr char kCapsuleName[] = "jobscope.function";

// A native function as Python holds it: never freed, because hooks that Python keeps may call it at
// any time. Closed with its script; later calls do nothing.
struct FunctionBox {
  const Api* api;
  std::string name;
  MethodDefinition method;
  Mutex mutex;  // calls hold the GIL, so one at a time; closing does not
  NativeFunction function ABSL_GUARDED_BY(mutex);
};

Object* None(const Api& api) {
  api.IncRef(api.none);
  return api.none;
}

Object* CallNative(FunctionBox* box, Object* arguments) {
  const Api& api = *box->api;
  std::vector<Value> values(static_cast<size_t>(api.Tuple_Size(arguments)));
  for (size_t i = 0; i < values.size(); ++i) {
    absl::StatusOr<Value> value =
        FromPython(api, api.Tuple_GetItem(arguments, static_cast<intptr_t>(i)));
    if (!value.ok()) {
      const std::string text =
          absl::StrCat(box->name, ": argument ", i, " is ", value.status().message());
      api.Err_SetString(*api.runtime_error_class, text.c_str());
      return nullptr;
    }
    values[i] = *std::move(value);
  }
  const MutexLock lock(&box->mutex);
  if (box->function) box->function(values);
  return None(api);
}

// Runs on any thread of the application, with the GIL. A call for which there is no memory is
// dropped: neither a C++ exception nor one of Python's may reach the program.
Object* CallCapsule(Object* self, Object* arguments) {
  const absl::StatusOr<const Api*> found = FindApi();
  if (!found.ok()) return nullptr;
  const Api& api = **found;
  auto* const box = static_cast<FunctionBox*>(api.Capsule_GetPointer(self, kCapsuleName));
  if (box == nullptr) return nullptr;
  if (Forked()) return None(api);
  try {
    return CallNative(box, arguments);
  } catch (const std::exception&) {
    api.Err_Clear();
    return None(api);
  }
}

// Returns a Python callable for `box`; nullptr with an exception set.
Object* MakeCallable(const Api& api, FunctionBox* box) {
  const Ref capsule(api, api.Capsule_New(box, kCapsuleName, nullptr));
  return capsule ? api.CFunction_NewEx(&box->method, capsule.get(), nullptr) : nullptr;
}

}  // namespace

struct Script::State {
  const Api* api = nullptr;
  std::string file;                 // in tracebacks
  Object* globals = nullptr;        // owned, never released
  std::vector<FunctionBox*> boxes;  // never freed

  absl::Status Run(const std::string& name, const std::string& source) {
    const Ref module(*api, api->Module_New(name.c_str()));
    Object* const dictionary = module ? api->Module_GetDict(module.get()) : nullptr;
    if (dictionary == nullptr) return Failure();
    api->IncRef(dictionary);
    globals = dictionary;
    if (api->Dict_SetItemString(globals, "__builtins__", api->Eval_GetBuiltins()) != 0) {
      return Failure();
    }
    for (FunctionBox* box : boxes) {
      const Ref callable(*api, MakeCallable(*api, box));
      if (!callable || api->Dict_SetItemString(globals, box->name.c_str(), callable.get()) != 0) {
        return Failure();
      }
    }
    const Ref code(*api, api->CompileString(source.c_str(), file.c_str(), kFileInput));
    const Ref done(*api, code ? api->Eval_EvalCode(code.get(), globals, globals) : nullptr);
    return done ? absl::OkStatus() : Failure();
  }

  absl::StatusOr<Value> Call(const char* name, const std::vector<Value>& values) const {
    Object* const function = api->Dict_GetItemString(globals, name);
    if (function == nullptr) return absl::InternalError(absl::StrCat(file, " has no ", name));
    api->IncRef(function);
    const Ref held(*api, function);
    const Ref arguments(*api, ToPython(*api, values));
    const Ref result(*api, arguments ? api->Object_CallObject(function, arguments.get()) : nullptr);
    if (!result) return Failure();
    absl::StatusOr<Value> value = FromPython(*api, result.get());
    if (value.ok()) return value;
    return absl::InternalError(
        absl::StrCat(file, ": ", name, " returned ", value.status().message()));
  }

  absl::Status Failure() const { return absl::InternalError(TakeException(*api, file)); }
};

Script::Script(std::unique_ptr<State> state) : state_(std::move(state)) {}

Script::~Script() {
  for (FunctionBox* box : state_->boxes) {
    const MutexLock lock(&box->mutex);
    box->function = nullptr;
  }
}

absl::StatusOr<std::unique_ptr<Script>> Script::Load(
    const Interpreter* interpreter, std::string_view name, std::string_view source,
    std::vector<std::pair<std::string, NativeFunction>> functions) {
  auto state = std::make_unique<State>();
  state->api = interpreter->api();
  state->file = absl::StrCat(kScriptFolder, std::string(name));
  for (auto& [function_name, function] : functions) {
    auto* const box = new FunctionBox;
    box->api = state->api;
    box->name = std::move(function_name);
    box->method = {box->name.c_str(), &CallCapsule, kMethodVarargs, nullptr};
    {
      const MutexLock lock(&box->mutex);
      box->function = std::move(function);
    }
    state->boxes.push_back(box);
  }
  absl::Status result;
  const absl::Status ran = WithGil(*state->api, GilUse::kScript,
                                   [&, name = std::string(name), source = std::string(source)] {
                                     result = state->Run(name, source);
                                   });
  auto script = std::unique_ptr<Script>(new Script(std::move(state)));
  if (!ran.ok()) return ran;
  if (!result.ok()) return result;
  return script;
}

absl::StatusOr<Value> Script::Call(const char* function,
                                   const std::vector<Value>& arguments) const {
  absl::StatusOr<Value> result = Value();
  const absl::Status ran =
      WithGil(*state_->api, GilUse::kScript, [&] { result = state_->Call(function, arguments); });
  if (!ran.ok()) return ran;
  return result;
}

}  // namespace jobscope::python
