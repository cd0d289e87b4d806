// SPDX-License-Identifier: Apache-2.0
//
// Writes made-up runs for the tests of the program, for the examples of docs/report.md, one per
// verdict, and for its pictures. They have threads, GPU streams, allocators and counters where a
// view needs them.
//
// usage: made_runs DIRECTORY [RUN...]     (default: all but the crowd of 1,024 workers)
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/analysis/made_run.h"
#include "tests/analysis/made_runs/makers.h"

namespace jobscope::analysis {
namespace {

Makers AllMakers() {
  Makers all = TrainingMakers();
  all.merge(StragglerMakers());
  all.merge(WaitingMakers());
  all.merge(BoundMakers());
  all.merge(UndecidableMakers());
  return all;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs("usage: made_runs DIRECTORY [RUN...]\n", stderr);
    return 2;
  }
  const Makers makers = AllMakers();
  std::set<std::string> wanted(arguments.begin() + 1, arguments.end());
  if (wanted.empty()) {
    for (const auto& [name, maker] : makers) {
      if (name != "crowd") wanted.insert(name);
    }
  }
  for (const std::string& name : wanted) {
    const auto maker = makers.find(name);
    if (maker == makers.end()) {
      std::fprintf(stderr, "made_runs: no run is named %s\n", name.c_str());
      return 2;
    }
    const std::string directory = arguments[0] + "/" + name;
    std::filesystem::create_directories(directory);
    MadeRun run(directory, name);
    maker->second(&run);
    run.WriteManifest();
  }
  return 0;
}

}  // namespace
}  // namespace jobscope::analysis

int main(int argc, char** argv) { return jobscope::analysis::Main({argv + 1, argv + argc}); }
