// SPDX-License-Identifier: Apache-2.0
//
// Reads the stacks of all Python threads without the GIL, while they change.
//
// A sampler that requests the GIL gets it when the program releases it, and so finds threads where
// they wait rather than where they compute. Reading from outside depends on no thread: every
// pointer is followed by a copy that fails if the memory is gone, the data are checked, and
// inconsistent data are read again.
#ifndef COLLECTORS_PYTHON_STACKS_RAW_STACKS_H_
#define COLLECTORS_PYTHON_STACKS_RAW_STACKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "collectors/python/bridge/api.h"
#include "collectors/python/stacks/code_table.h"
#include "collectors/python/stacks/layout.h"
#include "collectors/python/stacks/trace_api.h"
#include "common/containers/hash_table.h"
#include "common/process/own_memory.h"

namespace jobscope::python {

// One thread's stack, as it was read.
struct RawStack {
  uint64_t ident = 0;           // Python's thread ident
  uint64_t unique = 0;          // distinguishes threads with the same ident
  bool cut = false;             // further outer frames exist
  std::vector<uint64_t> codes;  // addresses of code objects, innermost first
  std::vector<uint32_t> ids;    // in the CodeTable, set by Resolve
};

// Reads stacks from outside. Not thread-safe.
class RawStacks {
 public:
  // Bounds the threads that are read.
  static constexpr size_t kMaxThreads = 4096;

  RawStacks(const Api& api, const TraceApi& trace, CodeTable* codes, size_t max_frames);

  // False: the layout of this Python is unknown.
  bool known() const { return known_; }
  bool unique_is_native() const { return layout_.unique_is_native; }

  // Lists addresses of the threads' states, with ident and unique. Without the GIL. False: the list
  // could not be read.
  struct Thread {
    uint64_t address = 0;
    uint64_t ident = 0;
    uint64_t unique = 0;
  };
  bool ReadThreads(std::vector<Thread>* threads);
  // Returns the OS id of a thread; 0: it begins or has ended. Without the GIL, and without touching
  // memory that the thread may give back.
  int64_t ReadTid(const Thread& thread);
  // See OffsetOfTid. Before any ReadTid in the process.
  static void SetTidOffset(size_t offset) { tid_offset_.store(offset, std::memory_order_relaxed); }
  // Reads one stack. Without the GIL. False: several tries gave inconsistent data; the thread
  // changes too fast, or has ended.
  bool ReadStack(const Thread& thread, RawStack* stack);

 private:
  // Identifies a code object across reads; another one may be at the same address.
  using CodeKey = std::tuple<uint64_t, uint64_t, uint64_t, int32_t>;

  uint64_t TopFrame(uint64_t thread);
  // Returns whether the state is still the thread's: another thread's may take its memory, and
  // until 3.11 a new state has the ids of the thread that makes it.
  bool IsStill(const Thread& thread);
  bool ReadChain(uint64_t frame, RawStack* stack);
  bool Resolve(RawStack* stack);
  bool ReadKey(const char* code, uint64_t address, CodeKey* key) const;
  bool ReadText(uint64_t address, std::string* text);

  OwnMemory memory_;
  Layout layout_;
  bool known_ = false;
  CodeTable* const codes_;
  const size_t max_frames_;
  uint64_t interpreter_ = 0;
  uint64_t code_type_ = 0;
  uint64_t text_type_ = 0;
  size_t frame_bytes_ = 0;
  size_t code_bytes_ = 0;
  static inline std::atomic<size_t> tid_offset_{0};
  HashMap<CodeKey, uint32_t> ids_;
  HashMap<uint64_t, uint64_t> outermost_;  // by unique: outermost code object when last seen
  std::vector<char> buffer_;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_RAW_STACKS_H_
