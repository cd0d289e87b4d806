// SPDX-License-Identifier: Apache-2.0
//
// Defines what one thread records into: a header page followed by the ring. Private to the
// recorder.
//
// One writer (the thread), any number of readers, no lock. A ring's words are relaxed atomics; the
// writer publishes a whole event, main record and continuations, with one release store of
// `head_record`. The reader copies, then loads the head again and discards what may have been
// overwritten meanwhile (docs/design/recorder.md).
#ifndef COLLECTORS_HOST_RECORDER_THREAD_STATE_H_
#define COLLECTORS_HOST_RECORDER_THREAD_STATE_H_

#include <stdint.h>

#include <atomic>

#include "collectors/host/recorder/reader_abi.h"

namespace jobscope::recorder {

// What a thread's state can do. 0 is what a forked child finds: its copy is wiped.
enum Mode : uint32_t {
  kWiped = 0,
  kRing = 1,       // records
  kBare = 2,       // the cap is exhausted: keeps open scopes, counts attempts
  kDead = 3,       // shared by threads that have returned their state or got none; counts attempts
  kAttaching = 4,  // shared: a record made while a state is being assigned (an instrumented
                   // allocator)
  kCrossed = 5,    // kRing, and a scope on the stack has ended on another thread
};
// Returns whether a state of this mode belongs to one thread.
inline constexpr bool IsOwned(uint32_t mode) {
  return mode == kRing || mode == kBare || mode == kCrossed;
}

// Ownership of a state.
enum Status : uint32_t {
  kNew = 0,   // mapped, never owned
  kLive = 1,  // owned by a thread
  kHeld = 2,  // its thread has ended; a reader holds it
  kFree = 3,  // its thread has ended; any thread may take it
};

// A record in the ring has the words begin, end and arg as in the ABI, and this packed word:
//   bits 0-19 site (or length of a string), 20-23 kind, 24-31 depth, 32-34 argument type,
//   35-40 number of continuations, 41 cut, 42-63 the low bits of the event's ordinal.
// The ordinal in each record gives exact loss counts in one read, without a scan or a pair of
// counters that must be read together.
inline constexpr uint32_t kSiteBits = 20;
inline constexpr uint32_t kSiteMask = (1u << kSiteBits) - 1;
inline constexpr uint32_t kOrdinalShift = 42;
inline constexpr uint64_t kOrdinalMask = (uint64_t{1} << 22) - 1;

inline constexpr uint64_t PackWord(uint32_t site, uint32_t kind, uint32_t depth, uint32_t type,
                                   uint32_t continuations, uint32_t cut, uint64_t ordinal) {
  return (site & kSiteMask) | uint64_t{kind & 0xf} << 20 | uint64_t{depth & 0xff} << 24 |
         uint64_t{type & 0x7} << 32 | uint64_t{continuations & 0x3f} << 35 |
         uint64_t{cut & 1} << 41 | ordinal << kOrdinalShift;
}
inline constexpr uint32_t WordSite(uint64_t word) { return word & kSiteMask; }
inline constexpr uint32_t WordKind(uint64_t word) { return (word >> 20) & 0xf; }
inline constexpr uint32_t WordDepth(uint64_t word) { return (word >> 24) & 0xff; }
inline constexpr uint32_t WordType(uint64_t word) { return (word >> 32) & 0x7; }
inline constexpr uint32_t WordContinuations(uint64_t word) { return (word >> 35) & 0x3f; }
inline constexpr uint32_t WordCut(uint64_t word) { return (word >> 41) & 1; }
inline constexpr uint64_t WordOrdinal(uint64_t word) { return word >> kOrdinalShift; }

// Four words in memory order: begin, end, packed word, arg, as in jobscope_record.
struct Slot {
  std::atomic<uint64_t> word[4];
};
static_assert(sizeof(Slot) == sizeof(jobscope_record));

struct OpenScope {
  std::atomic<uint64_t> site;         // bit 32: a step
  std::atomic<uint64_t> begin_ticks;  // 0: has ended on another thread, which wrote this
  std::atomic<int64_t> step_number;
};
inline constexpr uint64_t kOpenIsStep = uint64_t{1} << 32;
inline constexpr uint32_t kMaxOpenScopes = 64;
inline constexpr uint32_t kMaxDepth = 0xffff;

inline constexpr uint32_t kNameWords = 8;    // 64 bytes, terminated
inline constexpr uint32_t kOsNameWords = 2;  // 16 bytes, terminated; the kernel's limit

// The largest ring has 2^22 records, as many as the ordinals' 22 bits distinguish: an ordinal in
// the readable part of a ring is unambiguous.
inline constexpr uint32_t kMinRingRecords = 1u << 10;
inline constexpr uint32_t kMaxRingRecords = 1u << 22;

// Resources that the OS has given a thread so far.
struct ThreadUsage {
  uint64_t place = 0;  // of the state's owner at that time; 0: not read
  uint32_t epoch = 0;
  // Time of the reading: the begin of a step, or just before its end.
  uint64_t ticks = 0;
  uint64_t cpu_ns = 0;
  uint64_t run_delay_ns = 0;
  uint64_t switches = 0;  // voluntary and involuntary
  uint64_t involuntary_switches = 0;
  bool has_run_delay = false;
};

struct ThreadState {
  constexpr explicit ThreadState(Mode fixed_mode) : mode(fixed_mode) {}

