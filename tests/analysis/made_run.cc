// SPDX-License-Identifier: Apache-2.0
#include "tests/analysis/made_run.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <utility>
#include <vector>

namespace jobscope::analysis {

MadeRun::MadeRun(std::string directory, std::string run)
    : path_(std::move(directory)), run_(std::move(run)) {}

void MadeRun::AddWorker(int rank, const std::string& host, const TraceFile& trace) {
  const std::string name = "w" + std::to_string(rank);
  Write(name + ".xplane.pb", trace.Bytes());
  workers_.push_back({{"name", name},
                      {"address", name + ":1"},
                      {"outcome", "ok"},
                      {"rank", rank},
                      {"host", host},
                      {"aligned", true},
                      {"clock_uncertainty_ns", 20000},
                      {"lost", 0},
                      {"files", {{{"path", name + ".xplane.pb"}}}}});
}

void MadeRun::AddMissing(const std::string& name, const std::string& outcome,
                         const std::string& reason) {
  workers_.push_back({{"name", name}, {"outcome", outcome}, {"reason", reason}});
}

void MadeRun::WriteManifest(int schema, uint64_t lookback_ns) {
  json manifest = {{"schema", schema}, {"run", run_}, {"workers", workers_}};
  if (lookback_ns > 0) manifest["lookback_ns"] = lookback_ns;
  Write("capture.json", manifest.dump());
}

void MadeRun::AddRanks(int ranks, int steps, const std::function<double(int, int)>& input_ms,
                       const std::function<double(int, int)>& compute_ms, int64_t number_of_rank) {
  std::vector<TraceFile> traces(static_cast<size_t>(ranks));
  double begin_ms = 5;
  for (int step = 0; step < steps; ++step) {
    double last_ms = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      last_ms = std::max(last_ms, begin_ms + input_ms(rank, step) + compute_ms(rank, step));
    }
    const double end_ms = last_ms + 8;
    for (int rank = 0; rank < ranks; ++rank) {
      TraceFile& trace = traces[static_cast<size_t>(rank)];
      const double ready_ms = begin_ms + input_ms(rank, step);
      const double arrival_ms = ready_ms + compute_ms(rank, step);
      trace.Step(100 + step + rank * number_of_rank, begin_ms, end_ms);
      trace.Input(begin_ms, ready_ms);
      trace.Event("forward", ready_ms, arrival_ms);
      trace.AllReduce(step, arrival_ms, end_ms);
    }
    begin_ms = end_ms;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    AddWorker(rank, "node" + std::to_string(rank / 4), traces[static_cast<size_t>(rank)]);
  }
}

void MadeRun::AddAccumulatingRanks(int ranks, int steps, int every,
                                   const std::function<double(int)>& batch_ms) {
  double longest_ms = 0;
  for (int rank = 0; rank < ranks; ++rank) longest_ms = std::max(longest_ms, batch_ms(rank));
  for (int rank = 0; rank < ranks; ++rank) {
    TraceFile trace;
    for (int step = 0; step < steps; ++step) {
      const int round = step / every;
      const double round_ms = 5 + round * (every * longest_ms + 1);
      const double begin_ms = round_ms + step % every * batch_ms(rank);
      const double computed_ms = begin_ms + batch_ms(rank);
      const bool reduces = step % every == every - 1;
      const double end_ms = reduces ? round_ms + every * longest_ms + 1 : computed_ms;
      trace.Step(step, begin_ms, end_ms);
      trace.Event("forward", begin_ms, computed_ms);
      if (reduces) trace.AllReduce(round, computed_ms, end_ms);
    }
    AddWorker(rank, "node" + std::to_string(rank / 4), trace);
  }
}

void MadeRun::Write(const std::string& name, const std::string& bytes) const {
  std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
}

}  // namespace jobscope::analysis
