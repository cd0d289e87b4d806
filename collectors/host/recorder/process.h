// SPDX-License-Identifier: Apache-2.0
//
// Holds the recorder's state per process: the enable mask with its holders, the choice of clock,
// and the detection of a forked child.
#ifndef COLLECTORS_HOST_RECORDER_PROCESS_H_
#define COLLECTORS_HOST_RECORDER_PROCESS_H_

#include <errno.h>
#include <stdint.h>

#include <atomic>

#include "jobscope/detail/ticks.h"

namespace jobscope::recorder {

// Process state in a page of its own, which the kernel wipes in every child, whether of fork or
// clone. So a child reads mask 0 and alive 0, at no cost to the recording path.
struct ProcessPage {
  std::atomic<uint32_t> mask;
  std::atomic<uint32_t> alive;
};

// Set by Init(), constant afterwards. Points at a static page of zeros before, and also later if
// the page could not be mapped.
extern ProcessPage* g_page;
extern bool g_uses_tsc;

// Initialises the recorder. Idempotent; called by the library's constructor and by earlier users.
void Init();

// Implemented by writer.cc and reader.cc: fill in the process's facts in the tables. Called once,
// from Init().
void BindWriterTable();
void BindReaderTable();

// Returns false in a forked child: it must not record, count or read anything.
inline bool Alive() { return g_page->alive.load(std::memory_order_relaxed) != 0; }

// Restores errno: a scope may end between a program's call and its check of errno.
class KeepErrno {
 public:
  KeepErrno() : errno_(errno) {}
  ~KeepErrno() { errno = errno_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int errno_;
};

inline uint64_t Ticks() { return jobscope::detail::ReadTicks(g_uses_tsc); }

// Sets the bits that a holder wants (`jobscope_mask_holder`); the mask becomes the OR of all
// holders.
void SetHolder(uint32_t holder, uint32_t bits);
// Add and remove bits of a holder. Any thread, also concurrently with SetHolder of another holder.
void AddToHolder(uint32_t holder, uint32_t bits);
void TakeFromHolder(uint32_t holder, uint32_t bits);
uint32_t Mask();

// Returns after each thread of the process has passed a memory barrier. With several threads the
// first call takes milliseconds (0.4 s on a busy machine), later calls microseconds; calls
// concurrent with the first take 1 ms.
void Quiesce();

// Maps `bytes` of zeros that are wiped in a forked child. Returns nullptr if there is no memory.
void* MapWiped(uint64_t bytes);
// Pages in memory from MapWiped, so that no recording thread pays for the faults.
void Populate(void* address, uint64_t bytes);

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_PROCESS_H_
