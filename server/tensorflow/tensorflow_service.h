// SPDX-License-Identifier: Apache-2.0
//
// Implements tensorflow.ProfilerService, as stock TensorFlow, JAX and XProf clients call it:
// docs/wire.md.
#ifndef SERVER_TENSORFLOW_TENSORFLOW_SERVICE_H_
#define SERVER_TENSORFLOW_TENSORFLOW_SERVICE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/limits.h"
#include "server/rpc/unary_call.h"
#include "server/services/service_context.h"
#include "server/tensorflow/answer.h"
#include "server/tensorflow/continuous_profiling.h"
#include "server/tensorflow/monitor.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace jobscope {

// A thin layer: converts a request into valid SessionOptions, which the one SessionManager runs,
// and converts the items into the answer. No thread waits while a capture runs, is queued or is
// delayed. All methods receive raw bytes: a typed answer of Profile would hold the trace three
// times, and gRPC would refuse an unparsable typed request without a message. Writes no file and
// takes no path from the wire.
class TensorflowService final
    : public tensorflow::ProfilerService::WithRawCallbackMethod_Profile<
          tensorflow::ProfilerService::WithRawCallbackMethod_GetSnapshot<
              tensorflow::ProfilerService::WithRawCallbackMethod_Terminate<
                  tensorflow::ProfilerService::WithRawCallbackMethod_Monitor<
                      tensorflow::ProfilerService::WithRawCallbackMethod_StartContinuousProfiling<
                          tensorflow::ProfilerService::
                              WithRawCallbackMethod_StopContinuousProfiling<
                                  tensorflow::ProfilerService::Service>>>>>> {
 public:
  struct Dependencies : ServiceContext {
    ContinuousProfiling* continuous = nullptr;  // outlives the service
    std::string host;  // of this worker: names traces whose request names nothing
    uint64_t max_answer_bytes = limits::kMaxAnswerBytes;
    AnswerTimeouts answer_timeouts;
  };
  explicit TensorflowService(Dependencies dependencies);

  grpc::ServerUnaryReactor* Profile(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetSnapshot(grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Terminate(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Monitor(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* StartContinuousProfiling(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* StopContinuousProfiling(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request,
                                                    grpc::ByteBuffer* response) override;

 private:
  CallContext ContextOf(const UnaryCall& call) const;
  // Runs the session and answers with its trace.
  void Capture(const std::shared_ptr<UnaryCall>& call, ProfileCall profile,
               grpc::ByteBuffer* response);

  const Dependencies dependencies_;
};

}  // namespace jobscope

#endif  // SERVER_TENSORFLOW_TENSORFLOW_SERVICE_H_
