// SPDX-License-Identifier: Apache-2.0
//
// Statuses that a worker answers with: each becomes an outcome with a reason of one bounded line,
// and so does the account of who holds a busy worker. What a worker tells of itself goes into the
// manifest, which stays JSON. The first byte is the code, the second the moment; the rest is the
// text, the account and the description.
#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "client/worker/worker_outcome.h"
#include "common/run/manifest.h"
#include "common/run/manifest_json.h"
#include "common/status/error_reason.h"
#include "jobscope/v1/profiler.pb.h"
#include "rpc/error_details.h"
#include "tests/fuzz_input.h"
#include "tests/silent_protobuf.h"

namespace jobscope {
namespace {

void CheckText(const std::string& text) {
  Require(!text.empty() && text.size() <= 8192);
  for (const char c : text) {
    Require(static_cast<unsigned char>(c) >= ' ' && c != 0x7f);  // a terminal obeys these
  }
}

void Check(const WorkerOutcome& outcome) {
  CheckText(outcome.reason);
  Require(!IsDelivery(outcome.kind));
  Require(Name(outcome.kind)[0] != '\0' && Name(outcome.phase)[0] != '\0');
  if (IsWorthRetrying(outcome.kind)) Require(outcome.phase <= Phase::kArm);
}

void CheckManifest(const v1::DescribeResponse& description) {
  Manifest manifest;
  FillFromDescription(description, &manifest.workers.emplace_back());
  Require(nlohmann::json::accept(ManifestJson(manifest)));
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const SilentProtobuf silent;
  if (size < 2) return 0;
  const auto code = static_cast<grpc::StatusCode>(1 + data[0] % 16);
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const grpc::Status status(code, text, text);  // the text also as the details
  constexpr Moment kMoments[] = {Moment::kBeforeStart, Moment::kRecording, Moment::kAfterEnd};
  Check(JudgeDescribe(status, (data[1] & 4) != 0, absl::Seconds(5)));
  Check(JudgeCapture(status, kMoments[data[1] % 3]));
  // What a worker writes as the reason is read back.
  const ErrorReason reason =
      (data[1] & 8) != 0 ? ErrorReason::kServerEnded : ErrorReason::kProcessLimit;
  const absl::Status refusal =
      WithReason(absl::Status(static_cast<absl::StatusCode>(code), text), reason);
  const grpc::Status reported(code, text, ErrorDetails(refusal));
  Require(HasReason(reported, reason));
  Check(JudgeDescribe(reported, true, absl::Seconds(5)));
  Check(JudgeCapture(reported, Moment::kRecording));
  v1::Busy busy;
  if (busy.ParseFromString(text)) CheckText(HeldBy(busy));
  v1::DescribeResponse description;
  if (description.ParseFromString(text)) CheckManifest(description);
  return 0;
}
