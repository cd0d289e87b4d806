// SPDX-License-Identifier: Apache-2.0
//
// Run directories with any manifest and any digest: an error, or a list of workers. The input is a
// manifest and a digest, separated by the first NUL.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "analysis/digest/map_run.h"
#include "analysis/trace/run_files.h"
#include "tests/temporary_directory.h"

namespace {

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const google::protobuf::LogSilencer silencer;
  static const TemporaryDirectory root;
  static const std::string run = root.path() + "/run";
  static const std::string digests = root.path() + "/digests";
  std::filesystem::create_directory(run);
  std::filesystem::create_directory(digests);
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t middle = std::min(input.find('\0'), input.size());
  Write(run + "/capture.json", input.substr(0, middle));
  Write(run + "/w1_6009.xplane.pb", "");
  const auto files = analysis::FindRunFiles(run);
  if (files.ok() && !files->has_manifest && files->warnings.empty()) std::abort();
  const std::string digest = input.substr(std::min(middle + 1, input.size()));
  Write(digests + "/run.digest", digest);
  Write(digests + "/w1_6009.digest", digest);
  const auto read = analysis::ReadDigests(digests);
  if (read.ok()) {
    for (const auto& missing : read->missing) {
      if (missing.reason.empty()) std::abort();
    }
  }
  return 0;
}
