// SPDX-License-Identifier: Apache-2.0
#include "examples/two_layer_network.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace jobscope::example {
namespace {

std::vector<float> RandomWeights(size_t rows, size_t columns, std::mt19937* random) {
  // Scaled by the fan-in, so that activations neither vanish nor saturate at the start.
  std::normal_distribution<float> normal(0.0F, 1.0F / std::sqrt(static_cast<float>(rows)));
  std::vector<float> weights(rows * columns);
  for (float& weight : weights) weight = normal(*random);
  return weights;
}

// out[rows][columns] += a[rows][inner] * b[inner][columns]. The innermost loop runs along memory.
void AddProduct(const float* a, const float* b, float* out, size_t rows, size_t inner,
                size_t columns) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t k = 0; k < inner; ++k) {
      const float factor = a[row * inner + k];
      for (size_t column = 0; column < columns; ++column) {
        out[row * columns + column] += factor * b[k * columns + column];
      }
    }
  }
}

// out[inner][columns] += transpose(a[rows][inner]) * b[rows][columns].
void AddTransposedProduct(const float* a, const float* b, float* out, size_t rows, size_t inner,
                          size_t columns) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t k = 0; k < inner; ++k) {
      const float factor = a[row * inner + k];
      for (size_t column = 0; column < columns; ++column) {
        out[k * columns + column] += factor * b[row * columns + column];
      }
    }
  }
}

void SubtractScaled(const std::vector<float>& gradient, float scale, std::vector<float>* weights) {
  for (size_t i = 0; i < weights->size(); ++i) (*weights)[i] -= scale * gradient[i];
}

}  // namespace

TwoLayerNetwork::TwoLayerNetwork(uint32_t seed)
    : hidden_bias_(kHidden),
      output_bias_(kClasses),
      hidden_weights_gradient_(kInputs * kHidden),
      hidden_bias_gradient_(kHidden),
      output_weights_gradient_(kHidden * kClasses),
      output_bias_gradient_(kClasses),
      hidden_(kBatchSize * kHidden),
      probabilities_(kBatchSize * kClasses) {
  std::mt19937 random(seed);
  hidden_weights_ = RandomWeights(kInputs, kHidden, &random);
  output_weights_ = RandomWeights(kHidden, kClasses, &random);
}

double TwoLayerNetwork::Forward(const Batch& batch) {
  for (size_t row = 0; row < kBatchSize; ++row) {
    std::copy(hidden_bias_.begin(), hidden_bias_.end(), &hidden_[row * kHidden]);
    std::copy(output_bias_.begin(), output_bias_.end(), &probabilities_[row * kClasses]);
  }
  AddProduct(batch.inputs.data(), hidden_weights_.data(), hidden_.data(), kBatchSize, kInputs,
             kHidden);
  for (float& value : hidden_) value = std::tanh(value);
  AddProduct(hidden_.data(), output_weights_.data(), probabilities_.data(), kBatchSize, kHidden,
             kClasses);
  double loss = 0.0;
  for (size_t row = 0; row < kBatchSize; ++row) {
    float* scores = &probabilities_[row * kClasses];
    const float largest = *std::max_element(scores, scores + kClasses);
    float sum = 0.0F;
    for (size_t k = 0; k < kClasses; ++k) sum += scores[k] = std::exp(scores[k] - largest);
    for (size_t k = 0; k < kClasses; ++k) scores[k] /= sum;
    loss -= std::log(std::max(scores[batch.labels[row]], 1e-12F));
  }
  return loss / kBatchSize;
}

void TwoLayerNetwork::Backward(const Batch& batch) {
  std::fill(hidden_weights_gradient_.begin(), hidden_weights_gradient_.end(), 0.0F);
  std::fill(hidden_bias_gradient_.begin(), hidden_bias_gradient_.end(), 0.0F);
  std::fill(output_weights_gradient_.begin(), output_weights_gradient_.end(), 0.0F);
  std::fill(output_bias_gradient_.begin(), output_bias_gradient_.end(), 0.0F);

  std::vector<float> score_error = probabilities_;
  for (size_t row = 0; row < kBatchSize; ++row) {
    score_error[row * kClasses + batch.labels[row]] -= 1.0F;
    for (size_t k = 0; k < kClasses; ++k) {
      score_error[row * kClasses + k] /= kBatchSize;
      output_bias_gradient_[k] += score_error[row * kClasses + k];
    }
  }
  AddTransposedProduct(hidden_.data(), score_error.data(), output_weights_gradient_.data(),
                       kBatchSize, kHidden, kClasses);

  std::vector<float> hidden_error(kBatchSize * kHidden);
  for (size_t row = 0; row < kBatchSize; ++row) {
    for (size_t j = 0; j < kHidden; ++j) {
      float error = 0.0F;
      for (size_t k = 0; k < kClasses; ++k) {
        error += score_error[row * kClasses + k] * output_weights_[j * kClasses + k];
      }
      const float activation = hidden_[row * kHidden + j];
      hidden_error[row * kHidden + j] = error * (1.0F - activation * activation);
      hidden_bias_gradient_[j] += hidden_error[row * kHidden + j];
    }
  }
  AddTransposedProduct(batch.inputs.data(), hidden_error.data(), hidden_weights_gradient_.data(),
                       kBatchSize, kInputs, kHidden);
}

void TwoLayerNetwork::Update(float learning_rate) {
  SubtractScaled(hidden_weights_gradient_, learning_rate, &hidden_weights_);
  SubtractScaled(hidden_bias_gradient_, learning_rate, &hidden_bias_);
  SubtractScaled(output_weights_gradient_, learning_rate, &output_weights_);
  SubtractScaled(output_bias_gradient_, learning_rate, &output_bias_);
}

}  // namespace jobscope::example
