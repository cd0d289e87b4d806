// SPDX-License-Identifier: Apache-2.0
//
// What the recorder has once per process: the enable mask with its holders, the clock choice, and
// the knowledge of being a forked child.
#ifndef COLLECTORS_HOST_RECORDER_PROCESS_H_
#define COLLECTORS_HOST_RECORDER_PROCESS_H_

#include <errno.h>
#include <stdint.h>

#include <atomic>

#include "jobscope/detail/ticks.h"

namespace jobscope::recorder {

// Alone in a page of its own, which the kernel wipes in every child: fork, clone, whatever library
// called it. So a child reads mask 0 and alive 0, at no cost to the recording path.
struct ProcessPage {
  std::atomic<uint32_t> mask;
  std::atomic<uint32_t> alive;
};

// Set up once by Init(), constant afterwards. Points at a static page of zeros before that, and for
// ever when the page could not be mapped.
extern ProcessPage* g_page;
extern bool g_uses_tsc;

// Idempotent; called by the library's constructor, and by whoever comes earlier.
void Init();

// Implemented by writer.cc and reader.cc: fill in what the tables say about the process. Called
// once, from Init().
void BindWriterTable();
void BindReaderTable();

// False in a forked child: nothing is to be recorded, counted or read there.
inline bool Alive() { return g_page->alive.load(std::memory_order_relaxed) != 0; }

// A scope may stand between a call of the program's and its look at errno.
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

// Sets the bits a holder wants (`jobscope_mask_holder`); the mask becomes the OR of the holders.
void SetHolder(uint32_t holder, uint32_t bits);
// Adds to, and takes from, what a holder wants. Any thread, also concurrently with SetHolder of
// another holder.
void AddToHolder(uint32_t holder, uint32_t bits);
void TakeFromHolder(uint32_t holder, uint32_t bits);
uint32_t Mask();

// Returns after each thread of the process has passed a memory barrier. The first call takes
// milliseconds where there are threads (seen on a busy machine: 0.4 s), others microseconds; beside
// the first, 1 ms.
void Quiesce();

// Maps `bytes` of zeros that a forked child will find wiped. nullptr if there is no memory.
void* MapWiped(uint64_t bytes);
// Pages in what MapWiped returned, so that no recording thread pays for the faults.
void Populate(void* address, uint64_t bytes);

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_PROCESS_H_
