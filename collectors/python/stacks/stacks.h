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

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/stacks/code_table.h"
#include "collectors/python/stacks/raw_stacks.h"
#include "collectors/python/stacks/trace_api.h"

namespace jobscope::python {

struct StackFrame {
  uint32_t code = 0;               // in the CodeTable
  const Object* object = nullptr;  // the code object, to be compared only; only with the GIL
};

struct ThreadStack {
  uint64_t ident = 0;   // Python's, of a living thread: pthread_t
  uint64_t unique = 0;  // without the GIL: tells it from an earlier thread of this ident
  int64_t tid = 0;      // OS thread id; 0 until Name has found it
  std::string name;
  std::vector<StackFrame> frames;  // outermost first
  bool cut = false;                // there are more, further out
};

struct StackRound {
  std::vector<ThreadStack> stacks;
  std::vector<uint64_t> idents;  // of all threads that run Python code, also those not looked at
  bool whole = true;             // false: the next round goes on with the threads left out
  bool refused = false;          // nothing was looked at: there are sub-interpreters
  bool unnamed = false;          // there are threads for Name
};

// All functions with the GIL held, except ReadWithoutGil. Keeps two references, of a builtin
// function and of threading's table of threads; no frame. Not thread-safe.
class StackReader {
 public:
  // Of one thread, from the inside: a recursion deeper than that shows its inner part.
  static constexpr size_t kMaxFrames = 512;

  StackReader(const Api& api, const TraceApi& trace, CodeTable* codes);
  StackReader(const StackReader&) = delete;
  StackReader& operator=(const StackReader&) = delete;

  // Finds what it needs, and whether stacks read without the GIL are what Python itself says. Holds
  // the GIL for less than a millisecond.
  absl::Status Open();
  // After Open.
  bool reads_without_gil() const { return reads_without_gil_; }

  // Without the GIL. Looks at threads until `budget` is used up; the next call goes on with the
  // others.
  StackRound ReadWithoutGil(absl::Duration budget);
  // Finds the names and the ids of threads that ReadWithoutGil has met for the first time. What
  // `budget` does not suffice for is taken out of the round: the next one meets it again.
  void Name(absl::Duration budget, StackRound* round);

  // Looks at threads until `budget` is used up; the next call goes on with the others. From 3.12 on
  // nothing is looked at while there are sub-interpreters: they run without the GIL, and Python
  // would make frame objects of their stacks while these change, which ends the process.
  StackRound Read(absl::Duration budget);
  // Gives the references back.
  void Close();

 private:
  // A thread as it was met last.
  struct Known {
    const Object* thread = nullptr;  // of threading, to be compared only
    uint64_t unique = 0;             // of RawStacks
    int64_t tid = 0;
    std::string name;
  };
  ThreadStack ReadStack(uint64_t ident, Object* key, Object* frame);
  Known& Identify(uint64_t ident, Object* key);
  bool CheckRaw();

  const Api& api_;
  const TraceApi& trace_;
  CodeTable* const codes_;
  std::unique_ptr<RawStacks> raw_;
  bool reads_without_gil_ = false;
  std::vector<RawStacks::Thread> threads_;
  Object* current_frames_ = nullptr;  // sys._current_frames
  Object* active_ = nullptr;          // threading._active; nullptr: threading is not imported
  absl::flat_hash_map<uint64_t, Known> known_;
  absl::flat_hash_set<uint64_t> looked_at_;  // in rounds since the last whole one
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_STACKS_H_
