// SPDX-License-Identifier: Apache-2.0
//
// Implements a small classifier that really learns: one hidden layer, trained with plain loops.
#ifndef EXAMPLES_TWO_LAYER_NETWORK_H_
#define EXAMPLES_TWO_LAYER_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jobscope::example {

// Sizes of the example: a step takes about 5 ms on one core of a 3 GHz server (RelWithDebInfo).
inline constexpr size_t kInputs = 128;
inline constexpr size_t kHidden = 288;
inline constexpr size_t kClasses = 10;
inline constexpr size_t kBatchSize = 128;

// One batch: `inputs` holds kBatchSize rows of kInputs values, `labels` one class per row.
struct Batch {
  int64_t number = 0;
  std::vector<float> inputs;
  std::vector<uint8_t> labels;
};

// Trains inputs -> tanh(kHidden) -> softmax(kClasses) with cross-entropy loss by stochastic
// gradient descent. Not thread-safe: one trainer owns it. Make the three calls of a step in the
// order below.
class TwoLayerNetwork {
 public:
  explicit TwoLayerNetwork(uint32_t seed);

  // Computes the class probabilities of each row; returns the mean cross-entropy loss.
  double Forward(const Batch& batch);
  // Computes the gradients of the loss of the last Forward.
  void Backward(const Batch& batch);
  // Moves the weights against the gradients.
  void Update(float learning_rate);

 private:
  // Row-major: hidden weights are [kInputs][kHidden], output weights [kHidden][kClasses].
  std::vector<float> hidden_weights_, hidden_bias_, output_weights_, output_bias_;
  std::vector<float> hidden_weights_gradient_, hidden_bias_gradient_, output_weights_gradient_,
      output_bias_gradient_;
  std::vector<float> hidden_;         // [kBatchSize][kHidden], activations of the last Forward
  std::vector<float> probabilities_;  // [kBatchSize][kClasses]
};

}  // namespace jobscope::example

#endif  // EXAMPLES_TWO_LAYER_NETWORK_H_
