// SPDX-License-Identifier: Apache-2.0
//
// Statuses that a worker answers with: each becomes an outcome with a reason of one bounded line.
// The first byte is the code, the second the moment; the rest is the text.
#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "client/worker/verdict.h"

namespace {

void Check(const jobscope::Verdict& verdict) {
  const std::string& reason = verdict.reason;
  if (reason.empty() || reason.size() > 8192) std::abort();
  if (jobscope::IsDelivery(verdict.outcome)) std::abort();
  for (const char c : reason) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) std::abort();  // a terminal obeys these
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto code = static_cast<grpc::StatusCode>(1 + data[0] % 16);
  const grpc::Status status(code, std::string(reinterpret_cast<const char*>(data) + 2, size - 2));
  using jobscope::Moment;
  constexpr Moment kMoments[] = {Moment::kBeforeStart, Moment::kRecording, Moment::kAfterEnd};
  Check(jobscope::JudgeDescribe(status, (data[1] & 4) != 0, absl::Seconds(5)));
  Check(jobscope::JudgeCapture(status, kMoments[data[1] % 3]));
  return 0;
}
