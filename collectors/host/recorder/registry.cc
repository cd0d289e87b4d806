// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/recorder/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "collectors/host/recorder/free_list.h"
#include "collectors/host/recorder/process.h"

namespace jobscope::recorder {
namespace {

constexpr uint32_t kDefaultRingRecords = 32768;            // 1 MiB
constexpr uint64_t kDefaultCapBytes = uint64_t{64} << 20;  // 63 default rings
// Bytes of a ring that are paged in when it is mapped: 2,048 records. Most threads write fewer, and
// untouched pages take no memory; a thread that writes more takes one page fault per 128 records,
// once.
constexpr uint64_t kReadyBytes = uint64_t{64} << 10;
constexpr uint32_t kSizeClasses = 23;  // log2 of the capacity; 0: bare
constexpr uint32_t kHints = 4096;      // power of two
constexpr uint64_t kNameRefreshNs = 1000000000;
constexpr uint32_t kPendingNames = 1024;

std::atomic<uint32_t> g_ring_records{kDefaultRingRecords};
std::atomic<uint64_t> g_cap_bytes{kDefaultCapBytes};
std::atomic<uint64_t> g_ring_bytes{0};
std::atomic<uint64_t> g_ring_count{0};
std::atomic<uint32_t> g_bare_count{0};
std::atomic<uint32_t> g_state_count{0};
std::atomic<ThreadState*> g_states[kMaxStates];
std::atomic<uint32_t> g_hints[kHints];  // serial modulo kHints -> likely index + 1 of its state
std::atomic<uint64_t> g_next_serial{1};
std::atomic<uint32_t> g_hold{0};
FreeList g_free[kSizeClasses];

ThreadState g_dead(kDead);        // of threads that have returned their state
ThreadState g_unattached(kDead);  // of threads that got none
ThreadState g_attaching(kAttaching);

// A name given to a thread before its first record. The entry belongs to the thread until it
// records or ends.
struct PendingName {
  std::atomic<uint32_t> next;
  uint64_t words[kNameWords];
};
PendingName g_pending[kPendingNames];
std::atomic<uint32_t> g_pending_used{0};
FreeList g_pending_free;

pthread_key_t g_exit_key;
bool g_has_exit_key = false;

std::atomic<uint32_t>& NextState(uint32_t index) {
  return g_states[index].load(std::memory_order_acquire)->next_free;
}
std::atomic<uint32_t>& NextPending(uint32_t index) { return g_pending[index].next; }

uint32_t SizeClass(uint32_t records) { return static_cast<uint32_t>(31 - __builtin_clz(records)); }

ThreadState* PopFree(uint32_t size_class) {
  uint32_t index = 0;
  if (!g_free[size_class].Pop(&index, NextState)) return nullptr;
  return StateAt(index);
}

void PushFree(ThreadState* state) { g_free[state->size_class].Push(state->index, NextState); }

// Adds to a total unless that would pass a limit. Stores the previous total in `before` if given.
template <typename T>
bool Reserve(std::atomic<T>* total, T amount, T limit, T* before = nullptr) {
  T value = total->load(std::memory_order_relaxed);
  do {
    if (value > limit || amount > limit - value) return false;
  } while (!total->compare_exchange_weak(value, value + amount));
  if (before != nullptr) *before = value;
  return true;
}

// Maps a state, with a ring unless size_class is 0. Returns nullptr if the cap, the table or memory
// is exhausted.
ThreadState* MapState(uint32_t size_class) {
  const bool has_ring = size_class != 0;
  const uint64_t records = has_ring ? uint64_t{1} << size_class : 0;
  const uint64_t bytes = kHeaderBytes + records * sizeof(Slot);
  if (has_ring) {
    if (!Reserve(&g_ring_bytes, bytes, g_cap_bytes.load(std::memory_order_relaxed))) return nullptr;
  } else {
    if (!Reserve(&g_bare_count, 1u, kMaxBareStates)) return nullptr;
  }
  void* memory = MapWiped(bytes);
  uint32_t index = 0;
  if (memory == nullptr || !Reserve(&g_state_count, 1u, kMaxStates, &index)) {
    if (memory != nullptr) munmap(memory, bytes);
    if (has_ring) g_ring_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    if (!has_ring) g_bare_count.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  Populate(memory, bytes < kReadyBytes ? bytes : kReadyBytes);
  auto* state = new (memory) ThreadState(has_ring ? kRing : kBare);
  state->record_mask = has_ring ? records - 1 : 0;
  state->index = index;
  state->size_class = size_class;
  if (has_ring) g_ring_count.fetch_add(1, std::memory_order_relaxed);
  g_states[index].store(state);
  return state;
}

// Returns a free state with a ring, the largest first; nullptr: there is none.
ThreadState* PopFreeRing() {
  for (uint32_t size_class = kSizeClasses - 1; size_class > 0; --size_class) {
    if (g_free[size_class].count() == 0) continue;
    if (ThreadState* state = PopFree(size_class)) return state;
  }
  return nullptr;
}

// Tries the configured size first, then any free ring, then a state without a ring.
ThreadState* ObtainState() {
  const uint32_t wanted = SizeClass(RingRecords());
  if (ThreadState* state = PopFree(wanted)) return state;
  if (ThreadState* state = MapState(wanted)) return state;
  if (ThreadState* state = PopFreeRing()) return state;
  if (ThreadState* state = PopFree(0)) return state;
  return MapState(0);
}

void StoreName(ThreadState* state, const uint64_t* words) {
  const uint32_t version = state->name_version.load(std::memory_order_relaxed);
  state->name_version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (uint32_t i = 0; i < kNameWords; ++i) {
    state->name[i].store(words[i], std::memory_order_relaxed);
  }
  state->name_version.store(version + 2, std::memory_order_release);
}

void StoreOsName(ThreadState* state, const char (&name)[kOsNameWords * 8]) {
  uint64_t words[kOsNameWords];
  memcpy(words, name, sizeof(words));
  for (uint32_t i = 0; i < kOsNameWords; ++i) {
    state->os_name[i].store(words[i], std::memory_order_relaxed);
  }
}

// Assigns the state to the calling thread. The serial is 0 while the fields change: a reader that
// saw one of the new values then sees that the serial has changed.
void Own(ThreadState* state) {
  const uint64_t serial = g_next_serial.fetch_add(1, std::memory_order_relaxed);
  state->serial.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  state->first_record.store(state->head_record.load(std::memory_order_relaxed),
                            std::memory_order_relaxed);
  state->first_event.store(state->head_event.load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
  state->first_reentered.store(state->reentered.load(std::memory_order_relaxed),
                               std::memory_order_relaxed);
  state->tid.store(static_cast<int32_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
  state->status.store(kLive, std::memory_order_relaxed);
  state->name_version.store(0, std::memory_order_relaxed);
  char os_name[kOsNameWords * 8] = {};
  prctl(PR_GET_NAME, os_name);
  StoreOsName(state, os_name);
  state->os_name_checked_ns.store(jobscope::detail::MonotonicNs(), std::memory_order_relaxed);
  state->place = serial << 16;
  state->ids = 0;
  // Set if the previous owner left a record midway (longjmp, pthread_cancel).
  state->busy.store(0, std::memory_order_relaxed);
  g_hints[serial % kHints].store(state->index + 1, std::memory_order_relaxed);
  state->serial.store(serial, std::memory_order_release);
}

void DropPendingName() {
  if (t_slot.pending_name == 0) return;
  const uint32_t index = t_slot.pending_name - 1;
  t_slot.pending_name = 0;
  g_pending_free.Push(index, NextPending);
}

// Makes the calling thread record into the state.
void Adopt(ThreadState* state) {
  Own(state);
  if (t_slot.pending_name != 0) {
    StoreName(state, g_pending[t_slot.pending_name - 1].words);
    DropPendingName();
  }
  if (g_has_exit_key) pthread_setspecific(g_exit_key, state);
  t_slot.state = state;
}

// Returns a state to the free ones. A state without a ring has nothing to read, so nobody holds it.
// A thread that saw `hold` unset frees its state; otherwise the reader does, unless it has released
// its hold in between: then one of the two wins the exchange.
void Retire(ThreadState* state) {
  const uint64_t stack = state->stack.load(std::memory_order_relaxed);
  state->stack.store(((stack >> 16) + 1) << 16, std::memory_order_release);
  if (state->size_class == 0 || g_hold.load() == 0) {
    state->status.store(kFree);
    PushFree(state);
    return;
  }
  state->status.store(kHeld);
  if (g_hold.load() != 0) return;
  uint32_t held = kHeld;
  if (state->status.compare_exchange_strong(held, kFree)) PushFree(state);
}

// Runs after the thread's C++ thread-local destructors. Later records are counted as lost.
void OnThreadExit(void*) {
  ThreadState* state = t_slot.state;
  t_slot.state = &g_dead;
  if (!Alive()) return;
  DropPendingName();
  if (state == nullptr) return;
  const uint32_t mode = state->mode.load(std::memory_order_relaxed);
  if (IsOwned(mode)) Retire(state);
}

}  // namespace

Counters g_counters;
__thread ThreadSlot t_slot = {nullptr, 0, 0};

void InitThreadExit() { g_has_exit_key = pthread_key_create(&g_exit_key, &OnThreadExit) == 0; }

ThreadState* Attach() {
  const KeepErrno keep_errno;
  t_slot.state = &g_attaching;
  ThreadState* state = Alive() ? ObtainState() : nullptr;
  if (state == nullptr) {
    t_slot.state = &g_unattached;
    return &g_unattached;
  }
  Adopt(state);
  return state;
}

ThreadState* TakeRing(ThreadState* old) {
  const bool is_bare = old->mode.load(std::memory_order_relaxed) == kBare;
  if (!is_bare && old != &g_unattached) return old;
  if ((old->stack.load(std::memory_order_relaxed) & kMaxDepth) != 0) return old;
  const KeepErrno keep_errno;
  ThreadState* state = PopFreeRing();
  if (state == nullptr) return old;
  t_slot.state = &g_attaching;
  Adopt(state);
  if (!is_bare) return state;
  uint64_t words[kNameWords];
  for (uint32_t i = 0; i < kNameWords; ++i) words[i] = old->name[i].load(std::memory_order_relaxed);
  if (old->name_version.load(std::memory_order_relaxed) != 0) StoreName(state, words);
  Retire(old);
  return state;
}

void SetThreadName(const char* name) {
  if (name == nullptr || !Alive()) return;
  const KeepErrno keep_errno;
  uint64_t words[kNameWords] = {};
  memcpy(words, name, strnlen(name, sizeof(words) - 1));
  ThreadState* state = t_slot.state;
  if (state != nullptr && state != &g_unattached) {
    if (IsOwned(state->mode.load(std::memory_order_relaxed))) StoreName(state, words);
    return;
  }
  if (t_slot.pending_name == 0) {
    uint32_t index = 0;
    if (!g_pending_free.Pop(&index, NextPending)) {
      // Without space the thread keeps its OS name; no event is lost.
      if (!Reserve(&g_pending_used, 1u, kPendingNames, &index)) return;
    }
    t_slot.pending_name = index + 1;
    if (g_has_exit_key) pthread_setspecific(g_exit_key, &t_slot);
  }
  memcpy(g_pending[t_slot.pending_name - 1].words, words, sizeof(words));
}

int Configure(uint32_t ring_records, uint64_t cap_bytes) {
  if (ring_records < kMinRingRecords || ring_records > kMaxRingRecords ||
      (ring_records & (ring_records - 1)) != 0) {
    return EINVAL;
  }
  g_ring_records.store(ring_records, std::memory_order_relaxed);
  g_cap_bytes.store(cap_bytes, std::memory_order_relaxed);
  return 0;
}

uint32_t RingRecords() { return g_ring_records.load(std::memory_order_relaxed); }

uint32_t Prefault(uint32_t count) {
  if (!Alive()) return 0;
  const FreeList& list = g_free[SizeClass(RingRecords())];
  while (list.count() < count) {
    ThreadState* state = MapState(SizeClass(RingRecords()));
    if (state == nullptr) break;
    PushFree(state);
  }
  return list.count();
}

void HoldEnded(bool hold) {
  g_hold.store(hold ? 1 : 0);
  if (hold || !Alive()) return;
  const uint32_t count = StateCount();
  for (uint32_t i = 0; i < count; ++i) {
    ThreadState* state = StateAt(i);
    uint32_t held = kHeld;
    if (state != nullptr && state->status.compare_exchange_strong(held, kFree)) PushFree(state);
  }
}

void Release(uint64_t serial) {
  ThreadState* state = FindState(serial);
  if (state == nullptr) return;
  uint32_t held = kHeld;
  if (state->status.compare_exchange_strong(held, kFree)) PushFree(state);
}

// Sequentially consistent, as are g_states, g_hold and `status`: HoldEnded must see the state of
// each thread that retired while it still saw the hold.
uint32_t StateCount() { return Alive() ? g_state_count.load() : 0; }

ThreadState* StateAt(uint32_t index) { return g_states[index].load(); }

ThreadState* FindState(uint64_t serial) {
  if (serial == 0 || !Alive()) return nullptr;
  const uint32_t hint = g_hints[serial % kHints].load(std::memory_order_relaxed);
  if (hint != 0) {
    ThreadState* state = StateAt(hint - 1);
    if (state != nullptr && state->serial.load(std::memory_order_acquire) == serial) return state;
  }
  const uint32_t count = StateCount();
  for (uint32_t i = 0; i < count; ++i) {
    ThreadState* state = StateAt(i);
    if (state != nullptr && state->serial.load(std::memory_order_acquire) == serial) return state;
  }
  return nullptr;
}

uint64_t RingCount() { return g_ring_count.load(std::memory_order_relaxed); }
uint64_t RingBytes() { return g_ring_bytes.load(std::memory_order_relaxed); }

void ReadName(ThreadState* state, bool live, char* name, size_t size) {
  uint64_t words[kNameWords] = {};
  for (int tries = 0; tries < 8; ++tries) {
    const uint32_t version = state->name_version.load(std::memory_order_acquire);
    if (version == 0) break;
    for (uint32_t i = 0; i < kNameWords; ++i) {
      words[i] = state->name[i].load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if ((version & 1) == 0 && state->name_version.load(std::memory_order_relaxed) == version) break;
    memset(words, 0, sizeof(words));
  }
  if (words[0] == 0) {
    const uint64_t now = jobscope::detail::MonotonicNs();
    uint64_t checked = state->os_name_checked_ns.load(std::memory_order_relaxed);
    if (live && now - checked > kNameRefreshNs &&
        state->os_name_checked_ns.compare_exchange_strong(checked, now)) {
      char path[64];
      snprintf(path, sizeof(path), "/proc/self/task/%d/comm",
               state->tid.load(std::memory_order_relaxed));
      char comm[kOsNameWords * 8] = {};
      const int fd = open(path, O_RDONLY | O_CLOEXEC);
      const ssize_t got = fd >= 0 ? read(fd, comm, sizeof(comm)) : -1;
      if (fd >= 0) close(fd);
      if (got > 0) {
        comm[got - 1] = '\0';  // removes the newline
        StoreOsName(state, comm);
      }
    }
    for (uint32_t i = 0; i < kOsNameWords; ++i) {
      words[i] = state->os_name[i].load(std::memory_order_relaxed);
    }
  }
  const size_t kept = size < sizeof(words) ? size : sizeof(words);
  memcpy(name, words, kept);
  name[kept - 1] = '\0';
}

}  // namespace jobscope::recorder
