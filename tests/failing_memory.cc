// SPDX-License-Identifier: Apache-2.0
#include "tests/failing_memory.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Allocations on threads of ours until one fails; not above 0: none does.
std::atomic<int> g_until_failure{0};
// That fail then, one after the other.
std::atomic<int> g_failures{0};

std::atomic<bool (*)()> g_is_meant{nullptr};

bool Fails() {
  if (g_failures.load() <= 0 || !g_is_meant.load()()) return false;
  if (g_until_failure.load() > 0 && g_until_failure.fetch_sub(1) > 1) return false;
  return g_failures.fetch_sub(1) > 0;
}

}  // namespace

// Not inline: the compiler would see that they do not match, while they do.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* const memory = Fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// A sanitizer's would not match the deletes below.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return Fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace jobscope {

bool IsThreadOfOurs() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return std::strncmp(name, "jobscope-", 9) == 0;
}

void FailAllocations(int at, int failures, bool (*is_meant)()) {
  g_is_meant = is_meant;
  g_until_failure = at;
  g_failures = failures;
}

int FailuresLeft() { return g_failures.load(); }

int StopFailing() { return g_failures.exchange(0); }

}  // namespace jobscope
