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

#include "absl/container/flat_hash_map.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/stacks/trace_api.h"

namespace jobscope::python {

// Ids are given to one thread at a time; names are read by any thread, of ids that it was given.
class CodeTable {
 public:
  // A program that makes functions up all the time has no more names than this.
  static constexpr uint32_t kMaxCodes = 65536;
  // Longer names are cut.
  static constexpr size_t kMaxNameBytes = 256;
  static constexpr uint32_t kUnknown = 0;     // beyond that: "(further functions)"
  static constexpr uint32_t kMoreFrames = 1;  // stands for outer frames that were not looked at

  // With the GIL.
  CodeTable(const Api& api, const TraceApi& trace);
  CodeTable(const CodeTable&) = delete;
  CodeTable& operator=(const CodeTable&) = delete;

  // With the GIL: the function's number. About 10 ns when it is known.
  uint32_t IdOf(Object* code);
  // The number of a function in the file `path`. Without the GIL; by one thread of a session, which
  // does not ask with the GIL meanwhile.
  uint32_t IdOf(std::string_view path, int64_t line, std::string_view function);

  // "$file.py:12 Class.function", as the tracers of JAX and TensorFlow spell it.
  const std::string& Name(uint32_t id) const { return At(id).name; }
  // A script of ours, which is not part of the program.
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
  intptr_t index_;  // of our word in code objects; negative: they have none for us
  uint64_t epoch_;  // tells our words from those of earlier sessions
  std::array<std::unique_ptr<Chunk>, kMaxCodes / kChunk> chunks_;
  std::atomic<uint32_t> size_{0};
  absl::flat_hash_map<std::string, uint32_t> by_name_;
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_CODE_TABLE_H_
