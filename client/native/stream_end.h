// SPDX-License-Identifier: Apache-2.0
//
// What the end of a stream means for its capture.
#ifndef CLIENT_NATIVE_STREAM_END_H_
#define CLIENT_NATIVE_STREAM_END_H_

#include <grpcpp/support/status.h>

namespace jobscope {

// The worker, or what stands for it, has decided: asking again would bring the same.
bool IsRefusal(const grpc::Status& status);

// The server of the worker has ended. Its captures are gone with it, and another server that may
// come in its place has none of them.
bool HasServerEnded(const grpc::Status& status);

}  // namespace jobscope

#endif  // CLIENT_NATIVE_STREAM_END_H_
