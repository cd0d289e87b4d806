// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_ANALYSIS_MADE_RUN_H_
#define TESTS_ANALYSIS_MADE_RUN_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/analysis/trace_files.h"

namespace jobscope::analysis {

// A time that differs a little between ranks and steps, in ms.
inline double Jitter(int rank, int step) { return ((rank * 7 + step * 13) % 10) * 0.1; }

// A run directory, filled by hand.
class MadeRun {
 public:
  using json = nlohmann::json;

  explicit MadeRun(std::string directory, std::string run = "r");

  // A worker of the manifest with a trace: rank `rank` on `host`.
  void AddWorker(int rank, const std::string& host, const TraceFile& trace);
  void AddMissing(const std::string& name, const std::string& outcome, const std::string& reason);
  void WriteManifest(int schema = 1, uint64_t lookback_ns = 0);

  // Ranks in step: in each step input, compute, then an all_reduce that ends for all at once.
  // `input_ms(rank, step)`, `compute_ms(rank, step)`; 8 ms of transfer.
  void AddRanks(int ranks, int steps, const std::function<double(int, int)>& input_ms,
                const std::function<double(int, int)>& compute_ms, int64_t number_of_rank = 0);

  // Ranks that accumulate gradients: only each `every`-th step ends with an all_reduce, of 1 ms.
  // `batch_ms(rank)`: what each step computes.
  void AddAccumulatingRanks(int ranks, int steps, int every,
                            const std::function<double(int)>& batch_ms);

  json workers_ = json::array();

 private:
  void Write(const std::string& name, const std::string& bytes) const;

  std::string path_;
  std::string run_;
};

}  // namespace jobscope::analysis

#endif  // TESTS_ANALYSIS_MADE_RUN_H_
