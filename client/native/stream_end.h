// SPDX-License-Identifier: Apache-2.0
//
// Interprets the end of a stream.
#ifndef CLIENT_NATIVE_STREAM_END_H_
#define CLIENT_NATIVE_STREAM_END_H_

#include <grpcpp/support/status.h>

namespace jobscope {

// Returns whether the worker, or a proxy, has refused: a retry would have the same result.
bool IsRefusal(const grpc::Status& status);

}  // namespace jobscope

#endif  // CLIENT_NATIVE_STREAM_END_H_
