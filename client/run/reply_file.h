// SPDX-License-Identifier: Apache-2.0
//
// Brings a worker's answer to disk and says what is in it.
#ifndef CLIENT_RUN_REPLY_FILE_H_
#define CLIENT_RUN_REPLY_FILE_H_

#include <grpcpp/support/byte_buffer.h>

#include <string>

#include "client/worker/outcome.h"
#include "common/run/manifest.h"
#include "common/run/run_directory.h"

namespace jobscope {

struct ReplyContext {
  // The worker is known to be one of ours (it answered Describe).
  bool native = false;
  // The client itself ended the recording early.
  bool stopped_early = false;
};

// Copies the trace from the answer's slices to "<stem>.xplane.pb", never parsed into objects and
// never joined: beyond the answer itself it takes a buffer of 256 KiB and, for the check of the
// written file, the system's page cache. A file appears under its final name only if it is a
// readable XSpace. `reply` is empty afterwards; its memory goes back as the copy proceeds, unless
// somebody else holds a copy of it. Fills `account` (files, counts, identity, warnings) and returns
// the verdict. Blocks for the disk. Thread-safe for different stems.
Verdict WriteReply(const RunDirectory& directory, const std::string& stem,
                   const ReplyContext& context, grpc::ByteBuffer* reply, ManifestWorker* account);

}  // namespace jobscope

#endif  // CLIENT_RUN_REPLY_FILE_H_
