// SPDX-License-Identifier: Apache-2.0
//
// Implements jobscope.v1.Profiler: the worker's identity, its clocks, and streamed captures.
#ifndef SERVER_NATIVE_NATIVE_SERVICE_H_
#define SERVER_NATIVE_NATIVE_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>

#include "common/process/identity.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "server/native/capture_stream.h"
#include "server/native/native_captures.h"
#include "server/services/server_closer.h"
#include "server/services/service_context.h"

namespace jobscope {

// Describe and Stop answer at once, whatever the worker is doing; Close, once the port is closed.
// No method blocks a thread.
class NativeService final
    : public v1::Profiler::WithRawCallbackMethod_Describe<
          v1::Profiler::WithRawCallbackMethod_Stop<v1::Profiler::WithRawCallbackMethod_SyncClock<
              v1::Profiler::WithRawCallbackMethod_Capture<v1::Profiler::WithRawCallbackMethod_Fetch<
                  v1::Profiler::WithRawCallbackMethod_Close<v1::Profiler::Service>>>>>> {
 public:
  struct Dependencies : ServiceContext {
    std::function<bool()> continuous_on;  // whether continuous profiling is on
    IdentitySource identity;
    bool uses_tsc = true;
    uint64_t start_unix_ns = 0;  // when the server started
    NativeCaptureLimits limits;
    ServerCloser closer;
  };
  explicit NativeService(Dependencies dependencies);

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SyncClock(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Capture(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Fetch(
      grpc::CallbackServerContext* context) override;

  grpc::ServerUnaryReactor* Close(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;

  // Drops captures without a stream now, others when their streams end.
  void EndCaptures() { captures_->Close(); }
  size_t captures() const { return captures_->size(); }

 private:
  v1::DescribeResponse Description() const;

  const Dependencies dependencies_;
  const std::shared_ptr<NativeCaptures> captures_;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_NATIVE_SERVICE_H_
