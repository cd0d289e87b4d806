// SPDX-License-Identifier: Apache-2.0
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {

RunFixture::json RunFixture::ReportOf(const std::string& directory) {
  const absl::StatusOr<Digests> digests = ReadDigests(directory);
  EXPECT_TRUE(digests.ok()) << digests.status();
  if (!digests.ok()) return {};
  return json::parse(ReportJson(Reduce(*digests)), nullptr, false);
}

Digests RunFixture::DigestsOfRun() {
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  EXPECT_TRUE(digests.ok()) << digests.status();
  return digests.ok() ? *digests : Digests();
}

}  // namespace jobscope::analysis
