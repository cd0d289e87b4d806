// SPDX-License-Identifier: Apache-2.0
//
// Writes a worker's answer to disk and reports its contents.
#ifndef CLIENT_TENSORFLOW_REPLY_FILE_H_
#define CLIENT_TENSORFLOW_REPLY_FILE_H_

#include <grpcpp/support/byte_buffer.h>

#include <string>

#include "client/worker/worker_outcome.h"
#include "common/run/manifest.h"
#include "common/run/run_directory.h"

namespace jobscope {

struct ReplyContext {
  // The worker is known to be one of ours (it answered Describe).
  bool native = false;
  // The client itself ended the recording early.
  bool stopped_early = false;
};

// Copies the trace from the answer's slices to "<stem>.xplane.pb" without parsing or joining it.
// Beyond the answer itself it needs a buffer of 256 KiB and, to check the written file, the
// system's page cache. A file appears under its final name only if it is a readable XSpace. `reply`
// is empty afterwards; its memory is freed as the copy proceeds, unless another copy of it exists.
// Fills `account` (files, counts, identity, warnings) and returns the outcome. Blocks on the disk.
// Thread-safe for different stems.
WorkerOutcome WriteReply(const RunDirectory& directory, const std::string& stem,
                         const ReplyContext& context, grpc::ByteBuffer* reply,
                         ManifestWorker* account);

}  // namespace jobscope

#endif  // CLIENT_TENSORFLOW_REPLY_FILE_H_
