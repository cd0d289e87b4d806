// SPDX-License-Identifier: Apache-2.0
//
// Serialises a session's items as a tensorflow.ProfileResponse, without ever building that message.
#ifndef SERVER_TENSORFLOW_ANSWER_H_
#define SERVER_TENSORFLOW_ANSWER_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/xspace/segment/store.h"
#include "server/limits.h"

namespace jobscope {

struct AnswerOptions {
  // XSpace.hostnames[0], by which the client names its file.
  std::string hostname;
  // True: field `xspace`. False: one `tool_data` named xplane.pb, which stock clients write to
  // their own disk. Never both: the answer would have twice the bytes.
  bool emit_xspace = false;
  // Limit of the answer, above which RESOURCE_EXHAUSTED is returned: gRPC aborts the process on a
  // message of 2 GiB. Configurable for tests.
  uint64_t max_bytes = 0;
};

// How long a caller may take to receive its answer.
struct AnswerTimeouts {
  absl::Duration time = limits::kMaxAnswerTime;
  uint64_t bytes_per_second = limits::kMinAnswerBytesPerSecond;

  absl::Duration For(uint64_t bytes) const {
    return time + absl::Seconds(static_cast<double>(bytes) / static_cast<double>(bytes_per_second));
  }
};

struct Answer {
  grpc::ByteBuffer bytes;
  uint64_t size_bytes = 0;
  uint64_t events = 0;
};

// Runs on the caller's thread, at the assembler's speed (about 1 GB/s). Refers to long stretches of
// events, which keeps `store` alive until gRPC has sent them; copies short ones, and timelines
// whose segments had to be merged.
//
// `empty_trace` is always false, and written explicitly: a stock client that sees true discards the
// answer and repeats the whole capture, three or four times (measured). An answer always carries
// information: what was collected, what was lost, or why there is nothing.
absl::StatusOr<Answer> MakeProfileResponse(std::shared_ptr<const xspace::Store> store,
                                           const AnswerOptions& options);

}  // namespace jobscope

#endif  // SERVER_TENSORFLOW_ANSWER_H_
