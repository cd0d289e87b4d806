// SPDX-License-Identifier: Apache-2.0
//
// Provides the buffers into which CUPTI writes its records.
#ifndef COLLECTORS_CUDA_TRACING_BUFFER_POOL_H_
#define COLLECTORS_CUDA_TRACING_BUFFER_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "collectors/cuda/tracing/buffer_slot.h"

namespace jobscope::cuda {

// Provides CUPTI with a fixed number of buffers in one mapping of the process. The mapping is
// reserved at the first session and never unmapped: CUPTI may return a buffer, or still write to
// one, long after the capture. The memory of free buffers is returned to the system at the end of a
// session.
//
// CUPTI calls Request and Complete on any application thread that is inside of CUDA: they neither
// lock nor allocate nor make system calls, and touch a bounded number of words. All other functions
// belong to the collector's thread.
class BufferPool {
 public:
  // NVIDIA recommends 1 to 10 MiB. The smaller end, because from 13.0 on every thread that calls
  // CUDA takes a buffer of its own.
  static constexpr size_t kBufferBytes = size_t{1} << 20;
  static constexpr size_t kMaxBuffers = 1024;
  // Number of discard buffers: CUPTI before 12.9 crashes without a buffer, so it gets one of these;
  // their records are counted and discarded.
  static constexpr size_t kDiscardBuffers = 8;

  enum class Mode {
    kIdle,       // no session: returned buffers are kept for TakeKept, or discarded, and CUPTI gets
                 // none if null is safe
    kArmed,      // before the start: if no buffer is free, the oldest records are discarded
    kRecording,  // if no buffer is free, new records are lost
  };

  // Returns the pool of the process: CUPTI's callbacks have no user pointer.
  static BufferPool& Get();
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Reserves the mapping and maps the first `ready` buffers. Only the first call's `buffers`
  // counts. False: the system refused; `error` gives the reason. `null_is_safe`: CUPTI accepts a
  // null buffer.
  bool Prepare(size_t buffers, size_t ready, bool null_is_safe, std::string* error);
  void SetMode(Mode mode);
  // Ends recording: the pool is idle. What CUPTI got before `mark` and returns from now on counts
  // as late.
  void EndRecording(uint64_t mark);
  // From the end of recording on, records that come back are in no trace, but may own memory: the
  // pool keeps the buffers that CUPTI got before, until StopKeeping. Any thread.
  void StopKeeping() { keep_before_.store(0, std::memory_order_release); }
  bool null_is_safe() const { return null_is_safe_.load(std::memory_order_relaxed); }

  static void Request(uint8_t** buffer, size_t* size, size_t* max_records);
  static void Complete(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

  struct Full {
    size_t slot = 0;
    const uint8_t* data = nullptr;
    size_t bytes = 0;
    bool discard = false;  // only to be counted
    // Perhaps lent several times at once: of what its records own, nothing is known.
    bool shared = false;
  };
  // Takes the oldest returned buffer; it belongs to the caller until Free.
  std::optional<Full> TakeFull() { return Take(Slot::kFull); }
  // The same for the buffers that the pool has kept. This and Free: any thread.
  std::optional<Full> TakeKept() { return Take(Slot::kKept); }
  void Free(size_t slot);
  // Stops waiting for the buffers with records that CUPTI holds: LentWithRecords ignores them until
  // they are returned, which counts as late. Returns their number.
  size_t WriteOff();
  // Waits no longer for the buffers that CUPTI got before `mark` and has not returned, unless it
  // writes to them: perhaps another profiler got them. Any thread, but not two at once.
  void Disregard(uint64_t mark);
  // Tells that CUPTI was finalized and will not return the buffers it holds. The next Prepare
  // abandons them; they are reused only after the next Forsake: one of its threads may still write
  // to them. Any thread.
  void Forsake() { forsake_.store(true, std::memory_order_release); }
  // Returns the memory of free buffers to the system.
  void ReleaseMemory();

  // Returns a mark in the order in which CUPTI got its buffers.
  uint64_t Mark() { return next_lent_.fetch_add(1, std::memory_order_seq_cst); }
  // Returns how many of the buffers that CUPTI got before `mark` it still holds with records in
  // them.
  size_t LentWithRecords(uint64_t mark = UINT64_MAX) const;
  // Returns whether CUPTI holds any, also empty ones and those that were written off, except those
  // that were disregarded. Any thread.
  bool HasLent() const;
  struct Counts {
    uint64_t refused = 0;    // requests without a free buffer, answered with null
    uint64_t discarded = 0;  // requests without a free buffer, answered with a discard buffer
    // Of those: a discard buffer in use several times, so that records get lost.
    uint64_t shared = 0;
    uint64_t late = 0;  // of a session's buffers with records: returned after it, or written off
    uint64_t recycled = 0;  // buffers with records from before the start, discarded
    uint64_t foreign = 0;   // pointers that are not from the pool
  };
  // Returns the counts since the last call.
  Counts TakeCounts();
  // Forgets requests without a free buffer. Returns whether there were any since the last call.
  bool ForgetShortage();

 private:
  using Slot = BufferSlot;

  // Counted by CUPTI's threads, taken by the collector's.
  struct AtomicCounts {
    std::atomic<uint64_t> refused{0}, discarded{0}, shared{0}, late{0}, recycled{0}, foreign{0};
  };

  size_t slots() const { return buffers_.load(std::memory_order_acquire); }
  uint8_t* DataOf(size_t slot) const {
    return base_.load(std::memory_order_acquire) + slot * kBufferBytes;
  }
  void Hand(size_t slot, uint8_t** buffer, size_t* size);
  std::optional<size_t> Oldest(Slot::State state) const;
  std::optional<Full> Take(Slot::State state);
  void ForsakeLent();
  bool HoldsRecords(size_t slot) const;
  // Returns the number of bytes up to the last one that is not 0.
  size_t WrittenBytes(size_t slot) const;
  bool IsDisregarded(size_t slot) const;

  std::atomic<uint8_t*> base_{nullptr};
  std::atomic<size_t> buffers_{0};  // without the discard buffers, which follow them
  std::atomic<bool> null_is_safe_{false};
  std::atomic<Mode> mode_{Mode::kIdle};
  std::atomic<bool> forsake_{false};  // at the next Prepare
  std::atomic<uint64_t> next_order_{1};
  std::atomic<uint64_t> next_lent_{1};
  std::atomic<uint64_t> late_before_{0};  // in the order of next_lent_
  std::atomic<uint64_t> keep_before_{0};  // in the same order
  std::array<Slot, kMaxBuffers + kDiscardBuffers> slots_;

  uint64_t times_forsaken_ = 0;  // used only by the collector's thread
  AtomicCounts counts_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_BUFFER_POOL_H_
