// SPDX-License-Identifier: Apache-2.0
//
// gRPC's own messages. A worker's stderr belongs to the training job, so our private copy of gRPC
// must not write there.
#ifndef SERVER_GRPC_SERVER_GRPC_LOG_H_
#define SERVER_GRPC_SERVER_GRPC_LOG_H_

namespace jobscope {

// Sends gRPC's messages to common/log/log: errors at debug level, a failed assertion (which ends
// the process) at error level, everything else nowhere, whatever GRPC_VERBOSITY and GRPC_TRACE say.
// Call it before gRPC is used for the first time; more calls do nothing. Where gRPC is a library
// that others in the process may share (development builds), its log is left alone.
void TakeOverGrpcLog();

}  // namespace jobscope

#endif  // SERVER_GRPC_SERVER_GRPC_LOG_H_
