// SPDX-License-Identifier: Apache-2.0
//
// Interprets the end of a stream.
#ifndef CLIENT_NATIVE_STREAM_END_H_
#define CLIENT_NATIVE_STREAM_END_H_

#include <grpcpp/support/status.h>

namespace jobscope {

// Whether the worker, or a proxy, has refused: a retry would have the same result.
bool IsRefusal(const grpc::Status& status);

// The server of the worker has ended. Its captures are gone with it, and another server that may
// come in its place has none of them.
bool HasServerEnded(const grpc::Status& status);

}  // namespace jobscope

#endif  // CLIENT_NATIVE_STREAM_END_H_
