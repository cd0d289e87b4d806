// SPDX-License-Identifier: Apache-2.0
//
// Takes the events of a provider into a bounded buffer.
#ifndef COLLECTORS_PROVIDER_INTAKE_H_
#define COLLECTORS_PROVIDER_INTAKE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "collectors/provider/event_batch.h"
#include "jobscope/provider.h"

namespace jobscope::provider {

// Counts the events that it is given, and those that it does not take. Not thread-safe.
class Intake {
 public:
  // Bounds the memory of the events in it.
  static constexpr size_t kMaxBytes = 4 << 20;

  void Open() { batch_ = std::make_unique<EventBatch>(); }
  void Close() { batch_.reset(); }  // discards the events in it
  bool open() const { return batch_ != nullptr; }
  bool full() const { return open() && batch_->bytes() >= kMaxBytes; }

  // Copies an event if it is valid and there is room; returns whether it did. Call it only while
  // open.
  bool Add(const jobscope_provider_event& event);
  // Moves the events out. Null: there are none.
  std::unique_ptr<EventBatch> Take();

  uint64_t attempted() const { return attempted_; }
  uint64_t malformed() const { return malformed_; }
  uint64_t buffer_full() const { return buffer_full_; }

 private:
  std::unique_ptr<EventBatch> batch_;  // null: closed
  uint64_t attempted_ = 0;
  uint64_t malformed_ = 0;
  uint64_t buffer_full_ = 0;
};

}  // namespace jobscope::provider

#endif  // COLLECTORS_PROVIDER_INTAKE_H_
