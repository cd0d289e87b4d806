// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/main_thread_sample.h"

#include <semaphore.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "collectors/python/gil.h"
#include "common/clock.h"

namespace jobscope::python {
namespace {

enum State : int {
  kIdle,     // nothing is wanted: a call that comes by does nothing
  kWanted,   // the next call takes the sample
  kRunning,  // it does
  kDone,     // the sample is there
};

// One for the process, kept: Python may make a call that was left to it at any later time.
struct Slot {
  Slot() { sem_init(&done, 0, 0); }
  std::atomic<State> state{kIdle};
  std::atomic<bool> queued{false};  // Python still has a call of ours
  sem_t done;
  // Written while idle, and by the call while it runs.
  StackReader* reader = nullptr;
  absl::Duration budget;
  HeldRound result;
};

// On the main thread, with the GIL. Takes no lock.
int OnMainThread(void* argument) {
  auto* const slot = static_cast<Slot*>(argument);
  slot->queued.store(false, std::memory_order_relaxed);
  State wanted = kWanted;
  if (Forked() || Leaving() ||
      !slot->state.compare_exchange_strong(wanted, kRunning, std::memory_order_acquire)) {
    return 0;
  }
  const GilHold hold(GilUse::kSample);
  slot->result.round = slot->reader->Read(slot->budget);
  slot->result.hold = absl::Nanoseconds(hold.End());
  slot->state.store(kDone, std::memory_order_release);
  sem_post(&slot->done);
  return 0;
}

bool AwaitDone(sem_t* done, absl::Duration patience) {
  const timespec limit = absl::ToTimespec(absl::Nanoseconds(MonotonicNs()) + patience);
  int result = 0;
  while ((result = sem_clockwait(done, CLOCK_MONOTONIC, &limit)) != 0 && errno == EINTR) {
  }
  return result == 0;
}

}  // namespace

std::optional<HeldRound> ReadOnMainThread(const TraceApi& trace, StackReader* reader,
                                          absl::Duration budget, absl::Duration patience) {
  static auto* const slot = new Slot;
  slot->reader = reader;
  slot->budget = budget;
  slot->state.store(kWanted, std::memory_order_release);
  // Python keeps a few dozen calls: one of ours at a time.
  if (!slot->queued.exchange(true, std::memory_order_relaxed) &&
      trace.AddPendingCall(&OnMainThread, slot) != 0) {
    slot->queued.store(false, std::memory_order_relaxed);
  }
  if (!AwaitDone(&slot->done, patience)) {
    State wanted = kWanted;
    if (slot->state.compare_exchange_strong(wanted, kIdle, std::memory_order_acquire)) {
      return std::nullopt;
    }
    // It began just now, and takes a millisecond at most.
    while (!AwaitDone(&slot->done, absl::Seconds(1))) {
    }
  }
  HeldRound result = std::move(slot->result);
  slot->state.store(kIdle, std::memory_order_relaxed);
  return result;
}

}  // namespace jobscope::python
