// SPDX-License-Identifier: Apache-2.0
//
// Acquires the GIL, except while Python shuts down.
//
// A thread that requests the GIL while the interpreter shuts down never gets it: up to 3.13 Python
// ends it by pthread_exit, later versions let it hang. Both may happen wherever Python code runs,
// because running code releases and reacquires the GIL. So on a stack with WithGil, no lock of ours
// may be held and every `catch (...)` rethrows; destructors that unwinding runs must not use Python
// (Ref).
// This is why the GIL is released by a statement and not by a destructor.
#ifndef COLLECTORS_PYTHON_BRIDGE_GIL_H_
#define COLLECTORS_PYTHON_BRIDGE_GIL_H_

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil_holds.h"

namespace jobscope::python {

// Returns OK if the GIL may be acquired. NOT_FOUND: Python is not initialised; UNAVAILABLE: it is
// shutting down, or this is a forked child, in which nothing of ours runs. Needs no GIL, does not
// block.
absl::Status CheckAlive(const Api& api);

// Forked is true in a forked child of a process that has used the bridge; ShuttingDown is true once
// Python began to shut down. One load each; every function that Python calls checks them first.
bool Forked();
bool ShuttingDown();

// Registers, once, an atexit function that notes when Python begins to shut down. atexit runs
// before threads are refused the GIL, so that none of ours is affected. Requires the GIL.
void WatchShutdown(const Api& api);

// The RESOURCE_EXHAUSTED error of WithGil.
absl::Status OutOfMemoryInPython();

// Acquires the GIL for the calling thread, which Python need not know. Before 3.13, forks of other
// threads wait while a thread is being registered with Python: Python then holds a lock other than
// the GIL, and a child that inherits it locked hangs in os.fork (observed in 3.11).
class GilState {
 public:
  // Acquires the GIL; blocks without a limit.
  explicit GilState(const Api& api);
  // False: there is no memory, and the GIL is not held.
  bool held() const { return held_; }
  void Release();

 private:
  const Api& api_;
  ThreadState* own_ = nullptr;  // created here; null: Python knew the thread
  int before_ = 0;              // if Python knew the thread
  bool held_ = true;
};

// Runs body() with the GIL; blocks for it without a limit. RESOURCE_EXHAUSTED: it did not run, or
// threw because memory ran out. LongestGilHolds reports how long the body holds the GIL.
template <typename Body>
absl::Status WithGil(const Api& api, GilUse use, Body body) {
  if (absl::Status alive = CheckAlive(api); !alive.ok()) return alive;
  GilState gil(api);
  if (!gil.held()) return OutOfMemoryInPython();
  const GilHold hold(use);
  bool whole = true;
  try {
    WatchShutdown(api);
    body();
  } catch (const std::exception&) {  // not `...`, see above
    api.Err_Clear();
    whole = false;
  }
  hold.End();
  gil.Release();
  return whole ? absl::OkStatus() : OutOfMemoryInPython();
}

// Owns a reference. Requires the GIL.
class Ref {
 public:
  Ref() = default;
  Ref(const Api& api, Object* owned) : api_(&api), object_(owned) {}
  Ref(Ref&& other) noexcept : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    // A thread ended by Python destroys this without the GIL; the object may then leak.
    if (object_ != nullptr && api_->IsFinalizing() == 0) api_->DecRef(object_);
  }

  Object* get() const { return object_; }
  Object* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  const Api* api_ = nullptr;
  Object* object_ = nullptr;
};

// Clears the current exception and returns "ValueError: text (file:line)", the line being the
// innermost one in `file`; without the place if the exception did not pass there. Requires the GIL.
std::string TakeException(const Api& api, std::string_view file);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_GIL_H_
