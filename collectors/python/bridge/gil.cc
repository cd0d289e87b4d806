// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/bridge/gil.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/values.h"
#include "common/process/fork_pause.h"

namespace jobscope::python {
namespace {

std::atomic<bool> shutting_down{false};

// os.fork of 3.13 and later (gh-116522) holds the lock of ThreadState_New around fork(), so a child
// never inherits it locked. A ForkPause would then take the two locks in the opposite order to
// os.fork: the fork, with the GIL, would wait for the pause until that expires.
constexpr int kFirstMinorThatForksWithTheLock = 13;

// Returns a word that is 1 in this process and 0 in every child, however it is forked: the kernel
// wipes its page there. Without support for this (kernels before 4.14), it is 1 in children, too.
const std::atomic<uint32_t>* MakeAlive() {
  static std::atomic<uint32_t> fallback{1};
  const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const page =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return &fallback;
  if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, bytes);
    return &fallback;
  }
  auto* const word = new (page) std::atomic<uint32_t>(1);
  return word;
}

const std::atomic<uint32_t>& Alive() {
  static const std::atomic<uint32_t>* const alive = MakeAlive();
  return *alive;
}

// Requires the GIL.
Object* OnExit(Object* self, Object*) {
  shutting_down.store(true, std::memory_order_relaxed);
  const absl::StatusOr<const Api*> api = FindApi();
  if (api.ok()) (*api)->IncRef(self);
  return self;  // self is None
}

MethodDefinition on_exit_method = {"jobscope_on_exit", &OnExit, kMethodVarargs, nullptr};

// Returns "file.py:12" for the innermost frame of `file` in the traceback; empty if there is none.
std::string PlaceIn(const Api& api, Object* traceback, std::string_view file) {
  std::string place;
  if (traceback == nullptr) return place;
  api.IncRef(traceback);
  Ref entry(api, traceback);
  while (entry && entry.get() != api.none) {
    const Ref frame(api, api.Object_GetAttrString(entry.get(), "tb_frame"));
    const Ref code(api, frame ? api.Object_GetAttrString(frame.get(), "f_code") : nullptr);
    const Ref name(api, code ? api.Object_GetAttrString(code.get(), "co_filename") : nullptr);
    const Ref line(api, api.Object_GetAttrString(entry.get(), "tb_lineno"));
    if (name && line && TextOf(api, name.get()) == file) {
      place = absl::StrCat(std::string(file), ":", api.Long_AsLongLong(line.get()));
    }
    entry = Ref(api, api.Object_GetAttrString(entry.get(), "tb_next"));
  }
  api.Err_Clear();
  return place;
}

}  // namespace

bool Forked() { return Alive().load(std::memory_order_relaxed) == 0; }

bool ShuttingDown() { return shutting_down.load(std::memory_order_relaxed); }

absl::Status CheckAlive(const Api& api) {
  if (Forked()) {
    return absl::UnavailableError("this is a forked child of a process that was traced");
  }
  if (ShuttingDown()) return absl::UnavailableError("Python is shutting down");
  if (api.IsInitialized() == 0) return absl::NotFoundError("Python is not initialised yet");
  if (api.IsFinalizing() != 0) return absl::UnavailableError("Python is shutting down");
  return absl::OkStatus();
}

absl::Status OutOfMemoryInPython() {
  static const auto* const error =
      new absl::Status(absl::ResourceExhaustedError("the process has no memory left for Python"));
  return *error;
}

void WatchShutdown(const Api& api) {
  static bool watched = false;  // guarded by the GIL
  if (watched) return;
  watched = true;
  const Ref atexit(api, api.Import_ImportModule("atexit"));
  const Ref add(api, atexit ? api.Object_GetAttrString(atexit.get(), "register") : nullptr);
  Object* const function = api.CFunction_NewEx(&on_exit_method, api.none, nullptr);
  const Ref arguments(api, api.Tuple_New(1));
  if (add && arguments && function != nullptr) {
    api.Tuple_SetItem(arguments.get(), 0, function);
    const Ref result(api, api.Object_CallObject(add.get(), arguments.get()));
  }
  api.Err_Clear();
}

GilState::GilState(const Api& api) : api_(api) {
  if (api.GILState_GetThisThreadState() != nullptr) {
    before_ = api.GILState_Ensure();
    return;
  }
  const auto make = [this] { own_ = api_.ThreadState_New(api_.InterpreterState_Main()); };
  if (api_.minor >= kFirstMinorThatForksWithTheLock) {
    make();
  } else {
    WhileNobodyForks(make);
  }
  held_ = own_ != nullptr;
  if (held_) api.Eval_RestoreThread(own_);
}

void GilState::Release() {
  if (own_ == nullptr) return api_.GILState_Release(before_);
  api_.ThreadState_Clear(own_);
  api_.ThreadState_DeleteCurrent();
}

std::string TakeException(const Api& api, std::string_view file) {
  Object* type = nullptr;
  Object* value = nullptr;
  Object* traceback = nullptr;
  api.Err_Fetch(&type, &value, &traceback);
  api.Err_NormalizeException(&type, &value, &traceback);
  const Ref owned_type(api, type), owned_value(api, value), owned_traceback(api, traceback);
  if (type == nullptr) return "an unknown exception";
  const Ref name(api, api.Object_GetAttrString(type, "__name__"));
  std::string text = name ? TextOf(api, name.get()) : "Exception";
  const Ref message(api, value == nullptr ? nullptr : api.Object_Str(value));
  if (message) {
    if (const std::string detail = TextOf(api, message.get()); !detail.empty()) {
      absl::StrAppend(&text, ": ", detail);
    }
  }
  api.Err_Clear();
  if (const std::string place = PlaceIn(api, traceback, file); !place.empty()) {
    absl::StrAppend(&text, " (", place, ")");
  }
  return text;
}

}  // namespace jobscope::python
