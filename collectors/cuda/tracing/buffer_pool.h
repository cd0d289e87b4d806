// SPDX-License-Identifier: Apache-2.0
//
// The buffers that CUPTI writes its records to.
#ifndef COLLECTORS_CUDA_TRACING_BUFFER_POOL_H_
#define COLLECTORS_CUDA_TRACING_BUFFER_POOL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace jobscope::cuda {

// A fixed number of buffers in one mapping of the process, which is reserved at the first session
// and never given up: CUPTI may return a buffer, or still write to one, long after the capture. The
// memory of free buffers goes back to the system at the end of a session.
//
// Request and Complete are called by CUPTI, on whatever application thread is inside of CUDA: they
// neither lock, nor allocate, nor ask the system for anything, and touch a bounded number of words.
// All other functions belong to the collector's thread.
class BufferPool {
 public:
  // The size NVIDIA recommends is 1 to 10 MiB. From 13.0 on every thread that calls CUDA takes one
  // of its own, so the smaller end.
  static constexpr size_t kBufferBytes = size_t{1} << 20;
  static constexpr size_t kMaxBuffers = 1024;
  // CUPTI before 12.9 crashes when it gets no buffer: it then gets one of these, whose records are
  // counted and thrown away.
  static constexpr size_t kScrapBuffers = 8;

  enum class Mode {
    kIdle,       // no session: what comes back is thrown away
    kArmed,      // before the start: when no buffer is free, the oldest records make room
    kRecording,  // when no buffer is free, new records are lost
  };

  // The one of the process: CUPTI's callbacks carry no pointer of ours.
  static BufferPool& Get();
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Reserves the mapping, and makes the first `ready` buffers present. `buffers` counts from the
  // first call on. False: the system refused; `error` says why. `null_is_safe`: CUPTI takes a null
  // buffer for an answer.
  bool Prepare(size_t buffers, size_t ready, bool null_is_safe, std::string* error);
  void SetMode(Mode mode) { mode_.store(mode, std::memory_order_seq_cst); }

  static void Request(uint8_t** buffer, size_t* size, size_t* max_records);
  static void Complete(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

  struct Full {
    size_t slot = 0;
    const uint8_t* data = nullptr;
    size_t bytes = 0;
    bool scrap = false;  // to be counted only
  };
  // The oldest buffer that came back; belongs to the caller until Free.
  std::optional<Full> TakeFull();
  void Free(size_t slot);
  // CUPTI has been taken out of the process, and gives back nothing of what it holds. Used again
  // after the next time: until then a thread of it may be slow to end, and still write there.
  void Forsake();
  // Gives back the memory of free buffers.
  void ReleaseMemory();

  // An instant in the order in which CUPTI got its buffers.
  uint64_t Mark() { return next_lent_.fetch_add(1, std::memory_order_seq_cst); }
  // How many of the buffers that CUPTI got before `mark` it still has, with records in them.
  size_t LentWithRecords(uint64_t mark = UINT64_MAX) const;
  struct Counts {
    uint64_t refused = 0;   // requests that found no buffer, null answered
    uint64_t scrapped = 0;  // requests that found no buffer, answered with one for scrap
    uint64_t shared = 0;    // of those: into one that several share, so that records get lost
    uint64_t late = 0;      // buffers that came back with records while no session ran
    uint64_t recycled = 0;  // buffers of records from before the start, given up
    uint64_t foreign = 0;   // pointers that are not ours
  };
  // Since the last call.
  Counts TakeCounts();

 private:
  enum State : uint32_t { kFree, kLent, kFull, kReading, kForsaken };
  struct Slot {
    std::atomic<uint32_t> state{kFree};
    std::atomic<uint64_t> order{0};  // of completion
    std::atomic<uint64_t> lent_at{0};
    std::atomic<size_t> valid{0};
    std::atomic<bool> touched{false};
    uint64_t forsaken_at = 0;  // collector's thread
  };

  size_t slots() const { return buffers_.load(std::memory_order_acquire); }
  uint8_t* DataOf(size_t slot) const {
    return base_.load(std::memory_order_acquire) + slot * kBufferBytes;
  }
  // Takes a slot in `from` to kLent.
  bool Claim(size_t slot, uint32_t from);
  void Hand(size_t slot, uint8_t** buffer, size_t* size);
  std::optional<size_t> OldestFull() const;
  bool HoldsRecords(size_t slot) const;

  std::atomic<uint8_t*> base_{nullptr};
  std::atomic<size_t> buffers_{0};  // without those for scrap, which come behind them
  std::atomic<bool> null_is_safe_{false};
  std::atomic<Mode> mode_{Mode::kIdle};
  std::atomic<uint64_t> next_order_{1};
  std::atomic<uint64_t> next_lent_{1};
  std::array<Slot, kMaxBuffers + kScrapBuffers> slots_;

  uint64_t times_forsaken_ = 0;  // collector's thread
  std::atomic<uint64_t> refused_{0}, scrapped_{0}, shared_{0}, late_{0}, recycled_{0}, foreign_{0};
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_BUFFER_POOL_H_
