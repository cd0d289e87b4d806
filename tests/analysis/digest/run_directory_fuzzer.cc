// SPDX-License-Identifier: Apache-2.0
//
// Run directories with any manifest, any trace and any digests: an error, or a list of workers. The
// input is a manifest, up to the first zero byte; the digest of the run behind its size (2 bytes,
// little-endian); and what is taken for a worker's digest and its trace.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "analysis/digest/map_run.h"
#include "analysis/trace/run_files.h"
#include "tests/fuzz_input.h"
#include "tests/silent_protobuf.h"
#include "tests/temporary_directory.h"

namespace jobscope::analysis {
namespace {

void Check(const absl::StatusOr<Digests>& digests, const std::string& copies) {
  if (!digests.ok()) {
    Require(!digests.status().message().empty());
    return;
  }
  for (const auto& missing : digests->missing) Require(!missing.reason.empty());
  if (WriteDigests(*digests, copies).ok()) Require(ReadDigests(copies).ok());
}

}  // namespace
}  // namespace jobscope::analysis

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const SilentProtobuf silent;
  static const TemporaryDirectory root;
  const std::string run = root.path() + "/run";
  const std::string digests = root.path() + "/digests";
  const std::string copies = root.path() + "/copies";
  std::filesystem::create_directories(run);
  std::filesystem::create_directories(root.path() + "/run.part2");
  std::filesystem::create_directories(digests);
  std::filesystem::remove_all(copies);

  FuzzInput input(data, size);
  const std::string all(reinterpret_cast<const char*>(data), size);
  const std::string manifest = input.TakeBytes(std::min(all.find('\0'), all.size()));
  (void)input.Take<uint8_t>();
  const std::string run_digest = input.TakeBytes16();
  const std::string rest = input.TakeBytes(size);
  if (manifest.empty()) {
    std::filesystem::remove(run + "/capture.json");
  } else {
    root.Write("run/capture.json", manifest);
  }
  root.Write("run/w1_6009.xplane.pb", rest);
  root.Write("run.part2/w1_6009.xplane.pb", rest);
  root.Write("digests/run.digest", run_digest);
  root.Write("digests/w1_6009.digest", rest);

  const auto files = analysis::FindRunFiles(run);
  if (files.ok()) Require(files->has_manifest || !files->warnings.empty());
  analysis::Check(analysis::ReadDigests(run), copies);
  analysis::Check(analysis::ReadDigests(digests), copies);
  return 0;
}
