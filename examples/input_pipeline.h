// SPDX-License-Identifier: Apache-2.0
//
// Implements the input side of the example: one loader, two preprocessing threads, batches in a
// bounded queue.
#ifndef EXAMPLES_INPUT_PIPELINE_H_
#define EXAMPLES_INPUT_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "examples/bounded_queue.h"
#include "examples/two_layer_network.h"
#include "jobscope/trace.h"

namespace jobscope::example {

// A batch on its way, with the flow to its consumer and the async span from its loading to its use.
struct BatchInFlight {
  Batch batch;
  Flow flow = {};
  AsyncId in_flight = {};
};

// Generates batches of one synthetic classification problem without end. Owns its threads; the
// destructor ends them.
class InputPipeline {
 public:
  explicit InputPipeline(uint32_t seed);
  ~InputPipeline();
  InputPipeline(const InputPipeline&) = delete;
  InputPipeline& operator=(const InputPipeline&) = delete;

  // Blocks until there is a batch. Batches of the two preprocessing threads may overtake each
  // other.
  std::optional<BatchInFlight> Next() { return ready_.Pop(); }

 private:
  void Load(uint32_t seed);
  void Preprocess(int index);

  // Deep enough to hide scheduling jitter, small enough that a slow loader shows within a few
  // steps.
  static constexpr size_t kQueueDepth = 4;
  static constexpr int kPreprocessThreads = 2;
  BoundedQueue<BatchInFlight> raw_{kQueueDepth};
  BoundedQueue<BatchInFlight> ready_{kQueueDepth};
  std::vector<std::thread> threads_;
};

}  // namespace jobscope::example

#endif  // EXAMPLES_INPUT_PIPELINE_H_
