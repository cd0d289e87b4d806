// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/analysis/made_runs/makers.h"

namespace jobscope::analysis {
namespace {

// The second stage of a pipeline begins when the first one has ended: 20 ms, then 30.
void MakePipeline(MadeRun* run) {
  TraceFile first;
  TraceFile second;
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = 5 + step * 51;
    first.Step(step, begin_ms, begin_ms + 51);
    first.Event("forward", begin_ms, begin_ms + 20);
    first.AllReduce(step, begin_ms + 20, begin_ms + 20.1, "send");
    first.AllReduce(step, begin_ms + 20.1, begin_ms + 51, "all");
    second.Step(step, begin_ms, begin_ms + 51);
    second.AllReduce(step, begin_ms, begin_ms + 20.1, "send");
    second.Event("forward", begin_ms + 20.1, begin_ms + 50.1);
    second.AllReduce(step, begin_ms + 50.1, begin_ms + 51, "all");
  }
  run->AddWorker(0, "node0", first);
  run->AddWorker(1, "node0", second);
}

// A rank that is late in every tenth step, `times` times.
void MakeLate(int ranks, int times, MadeRun* run) {
  run->AddRanks(ranks, 40, Jitter, [&](int rank, int step) {
    return rank == 3 && step % 10 == 7 && step < 10 * times ? 370.0 : 50.0;
  });
}

// In every tenth step another rank is late.
void MakeTurns(MadeRun* run) {
  run->AddRanks(8, 40, Jitter, [](int rank, int step) {
    return step % 10 == 7 && rank == step / 10 ? 350.0 : 50.0;
  });
}

// Four all_reduces per step. Half of the ranks are late at each, and in a whole step all work as
// long.
void MakeWithinStep(MadeRun* run) {
  constexpr int kRanks = 8;
  std::vector<TraceFile> traces(kRanks);
  double begin_ms = 5;
  for (int step = 0; step < 40; ++step) {
    const double step_begin_ms = begin_ms;
    for (int part = 0; part < 4; ++part) {
      const auto arrival_ms = [&](int rank) {
        return begin_ms + ((rank + part) % 4 < 2 ? 5 : 15) + 0.1 * Jitter(rank, step);
      };
      double end_ms = 0;
      for (int rank = 0; rank < kRanks; ++rank) {
        end_ms = std::max(end_ms, arrival_ms(rank) + 0.2);
      }
      for (int rank = 0; rank < kRanks; ++rank) {
        TraceFile& trace = traces[static_cast<size_t>(rank)];
        trace.Event("stage", begin_ms, arrival_ms(rank));
        trace.AllReduce(step * 4 + part, arrival_ms(rank), end_ms);
      }
      begin_ms = end_ms;
    }
    for (TraceFile& trace : traces) trace.Step(step, step_begin_ms, begin_ms);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    run->AddWorker(rank, "node0", traces[static_cast<size_t>(rank)]);
  }
}

}  // namespace

Makers WaitingMakers() {
  return {
      {"pipeline", MakePipeline},
      {"late", [](MadeRun* run) { MakeLate(/*ranks=*/8, /*times=*/4, run); }},
      {"late_by_chance", [](MadeRun* run) { MakeLate(/*ranks=*/16, /*times=*/3, run); }},
      {"turns", MakeTurns},
      {"within_step", MakeWithinStep},
  };
}

}  // namespace jobscope::analysis
