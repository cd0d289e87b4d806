// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/recorder/process.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "collectors/host/recorder/reader_abi.h"
#include "collectors/host/recorder/registry.h"
#include "collectors/host/recorder/step_usage.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace jobscope::recorder {
namespace {

ProcessPage g_zero_page;
std::atomic<uint32_t> g_holders[JOBSCOPE_HOLDER_COUNT];
pthread_once_t g_init_once = PTHREAD_ONCE_INIT;

bool ClocksourceIsTsc() {
  const int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                      O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[16] = {};
  const ssize_t got = read(fd, text, sizeof(text) - 1);
  close(fd);
  return got >= 3 && (strcmp(text, "tsc\n") == 0 || strcmp(text, "tsc") == 0);
}

// Returns whether the TSC can be used: the CPU must report an invariant TSC, and the kernel, which
// checks it against other clocks continuously, must use it for its own timekeeping.
// JOBSCOPE_CLOCK=monotonic or =tsc overrides the kernel's part (not the CPU's).
bool TscIsFit() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) == 0 || (edx & (1u << 8)) == 0) return false;
  const char* choice = getenv("JOBSCOPE_CLOCK");
  if (choice != nullptr && strcmp(choice, "monotonic") == 0) return false;
  if (choice != nullptr && strcmp(choice, "tsc") == 0) return true;
  return ClocksourceIsTsc();
#else
  return false;
#endif
}

// For kernels without MADV_WIPEONFORK; on others it finds zeros already.
void InForkedChild() {
  if (g_page == &g_zero_page) return;
  g_page->mask.store(0, std::memory_order_relaxed);
  g_page->alive.store(0, std::memory_order_relaxed);
}

void InitOnce() {
  g_uses_tsc = TscIsFit();
  void* page = MapWiped(4096);
  if (page != nullptr) {
    auto* mapped = static_cast<ProcessPage*>(page);
    mapped->alive.store(1, std::memory_order_relaxed);
    InitThreadExit();
    pthread_atfork(nullptr, nullptr, &InForkedChild);
    g_page = mapped;
  }
  BindWriterTable();
  BindReaderTable();
}

__attribute__((constructor(101))) void OnLoad() { Init(); }

// Holders change rarely, on any thread. After the last change some caller computes the OR and sees
// it in the mask, because each caller checks again after its own exchange.
void RecomputeMask() {
  for (;;) {
    uint32_t seen = g_page->mask.load();
    uint32_t wanted = 0;
    for (const std::atomic<uint32_t>& holder : g_holders) wanted |= holder.load();
    if ((wanted & ~seen & JOBSCOPE_BIT_STEP_USAGE) != 0) BeginUsageEpoch();
    if (seen != wanted && !g_page->mask.compare_exchange_strong(seen, wanted)) continue;
    uint32_t again = 0;
    for (const std::atomic<uint32_t>& holder : g_holders) again |= holder.load();
    if (again == wanted) return;
  }
}

bool MaskMayChange(uint32_t holder) { return holder < JOBSCOPE_HOLDER_COUNT && Alive(); }

}  // namespace

ProcessPage* g_page = &g_zero_page;
bool g_uses_tsc = false;

void Init() { pthread_once(&g_init_once, &InitOnce); }

void SetHolder(uint32_t holder, uint32_t bits) {
  if (!MaskMayChange(holder)) return;
  g_holders[holder].store(bits);
  RecomputeMask();
}

void AddToHolder(uint32_t holder, uint32_t bits) {
  if (!MaskMayChange(holder)) return;
  g_holders[holder].fetch_or(bits);
  RecomputeMask();
}

void TakeFromHolder(uint32_t holder, uint32_t bits) {
  if (!MaskMayChange(holder)) return;
  g_holders[holder].fetch_and(~bits);
  RecomputeMask();
}

uint32_t Mask() { return g_page->mask.load(std::memory_order_relaxed); }

void Quiesce() {
  // With several threads, registering waits for the whole machine: 5 to 30 ms, 400 ms and more on a
  // busy one. Concurrent callers do not wait for it.
  enum : uint32_t { kNew, kRegistering, kRegistered };
  static std::atomic<uint32_t> state{kNew};
  uint32_t seen = kNew;
  if (state.compare_exchange_strong(seen, kRegistering, std::memory_order_acq_rel)) {
    const bool done = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    if (done) state.store(kRegistered, std::memory_order_release);
    seen = done ? kRegistered : kRegistering;
  }
  if (seen == kRegistered && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0) {
    return;
  }
  // No membarrier (seccomp, old kernel), or not yet. Stores leave a store buffer within
  // nanoseconds; 1 ms is far longer, and only the collector's thread waits.
  const timespec grace = {0, 1000000};
  nanosleep(&grace, nullptr);
}

void* MapWiped(uint64_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  // Fails on kernels before 4.14; InForkedChild is the fallback.
  (void)madvise(address, bytes, MADV_WIPEONFORK);
  return address;
}

void Populate(void* address, uint64_t bytes) {
  if (madvise(address, bytes, MADV_POPULATE_WRITE) == 0) return;
  // Kernels before 5.14: touch each page. The words are atomics that nobody uses yet.
  auto* words = static_cast<char*>(address);
  for (uint64_t offset = 0; offset < bytes; offset += 4096) {
    auto* word = reinterpret_cast<std::atomic<uint64_t>*>(words + offset);
    word->fetch_add(0, std::memory_order_relaxed);
  }
}

}  // namespace jobscope::recorder