  // Written by the owning thread; `mode` also by one that sets kCrossed. `stack` = changes << 16 |
  // depth: each push and pop changes it, so that a sample taken between two equal values is
  // consistent.
  alignas(64) std::atomic<uint32_t> mode;
  std::atomic<uint32_t> busy{0};
  std::atomic<uint64_t> head_record{0};
  std::atomic<uint64_t> head_event{0};
  std::atomic<uint64_t> stack{0};
  uint64_t record_mask = 0;  // capacity - 1, 0: no ring; fixed when mapped
  uint64_t place = 0;        // serial << 16, for tokens
  uint64_t ids = 0;          // number of async and flow ids assigned
  ThreadUsage usage;         // at the last end of a step; used only by the thread

  // Changes with the owner. `serial` is 0 while the rest is being rewritten.
  alignas(64) std::atomic<uint64_t> serial{0};
  std::atomic<uint64_t> first_record{0};
  std::atomic<uint64_t> first_event{0};
  std::atomic<uint64_t> first_reentered{0};
  std::atomic<int32_t> tid{0};
  std::atomic<uint32_t> status{kNew};
  std::atomic<uint64_t> reentered{0};  // never reset
  std::atomic<uint64_t> no_ring{0};    // never reset
  std::atomic<uint32_t> next_free{0};
  uint32_t index = 0;       // in the table of states; fixed when mapped
  uint32_t size_class = 0;  // log2 of the capacity, 0 for bare; fixed when mapped

  // The name set by SetThreadName, written by the thread; the version is odd during the write, 0
  // while there is none. The OS name, written by the reader that advances os_name_checked_ns.
  alignas(64) std::atomic<uint32_t> name_version{0};
  std::atomic<uint64_t> name[kNameWords] = {};
  std::atomic<uint64_t> os_name_checked_ns{0};
  std::atomic<uint64_t> os_name[kOsNameWords] = {};

  OpenScope open[kMaxOpenScopes] = {};
};

inline constexpr uint64_t kHeaderBytes = 4096;
static_assert(sizeof(ThreadState) <= kHeaderBytes);

// Returns the ring, which follows the state's page. Not a pointer in the state: a signal handler
// may fork in the middle of a record, and the child, where the page is wiped, still finishes that
// record.
inline Slot* Slots(ThreadState* state) {
  return reinterpret_cast<Slot*>(reinterpret_cast<char*>(state) + kHeaderBytes);
}
inline const Slot* Slots(const ThreadState* state) {
  return reinterpret_cast<const Slot*>(reinterpret_cast<const char*>(state) + kHeaderBytes);
}

// Records that may be in progress when the reader loads the head: they are unpublished, but their
// slots are being overwritten.
inline constexpr uint64_t kInFlight = JOBSCOPE_MAX_EVENT_RECORDS;

// Returns the first record index that the writer cannot be overwriting when its head is at `head`.
inline uint64_t OldestSafe(uint64_t head, uint64_t record_mask) {
  const uint64_t floor = record_mask + 1 - kInFlight;
  return head > floor ? head - floor : 0;
}

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_THREAD_STATE_H_
