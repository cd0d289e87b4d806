// SPDX-License-Identifier: Apache-2.0
//
// A worker that compiles in each of its steps: it generates C for the size of the batch, as
// programs with a compiler of their own do, and no two batches are alike.
//
//   compile_loop DIRECTORY
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"

namespace {

using Norm = float (*)(const float*);

// Returns null, and says why, if it cannot be compiled.
Norm Compile(const std::string& path, size_t size) {
  JOBSCOPE_SCOPE("compile_norm", "compilation", 1, "size", size);
  std::ofstream(path + ".c") << "float norm(const float* x) { float sum = 0; for (int i = 0; i < "
                             << size << "; ++i) sum += x[i] * x[i]; return sum; }\n";
  const std::string command = C_COMPILER " -shared -fPIC -o " + path + ".so " + path + ".c";
  void* library = nullptr;
  const int made = std::system(command.c_str());  // NOLINT(bugprone-command-processor)
  if (made == 0) library = dlopen((path + ".so").c_str(), RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "compile_loop: %s failed\n", command.c_str());
    return nullptr;
  }
  return reinterpret_cast<Norm>(dlsym(library, "norm"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  jobscope::ProfilerServerOptions options;
  options.address = "127.0.0.1:0";
  const jobscope::ProfilerServer server = jobscope::ProfilerServer::Start(options);
  std::printf("listening on %s\n", server.address().c_str());
  std::fflush(stdout);
  for (int64_t step = 0;; ++step) {
    JOBSCOPE_STEP("train", step);
    const std::vector<float> batch(64 + static_cast<size_t>(step), 1.0F);
    const Norm norm = Compile(std::string(argv[1]) + "/norm" + std::to_string(step), batch.size());
    if (norm == nullptr) return 1;
    JOBSCOPE_SCOPE("norm");
    if (norm(batch.data()) <= 0) return 1;
  }
}
