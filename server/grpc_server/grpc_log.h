// SPDX-License-Identifier: Apache-2.0
//
// Redirects gRPC's own messages: a worker's stderr belongs to the training job, so our private copy
// of gRPC must not write there.
#ifndef SERVER_GRPC_SERVER_GRPC_LOG_H_
#define SERVER_GRPC_SERVER_GRPC_LOG_H_

namespace jobscope {

// Sends gRPC's messages to common/log/log: errors at debug level, a failed assertion (which ends
// the process) at error level; drops everything else, whatever GRPC_VERBOSITY and GRPC_TRACE say.
// Call it before the first use of gRPC; further calls do nothing. If gRPC is a library that others
// in the process may share (development builds), its log stays unchanged; so does that of gRPC 1.67
// and newer, which is Abseil's and the program's.
void TakeOverGrpcLog();

}  // namespace jobscope

#endif  // SERVER_GRPC_SERVER_GRPC_LOG_H_
