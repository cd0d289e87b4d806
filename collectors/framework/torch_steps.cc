// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/torch_steps.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/framework/inferred_steps.h"
#include "collectors/python/interpreter.h"
#include "common/log.h"

namespace jobscope::framework::torch {
namespace {

constexpr char kStepName[] = "optimizer step";

// An interpreter that is preloaded into takes some 20 ms to be there; a program that embeds one may
// take seconds. 50 ms, doubled from look to look: the last is after 26 s.
constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr int kLooks = 10;

// Python's import system asks each finder of sys.meta_path for each module that is not loaded yet.
// Ours finds nothing; it notices on the occasion that the module has come, of which many are
// imported after it. So nothing polls, and no loader is wrapped. It is left in its place when its
// work is done: a list that another thread walks must not shrink.
constexpr char kScript[] = R"(
import sys

_state = "waiting"


def _after_step(optimizer, args, kwargs):
    _step_ended(id(optimizer))


# A compiler of Python functions is not to look into it.
_after_step._torchdynamo_disable = True


def _try():
    global _state
    module = sys.modules.get("torch.optim.optimizer")
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:
        _state = "given up"  # if this raises
        register(_after_step)
        _state = "hooked"
        _hooked()


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if _state == "waiting":
            try:
                _try()
            except Exception:
                pass
        return None


def look():
    _try()
    if _state == "waiting":
        sys.meta_path.insert(0, _Finder)
)";

// Behind Python's GIL, or one per thread. A forked child inherits it all, and does nothing: its
// mask is 0.
std::atomic<bool> g_hooked{false};
std::atomic<uint64_t> g_scope_source{0};
thread_local int t_scopes = 0;
thread_local std::optional<uint64_t> t_ended;

void OnOptimizerStep(uint64_t optimizer) {
  if (t_scopes > 0) {
    t_ended = optimizer;
  } else {
    NoteStepEnd(optimizer, kStepName);
  }
}

}  // namespace

bool SwitchedOff() {
  static const bool off = [] {
    const char* const choice = std::getenv("JOBSCOPE_INFER_STEPS");
    return choice != nullptr && std::strcmp(choice, "0") == 0;
  }();
  return off;
}

bool LookForPython() {
  static std::mutex mutex;                                   // of threads of ours only
  static std::unique_ptr<python::Script>* script = nullptr;  // never destroyed
  const std::lock_guard<std::mutex> lock(mutex);
  if (script != nullptr || SwitchedOff()) return true;
  const auto interpreter = python::Interpreter::Find();
  if (!interpreter.ok()) return !absl::IsNotFound(interpreter.status());
  const python::NativeFunction step_ended = [](const std::vector<python::Value>& arguments) {
    if (arguments.size() != 1) return;
    if (const auto* const id = std::get_if<int64_t>(&arguments[0])) {
      OnOptimizerStep(static_cast<uint64_t>(*id));
    }
  };
  const python::NativeFunction hooked = [](const std::vector<python::Value>&) {
    g_hooked.store(true);
  };
  auto loaded = python::Script::Load(*interpreter, "jobscope_torch_steps", kScript,
                                     {{"_step_ended", step_ended}, {"_hooked", hooked}});
  auto status = loaded.status();
  if (loaded.ok()) {
    script = new std::unique_ptr<python::Script>(*std::move(loaded));
    status = (*script)->Call("look").status();
  }
  if (!status.ok()) {
    Log(LogLevel::kInfo, absl::StrCat("no steps from PyTorch's optimizers: ", status.message()));
  }
  return true;
}

void LookForAWhile() {
  const pid_t process = getpid();
  absl::Duration pause = kFirstPause;
  for (int look = 1; getpid() == process && !LookForPython() && look < kLooks; ++look) {
    absl::SleepFor(pause);
    pause *= 2;
  }
}

bool ScopesAreSteps() { return !g_hooked.load(std::memory_order_relaxed) && !SwitchedOff(); }

void EnterOptimizerScope() { ++t_scopes; }

void LeaveOptimizerScope(uint32_t source) {
  if (t_scopes == 0 || --t_scopes > 0) return;
  if (t_ended.has_value()) {
    NoteStepEnd(*t_ended, kStepName);
    t_ended.reset();
  } else if (ScopesAreSteps()) {
    g_scope_source.store(source, std::memory_order_relaxed);
    NoteStepEnd(source, kStepName);
  }
}

void ForgetScopes() { ForgetStepBegin(g_scope_source.load(std::memory_order_relaxed)); }

}  // namespace jobscope::framework::torch
