// SPDX-License-Identifier: Apache-2.0
//
// Reads the stacks of all Python threads: from outside while they change (raw_stacks.h), or, in
// versions where that is not known to be correct, with the GIL held for at most about a
// millisecond.
#ifndef COLLECTORS_PYTHON_STACKS_STACKS_H_
#define COLLECTORS_PYTHON_STACKS_STACKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/stacks/code_table.h"
#include "collectors/python/stacks/raw_stacks.h"
#include "collectors/python/stacks/trace_api.h"
#include "common/containers/hash_table.h"

namespace jobscope::python {

struct StackFrame {
  uint32_t code = 0;               // in the CodeTable
  const Object* object = nullptr;  // the code object, only for comparison; only with the GIL
};

struct ThreadStack {
  uint64_t ident = 0;              // Python's ident of a living thread: its pthread_t
  uint64_t unique = 0;             // without the GIL: distinguishes threads with the same ident
  int64_t tid = 0;                 // OS thread id
  std::string name;                // empty until Name has determined it
  std::vector<StackFrame> frames;  // outermost first
  bool cut = false;                // further outer frames exist
};

struct StackRound {
  std::vector<ThreadStack> stacks;
  std::vector<uint64_t> idents;  // of all threads that run Python code, including those not read
  bool whole = true;             // false: the next round continues with the remaining threads
  size_t unread = 0;             // with the GIL: how many those are
  bool refused = false;          // nothing was read, because of sub-interpreters
  bool unnamed = false;          // some threads need Name
};

// Reads the stacks of all Python threads. All functions require the GIL, except ReadWithoutGil.
// Keeps two references, to a builtin function and to threading's table of threads; none to frames.
// Not thread-safe.
class StackReader {
 public:
  // Maximum number of frames per thread, innermost first: a deeper recursion shows its inner part.
  static constexpr size_t kMaxFrames = 512;

  StackReader(const Api& api, const TraceApi& trace, CodeTable* codes);
  StackReader(const StackReader&) = delete;
  StackReader& operator=(const StackReader&) = delete;

  // Finds what it needs, and checks that stacks read without the GIL match Python's own. Holds the
  // GIL for less than a millisecond.
  absl::Status Open();
  // Valid after Open.
  bool reads_without_gil() const { return reads_without_gil_; }

  // Reads threads until `budget` is used up; the next call continues with the others. Without the
  // GIL.
  StackRound ReadWithoutGil(absl::Duration budget);
  // Finds the names and ids of threads that ReadWithoutGil met for the first time. Threads beyond
  // `budget` are removed from the round: the next one meets them again.
  void Name(absl::Duration budget, StackRound* round);

  // Reads threads until `budget` is used up; the next call continues with the others. From 3.12 on
  // nothing is read while there are sub-interpreters: they run without this GIL, and Python would
  // create frame objects of their stacks while these change, which crashes the process.
  StackRound Read(absl::Duration budget);
  // Lists the threads that run Python code, without their stacks; `refused` as above.
  StackRound List();
  // Releases the references.
  void Close();

 private:
  // A thread as it was last seen.
  struct Known {
    const Object* thread = nullptr;  // threading's object, only for comparison
    uint64_t unique = 0;             // of RawStacks
    int64_t tid = 0;
    std::string name;
  };
  ThreadStack ReadStack(uint64_t ident, Object* key, Object* frame);
  Known& Identify(uint64_t ident, Object* key);
  // Returns sys._current_frames(); empty if that fails.
  Ref CurrentFrames();
  bool CheckRaw();

  const Api& api_;
  const TraceApi& trace_;
  CodeTable* const codes_;
  std::unique_ptr<RawStacks> raw_;
  bool reads_without_gil_ = false;
  std::vector<RawStacks::Thread> threads_;
  Object* current_frames_ = nullptr;  // sys._current_frames
  Object* active_ = nullptr;          // threading._active; nullptr: threading is not imported
  HashMap<uint64_t, Known> known_;
  HashSet<uint64_t> looked_at_;  // by rounds since the last complete one
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_STACKS_H_
