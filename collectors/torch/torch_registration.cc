// SPDX-License-Identifier: Apache-2.0
#include "collectors/torch/torch_registration.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "common/sync/mutex.h"

namespace jobscope::framework::torch {
namespace {

// Guards the handles: the process may exit while a collector's thread removes the callbacks.
Mutex g_handles_mutex;
const Api* g_registered_with ABSL_GUARDED_BY(g_handles_mutex) = nullptr;
std::array<uint64_t, 4> g_handles ABSL_GUARDED_BY(g_handles_mutex);
size_t g_handle_count ABSL_GUARDED_BY(g_handles_mutex) = 0;
bool g_has_one_more ABSL_GUARDED_BY(g_handles_mutex) = false;
bool g_shutting_down ABSL_GUARDED_BY(g_handles_mutex) = false;
pid_t g_process = 0;  // written once, under the lock; read at exit

void Add(const Callback& callback) ABSL_EXCLUSIVE_LOCKS_REQUIRED(g_handles_mutex) {
  g_handles[g_handle_count++] = g_registered_with->add_global_callback(callback);
}

void RemoveAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(g_handles_mutex) {
  for (size_t i = 0; i < g_handle_count; ++i) g_registered_with->remove_callback(g_handles[i]);
  g_handle_count = 0;
  g_has_one_more = false;
}

// Runs at exit. PyTorch keeps its callbacks in an object that is destroyed at exit; a capture that
// ends later must not touch it (exit functions of a library loaded before PyTorch run after that).
void RemoveAtExit() {
  if (getpid() != g_process) return;  // a forked child may inherit PyTorch's locks while held
  const MutexLock lock(&g_handles_mutex);
  g_shutting_down = true;
  RemoveAll();
}

}  // namespace

void Register(const Api& api, const std::vector<Callback>& callbacks) {
  const MutexLock lock(&g_handles_mutex);
  if (g_shutting_down) return;
  RemoveAll();
  g_registered_with = &api;
  for (const Callback& callback : callbacks) {
    Add(callback);
    // After the first callback, which creates that object: functions registered later run earlier.
    if (g_process == 0 && std::atexit(&RemoveAtExit) == 0) g_process = getpid();
  }
}

void RegisterOnce(const Callback& callback) {
  const MutexLock lock(&g_handles_mutex);
  if (g_shutting_down || g_has_one_more || g_handle_count == 0) return;
  g_has_one_more = true;
  Add(callback);
}

void Unregister() {
  const MutexLock lock(&g_handles_mutex);
  RemoveAll();
}

}  // namespace jobscope::framework::torch
