// SPDX-License-Identifier: Apache-2.0
//
// Builds the responses of a capture's stream, all but its items.
#ifndef SERVER_NATIVE_CAPTURE_RESPONSE_H_
#define SERVER_NATIVE_CAPTURE_RESPONSE_H_

#include <cstdint>

#include "jobscope/v1/profiler.pb.h"
#include "server/native/items/item_writer.h"
#include "server/native/native_capture.h"

namespace jobscope {

// The capture is armed. Its `arm` arrived at `received_ns` on MONOTONIC.
v1::CaptureResponse ArmedResponse(const NativeCapture& capture, uint64_t received_ns);

v1::CaptureResponse StartedResponse(const SessionStarted& started);

v1::CaptureResponse ProgressResponse(const NativeCapture& capture);

// The capture is over, and `writer` has written all items that its client receives.
v1::CaptureResponse EndedResponse(const NativeCapture::Snapshot& snapshot,
                                  const ItemWriter& writer);

}  // namespace jobscope

#endif  // SERVER_NATIVE_CAPTURE_RESPONSE_H_
