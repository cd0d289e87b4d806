// SPDX-License-Identifier: Apache-2.0
//
// Makers of the runs that tests/analysis/made_runs.cc writes, by what their verdicts are about.
#ifndef TESTS_ANALYSIS_MADE_RUNS_MAKERS_H_
#define TESTS_ANALYSIS_MADE_RUNS_MAKERS_H_

#include <functional>
#include <map>
#include <string>

#include "tests/analysis/made_run.h"

namespace jobscope::analysis {

using Maker = std::function<void(MadeRun*)>;
using Makers = std::map<std::string, Maker>;  // by the name of the run

Makers TrainingMakers();     // GPU jobs with all that the views show, one loader of which is slow
Makers StragglerMakers();    // some of the workers are slow
Makers WaitingMakers();      // workers that are late in turn, or now and then
Makers BoundMakers();        // a class of time bounds all workers alike, or none does
Makers UndecidableMakers();  // runs that allow no verdict

// A single worker of 40 steps of 10 ms. `add(begin_ms, trace)` adds what happens in one of them;
// `of_step`: the stats of each.
void MakeOneWorker(const std::function<void(double, TraceFile*)>& add, MadeRun* run,
                   const Stats& of_step = {});

}  // namespace jobscope::analysis

#endif  // TESTS_ANALYSIS_MADE_RUNS_MAKERS_H_
