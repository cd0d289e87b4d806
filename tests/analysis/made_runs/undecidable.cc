// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "tests/analysis/made_runs/makers.h"

namespace jobscope::analysis {
namespace {

double FiftyMs(int /*rank*/, int /*step*/) { return 50; }

// Two of four ranks were recorded later: five steps are common to all.
void MakeFewCommon(MadeRun* run) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    const int first = rank < 2 ? 0 : 15;
    for (int step = first; step < first + 20; ++step) {
      const double begin_ms = 5 + step * 60;
      trace.Step(step, begin_ms, begin_ms + 60);
      trace.Event("forward", begin_ms, begin_ms + 50);
      trace.AllReduce(step, begin_ms + 50, begin_ms + 60);
    }
    run->AddWorker(rank, "node0", trace);
  }
}

// Events of the slow rank are lost.
void MakeLosses(MadeRun* run) {
  run->AddRanks(
      4, 40, [](int rank, int) { return rank == 1 ? 30.0 : 5.0; }, FiftyMs);
  run->workers_[1]["lost"] = 16;
}

// One rank's steps are not marked.
void MakeMissingSteps(MadeRun* run) {
  run->AddRanks(
      3, 40, [](int, int) { return 0.5; }, [](int, int) { return 12.0; });
  TraceFile trace;
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = 5 + step * 20.5;
    trace.AllReduce(step, begin_ms + 12.5, begin_ms + 20.5);
  }
  run->AddWorker(3, "node0", trace);
}

// `ranks` of a process group of four, which spend most of their time in its collectives.
void MakeMembers(int ranks, MadeRun* run) {
  for (int rank = 0; rank < ranks; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = 5 + step * 90;
      const double arrival_ms = begin_ms + 30 + Jitter(rank, step);
      trace.Step(step, begin_ms, begin_ms + 90);
      trace.Event("forward", begin_ms, arrival_ms);
      trace.Event("gloo:all_reduce", arrival_ms, begin_ms + 90,
                  {{"sequence", step}, {"group_size", 4}}, {{"process_group", "0"}},
                  "/device:CUSTOM:async");
    }
    run->AddWorker(rank, "node0", trace);
  }
}

// Workers that wait for nobody. The last one is slow, and alone records kernels.
void MakeUnlike(MadeRun* run) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    const double compute_ms = rank == 3 ? 30 : 15;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = step * (compute_ms + 2);
      trace.Step(step, begin_ms, begin_ms + compute_ms + 2);
      trace.Event("forward", begin_ms, begin_ms + compute_ms);
      if (rank == 3) trace.Kernel("gemm_f16_128x128", begin_ms, begin_ms + compute_ms);
    }
    run->AddWorker(rank, "node0", trace);
  }
}

// The same, of which the slow one has six steps in the time of the others' 200.
void MakeFewOfOne(MadeRun* run) {
  for (int rank = 0; rank < 2; ++rank) {
    TraceFile trace;
    const int steps = rank == 0 ? 200 : 6;
    const double step_ms = rank == 0 ? 10 : 330;
    for (int step = 0; step < steps; ++step) {
      trace.Step(step, step * step_ms, (step + 1) * step_ms);
      trace.Event("forward", step * step_ms, (step + 0.9) * step_ms);
    }
    run->AddWorker(rank, "node0", trace);
  }
}

void MakeNoSteps(MadeRun* run) {
  TraceFile trace;
  trace.Event("forward", 0, 10);
  run->AddWorker(0, "node0", trace);
}

// The recording lies within one step.
void MakeClippedStep(MadeRun* run) {
  TraceFile trace;
  trace.Event("train", 0, 500, {{"clipped_step", 7}, {"truncated", 1}});
  run->AddWorker(0, "node0", trace);
}

// Steps are marked at an instant instead of from begin to end.
void MakeEmptySteps(MadeRun* run) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) trace.Step(step, 10, 10);
  run->AddWorker(0, "node0", trace);
}

}  // namespace

Makers UndecidableMakers() {
  return {
      {"clocks",
       [](MadeRun* run) {
         run->AddRanks(4, 40, Jitter, [](int rank, int) { return rank == 1 ? 80.0 : 50.0; });
         for (auto& worker : run->workers_) worker["clock_uncertainty_ns"] = 40'000'000;
       }},
      {"losses", MakeLosses},
      {"no_steps", MakeNoSteps},
      {"clipped_step", MakeClippedStep},
      {"empty_steps", MakeEmptySteps},
      {"short",
       [](MadeRun* run) {
         run->AddRanks(1, 5, Jitter, FiftyMs);
         run->workers_[0]["lost"] = 3;
         run->workers_[0]["lost_by_cause"] = {{"overwritten", 3}};
       }},
      {"few_steps", [](MadeRun* run) { run->AddRanks(4, 7, Jitter, FiftyMs); }},
      {"few_common", MakeFewCommon},
      {"few_of_one", MakeFewOfOne},
      {"missing",
       [](MadeRun* run) {
         run->AddRanks(4, 40, Jitter, [](int, int) { return 12.0; });
         run->AddMissing("w4", "unreachable", "connection refused");
       }},
      {"missing_steps", MakeMissingSteps},
      {"members", [](MadeRun* run) { MakeMembers(/*ranks=*/2, run); }},
      {"one_of_many", [](MadeRun* run) { MakeMembers(/*ranks=*/1, run); }},
      {"unlike", MakeUnlike},
  };
}

}  // namespace jobscope::analysis
