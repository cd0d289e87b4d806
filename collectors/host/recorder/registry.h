// SPDX-License-Identifier: Apache-2.0
//
// Manages the states of all threads: maps them within the cap, assigns them to threads, takes them
// back. Lock-free: a thread takes a state from a free list by compare-and-swap and returns it the
// same way. States are never unmapped, so a reader may access any of them at any time.
#ifndef COLLECTORS_HOST_RECORDER_REGISTRY_H_
#define COLLECTORS_HOST_RECORDER_REGISTRY_H_

#include <stddef.h>
#include <stdint.h>

#include "collectors/host/recorder/thread_state.h"

namespace jobscope::recorder {

// Maximum number of states in the table, of which at most 1,024 are bare (4 KiB each, not counted
// in the cap). Further threads are counted, not listed.
inline constexpr uint32_t kMaxStates = 16384;
inline constexpr uint32_t kMaxBareStates = 1024;

struct Counters {
  std::atomic<uint64_t> no_ring{0};          // attempts by threads on the shared dead state
  std::atomic<uint64_t> reentered{0};        // attempts on the shared attaching state
  std::atomic<uint64_t> dictionary_full{0};  // names refused
};
extern Counters g_counters;

// The calling thread's state; nullptr before its first record. Initial-exec: one load from the
// thread pointer, also in a dlopen'ed library (uses 16 bytes of libc's static TLS surplus).
struct ThreadSlot {
  ThreadState* state;
  uint32_t pending_name;  // index + 1 of a name given before the first record
  uint32_t slow_calls;    // running calls of a thread without a ring: its own, and signal handlers'
};
extern __thread ThreadSlot t_slot __attribute__((tls_model("initial-exec")));

// Registers the thread-exit hook. Called once, from Init().
void InitThreadExit();

// Assigns a state to the calling thread at its first record. Never nullptr: a shared state if no
// other is available.
ThreadState* Attach();

// Gets a ring for the calling thread, which has the state `old`, if that has none and holds no open
// scopes; rings become free when threads end. Returns the thread's new state, or `old`. Must not be
// called in the middle of a record that uses `old`.
ThreadState* TakeRing(ThreadState* old);

void SetThreadName(const char* name);

int Configure(uint32_t ring_records, uint64_t cap_bytes);
uint32_t RingRecords();
uint32_t Prefault(uint32_t count);
void HoldEnded(bool hold);
void Release(uint64_t serial);

// Returns the number of mapped states: indices are below this.
uint32_t StateCount();
ThreadState* StateAt(uint32_t index);
// Returns the state that the thread `serial` has, or had if no other thread has taken it. nullptr
// if there is none.
ThreadState* FindState(uint64_t serial);

uint64_t RingCount();
uint64_t RingBytes();

// Copies the thread's name, terminated. Refreshes the OS name of a living thread at most once per
// second.
void ReadName(ThreadState* state, bool live, char* name, size_t size);

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_REGISTRY_H_
