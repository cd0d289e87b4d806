// SPDX-License-Identifier: Apache-2.0
//
// jobscope.v1.Profiler: who the worker is, and the end of a running capture.
#ifndef SERVER_NATIVE_SERVICE_H_
#define SERVER_NATIVE_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>

#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "server/call_registry.h"
#include "server/continuous_profiling.h"
#include "server/session.h"
#include "server/step_source.h"

namespace jobscope {

// Answers at once, whatever the worker is doing.
class NativeService final : public v1::Profiler::WithRawCallbackMethod_Describe<
                                v1::Profiler::WithRawCallbackMethod_Stop<v1::Profiler::Service>> {
 public:
  struct Dependencies {
    std::shared_ptr<SessionManager> sessions;
    ContinuousProfiling* continuous = nullptr;  // outlives the service
    CallRegistry* calls = nullptr;              // likewise
    StepSource steps;
    v1::Identity identity;
    bool uses_tsc = true;
    uint64_t store_bytes = 0;
    uint64_t start_unix_ns = 0;  // when the server started
  };
  explicit NativeService(Dependencies dependencies);

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;

 private:
  v1::DescribeResponse Description() const;

  const Dependencies dependencies_;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_SERVICE_H_
