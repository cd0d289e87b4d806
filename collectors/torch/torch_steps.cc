// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_steps.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectors/inferred/inferred_steps.h"
#include "collectors/python/bridge/interpreter.h"
#include "collectors/python/bridge/script.h"
#include "collectors/torch/torch_compile.h"
#include "collectors/torch/torch_steps.py.h"
#include "common/log/log.h"
#include "common/sync/mutex.h"

namespace jobscope::framework::torch {
namespace {

constexpr char kStepName[] = "optimizer step";
constexpr char kEngineStepName[] = "DeepSpeed step";

// Number of optimizers' scopes without any backward pass after which they are taken for the steps
// of a program that has none (gradients without autograd).
constexpr int64_t kScopesWithoutBackward = 16;

// An optimizer's step, as reported by its hook.
struct OptimizerStep {
  uint64_t optimizer = 0;
  uint64_t part = 0;  // the first parameter that it was called for
};

// Guarded by the GIL, or thread-local. A forked child inherits it all and does nothing, because its
// mask is 0.
std::atomic<bool> g_hooked{false};
std::atomic<uint64_t> g_scope_source{0};
std::atomic<bool> g_backward{false};  // since an optimizer's scope last ended a step
// How many scopes must still end in this capture before each is a step; INT64_MAX: there are
// backward passes.
std::atomic<int64_t> g_scopes_until_trusted{0};
thread_local int t_scopes = 0;
thread_local int t_engines = 0;  // a training engine is in its step, which counts as the step
thread_local std::optional<OptimizerStep> t_ended;

void OnOptimizerStep(const OptimizerStep& step) {
  if (t_engines > 0) return;
  if (t_scopes > 0) {
    // If an optimizer calls another one's step, the inner one ends first. It is the source, also if
    // no scope is recorded.
    if (!t_ended.has_value()) t_ended = step;
  } else {
    NoteStepEnd(step.optimizer, kStepName, step.part);
  }
}

// Returns whether this call ends an iteration: of several calls per iteration the first one does,
// because no backward pass lies between them.
bool EndsIteration() {
  if (g_backward.exchange(false, std::memory_order_relaxed)) return true;
  const int64_t left = g_scopes_until_trusted.load(std::memory_order_relaxed);
  if (left > 0) g_scopes_until_trusted.store(left - 1, std::memory_order_relaxed);
  return left == 0;
}

uint64_t NumberAt(const std::vector<python::Value>& arguments, size_t index) {
  const auto* const number =
      index < arguments.size() ? std::get_if<int64_t>(&arguments[index]) : nullptr;
  return number == nullptr ? 0 : static_cast<uint64_t>(*number);
}

std::string TextAt(const std::vector<python::Value>& arguments, size_t index) {
  const auto* const text =
      index < arguments.size() ? std::get_if<std::string>(&arguments[index]) : nullptr;
  return text == nullptr ? std::string() : *text;
}

}  // namespace

bool LookForPython() {
  static Mutex mutex;  // used only by our own threads
  // Never destroyed.
  static std::unique_ptr<python::Script>* script ABSL_GUARDED_BY(mutex) = nullptr;
  const MutexLock lock(&mutex);
  if (script != nullptr) {
    (void)(*script)->Call("look_again");
    return true;
  }
  const auto interpreter = python::Interpreter::Find();
  if (!interpreter.ok()) return !absl::IsNotFound(interpreter.status());
  using Arguments = std::vector<python::Value>;
  const python::NativeFunction step_ended = [](const Arguments& arguments) {
    OnOptimizerStep({NumberAt(arguments, 0), NumberAt(arguments, 1)});
  };
  const python::NativeFunction hooked = [](const Arguments&) { g_hooked.store(true); };
  const python::NativeFunction engine_begins = [](const Arguments&) { ++t_engines; };
  const python::NativeFunction engine_ended = [](const Arguments& arguments) {
    if (t_engines > 0 && --t_engines == 0) NoteStepEnd(NumberAt(arguments, 0), kEngineStepName);
  };
  const python::NativeFunction compile_begins = [](const Arguments&) { BeginCompilation(); };
  const python::NativeFunction compile_ended = [](const Arguments& arguments) {
    EndCompilation(TextAt(arguments, 0), TextAt(arguments, 1));
  };
  auto loaded = python::Script::Load(*interpreter, "jobscope_torch_steps", python::kTorchStepsPy,
                                     {{"_step_ended", step_ended},
                                      {"_hooked", hooked},
                                      {"_engine_begins", engine_begins},
                                      {"_engine_ended", engine_ended},
                                      {"_compile_begins", compile_begins},
                                      {"_compile_ended", compile_ended}});
  auto status = loaded.status();
  if (loaded.ok()) {
    script = new std::unique_ptr<python::Script>(*std::move(loaded));
    status = (*script)->Call("look", {python::Value(int64_t{InfersSteps() ? 1 : 0})}).status();
  }
  if (!status.ok()) {
    Log(LogLevel::kInfo,
        absl::StrCat("no steps from PyTorch's optimizers, no compilations: ", status.message()));
  }
  return true;
}

bool ScopesAreSteps() { return !g_hooked.load(std::memory_order_relaxed) && InfersSteps(); }

void EnterOptimizerScope() { ++t_scopes; }

void LeaveOptimizerScope(uint32_t source) {
  if (t_scopes == 0 || --t_scopes > 0) return;
  if (t_ended.has_value()) {
    NoteStepEnd(t_ended->optimizer, kStepName, t_ended->part);
    t_ended.reset();
  } else if (ScopesAreSteps() && t_engines == 0 && EndsIteration()) {
    g_scope_source.store(source, std::memory_order_relaxed);
    NoteStepEnd(source, kStepName);
  }
}

void NoteBackward() {
  if (!g_backward.load(std::memory_order_relaxed)) {
    g_backward.store(true, std::memory_order_relaxed);
    g_scopes_until_trusted.store(INT64_MAX, std::memory_order_relaxed);
  }
}

void ForgetScopes() {
  g_backward.store(false, std::memory_order_relaxed);
  g_scopes_until_trusted.store(kScopesWithoutBackward, std::memory_order_relaxed);
  ForgetStepBegin(g_scope_source.load(std::memory_order_relaxed));
}

}  // namespace jobscope::framework::torch
