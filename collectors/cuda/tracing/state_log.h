// SPDX-License-Identifier: Apache-2.0
//
// Collects errors and warnings that CUPTI itself reports, and knows whether it may be called.
#ifndef COLLECTORS_CUDA_TRACING_STATE_LOG_H_
#define COLLECTORS_CUDA_TRACING_STATE_LOG_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace jobscope::cuda {

// Collects CUPTI's own errors and warnings. One per process: the callback may come at any time, and
// on application threads, once for each record that is lost. It neither locks nor allocates.
// Thread-safe.
class StateLog {
 public:
  static StateLog& Get();

  // Handles a notification of CUPTI's domain STATE; ignores others.
  void OnCallback(uint32_t cbid, const void* data);
  // Called at exit: first, before captures are delivered, and when CUPTI is about to be destroyed.
  void NoteExit() { exits_.store(true, std::memory_order_release); }
  void NoteEnd() { ended_.store(true, std::memory_order_release); }
  // Forgets what was reported.
  void Clear();
  // Returns errors and warnings since the last call, each kind once with its number. Kinds beyond
  // the first eight of the process have one number together.
  std::vector<std::string> Take();
  // Returns whether CUPTI has failed and detached from the process, or has been destroyed. Any
  // later call could attach it again.
  bool fatal() const {
    return fatal_.load(std::memory_order_acquire) || ended_.load(std::memory_order_acquire);
  }
  // Returns whether the process exits: captures wait for nothing.
  bool exits() const { return exits_.load(std::memory_order_acquire); }
  std::string fatal_text();

 private:
  // What CUPTI reports with one result: its words are those of the first time.
  struct Entry {
    std::atomic<uint64_t> key{0};  // 0: free. Never freed again.
    std::atomic<bool> written{false};
    std::atomic<uint64_t> count{0};
    char text[300] = {};
  };
  static std::string Words(const Entry& entry);
  // Null: there are too many kinds.
  Entry* EntryOf(uint64_t key, const char* message);

  std::atomic<bool> fatal_{false};
  std::atomic<bool> exits_{false};
  std::atomic<bool> ended_{false};
  std::array<Entry, 8> entries_;
  std::atomic<uint64_t> other_kinds_{0};  // reports without an entry
  std::atomic<const Entry*> fatal_entry_{nullptr};
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_STATE_LOG_H_
