// SPDX-License-Identifier: Apache-2.0
//
// Numbers the functions of one session: copies names, keeps no code object alive.
#ifndef COLLECTORS_PYTHON_STACKS_CODE_TABLE_H_
#define COLLECTORS_PYTHON_STACKS_CODE_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "collectors/python/bridge/api.h"
#include "collectors/python/stacks/trace_api.h"
#include "common/containers/hash_table.h"

namespace jobscope::python {

// Assigns ids to functions and stores their names. One thread at a time assigns ids; any thread may
// read the names of ids that it was given.
class CodeTable {
 public:
  // Bounds the names of a program that keeps creating functions.
  static constexpr uint32_t kMaxCodes = 65536;
  // Longer names are cut.
  static constexpr size_t kMaxNameBytes = 256;
  static constexpr uint32_t kUnknown = 0;     // for further functions: "(further functions)"
  static constexpr uint32_t kMoreFrames = 1;  // stands for outer frames that were not read

  // Requires the GIL.
  CodeTable(const Api& api, const TraceApi& trace);
  CodeTable(const CodeTable&) = delete;
  CodeTable& operator=(const CodeTable&) = delete;

  // Returns the function's id. Requires the GIL. About 10 ns for a known one.
  uint32_t IdOf(Object* code);
  // Returns the id of a function in the file `path`. Without the GIL; only on one thread of a
  // session, and not concurrently with the version above.
  uint32_t IdOf(std::string_view path, int64_t line, std::string_view function);

  // Returns "$file.py:12 Class.function", the format of JAX's and TensorFlow's tracers.
  const std::string& Name(uint32_t id) const { return At(id).name; }
  // Returns whether it is one of our scripts, which are not part of the program.
  bool IsOurs(uint32_t id) const { return At(id).ours; }
  uint32_t size() const { return size_.load(std::memory_order_acquire); }

 private:
  struct Entry {
    std::string name;
    bool ours = false;
  };
  static constexpr uint32_t kChunk = 256;
  using Chunk = std::array<Entry, kChunk>;

  const Entry& At(uint32_t id) const { return (*chunks_[id / kChunk])[id % kChunk]; }
  uint32_t Add(std::string name, bool ours);
  uint32_t AddCode(Object* code);

  const Api& api_;
  const TraceApi& trace_;
  intptr_t index_;  // of our word in code objects; negative: unavailable
  uint64_t epoch_;  // distinguishes our words from those of earlier sessions
  std::array<std::unique_ptr<Chunk>, kMaxCodes / kChunk> chunks_;
  std::atomic<uint32_t> size_{0};
  HashMap<std::string, uint32_t> by_name_;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_CODE_TABLE_H_
