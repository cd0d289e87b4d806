// SPDX-License-Identifier: Apache-2.0
//
// Acquires the GIL, except while Python shuts down.
//
// A thread that requests the GIL while the interpreter shuts down never gets it: up to 3.13 Python
// ends it by pthread_exit, later versions let it hang. Both may happen wherever Python code runs,
// because running code releases and reacquires the GIL. So on a stack with WithGil, no lock of ours
// may be held and no exception swallowed; destructors that unwinding runs must not use Python
// (Ref). This is why the GIL is released by a statement and not by a destructor.
#ifndef COLLECTORS_PYTHON_BRIDGE_GIL_H_
#define COLLECTORS_PYTHON_BRIDGE_GIL_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil_holds.h"

namespace jobscope::python {

// OK: the GIL may be asked for. NOT_FOUND: Python is not initialised; UNAVAILABLE: it is shutting
// down, or this is a forked child, in which nothing of ours runs. No GIL, does not block.
absl::Status CheckAlive(const Api& api);

// False in a forked child of a process that has used the bridge, and once Python began to leave.
// One load each; what Python calls asks it first.
bool Forked();
bool Leaving();

// With the GIL: has Python tell us, once, when it begins to shut down. atexit runs before threads
// are refused the GIL, so that none of ours is in its way then.
void WatchLeaving(const Api& api);

// Takes the GIL for the calling thread, which need not be known to Python. While a thread is made
// known, no other one forks: Python then has a lock of its own that is not the GIL, and a child
// that finds it locked hangs in os.fork (seen in 3.11).
class GilState {
 public:
  // Waits for the GIL without a limit.
  explicit GilState(const Api& api);
  // False: there is no memory, and no GIL.
  bool held() const { return held_; }
  void Release();

 private:
  const Api& api_;
  ThreadState* own_ = nullptr;  // made here; null: the thread was known
  int before_ = 0;              // where it was known
  bool held_ = true;
};

// body() with the GIL held; waits for it without a limit. Nothing of the body may throw. How long
// the body holds it is told by LongestGilHolds.
template <typename Body>
absl::Status WithGil(const Api& api, GilUse use, Body body) {
  if (absl::Status alive = CheckAlive(api); !alive.ok()) return alive;
  GilState gil(api);
  if (!gil.held()) return absl::ResourceExhaustedError("Python has no memory for a thread");
  const GilHold hold(use);
  WatchLeaving(api);
  body();
  hold.End();
  gil.Release();
  return absl::OkStatus();
}

// A reference that is held while the GIL is.
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
    // A thread that Python ends comes by here without the GIL; then nobody will miss the object.
    if (object_ != nullptr && api_->IsFinalizing() == 0) api_->DecRef(object_);
  }

  Object* get() const { return object_; }
  Object* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  const Api* api_ = nullptr;
  Object* object_ = nullptr;
};

// With the GIL: takes the exception that is set, and says "ValueError: text (file:line)", the line
// being the innermost one in `file`; without the place if the exception did not pass there.
std::string TakeException(const Api& api, std::string_view file);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_BRIDGE_GIL_H_
