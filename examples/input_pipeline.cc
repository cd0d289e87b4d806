// SPDX-License-Identifier: Apache-2.0
#include "examples/input_pipeline.h"

#include <cmath>
#include <random>
#include <string>
#include <utility>

namespace jobscope::example {
namespace {

// Each class is a cloud around its own centre: learnable, but not at once.
std::vector<float> MakeCentres(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.35F);
  std::vector<float> centres(kClasses * kInputs);
  for (float& value : centres) value = normal(random);
  return centres;
}

// Zero mean, unit variance, row by row.
void Normalize(Batch* batch) {
  for (size_t row = 0; row < kBatchSize; ++row) {
    float* values = &batch->inputs[row * kInputs];
    float sum = 0.0F;
    float squares = 0.0F;
    for (size_t i = 0; i < kInputs; ++i) {
      sum += values[i];
      squares += values[i] * values[i];
    }
    const float mean = sum / kInputs;
    const float scale = 1.0F / std::sqrt(squares / kInputs - mean * mean + 1e-6F);
    for (size_t i = 0; i < kInputs; ++i) values[i] = (values[i] - mean) * scale;
  }
}

}  // namespace

InputPipeline::InputPipeline(uint32_t seed) {
  threads_.emplace_back([this, seed] { Load(seed); });
  for (int i = 0; i < kPreprocessThreads; ++i) {
    threads_.emplace_back([this, i] { Preprocess(i); });
  }
}

InputPipeline::~InputPipeline() {
  raw_.Close();
  ready_.Close();
  for (std::thread& thread : threads_) thread.join();
}

void InputPipeline::Load(uint32_t seed) {
  SetThreadName("loader");
  const std::vector<float> centres = MakeCentres(seed);
  std::minstd_rand random(seed + 1);
  for (int64_t number = 0;; ++number) {
    BatchInFlight next;
    {
      JOBSCOPE_SCOPE("load_batch", "batch", number, "bytes", kBatchSize * kInputs * sizeof(float));
      next.in_flight = AsyncBegin("batch_in_flight");
      next.batch.number = number;
      next.batch.inputs.resize(kBatchSize * kInputs);
      next.batch.labels.resize(kBatchSize);
      std::normal_distribution<float> noise(0.0F, 1.0F);
      for (size_t row = 0; row < kBatchSize; ++row) {
        const size_t label = random() % kClasses;
        next.batch.labels[row] = static_cast<uint8_t>(label);
        for (size_t i = 0; i < kInputs; ++i) {
          next.batch.inputs[row * kInputs + i] = centres[label * kInputs + i] + noise(random);
        }
      }
      next.flow = FlowOut();
    }
    if (!raw_.Push(std::move(next))) return;
  }
}

void InputPipeline::Preprocess(int index) {
  SetThreadName(("preprocess " + std::to_string(index)).c_str());
  while (std::optional<BatchInFlight> next = raw_.Pop()) {
    {
      JOBSCOPE_SCOPE("preprocess", "batch", next->batch.number, "kind", "normalize");
      FlowIn(next->flow);
      Normalize(&next->batch);
      next->flow = FlowOut();
    }
    if (!ready_.Push(*std::move(next))) return;
  }
}

}  // namespace jobscope::example
