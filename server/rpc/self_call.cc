// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/self_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "absl/time/time.h"
#include "rpc/deadline.h"

namespace jobscope {
namespace {

constexpr absl::Duration kCancelTime = absl::Milliseconds(100);

// A call with a queue of its own. gRPC's callback threads could end such a call too, but gRPC joins
// them on the thread that releases the last call (observed in 1.51). If that is one of them, its
// queue is freed while it is in use.
struct Call {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
  grpc::Status status;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;

  bool AwaitEnd(absl::Duration limit) {
    void* tag = nullptr;
    bool ok = false;
    return queue.AsyncNext(&tag, &ok, DeadlineIn(limit)) == grpc::CompletionQueue::GOT_EVENT;
  }
};

}  // namespace

bool AnswersItself(grpc::Server* server, absl::Duration limit) {
  auto call = std::make_unique<Call>();
  const grpc::Slice whole_server;  // an empty message names no service: the whole server
  call->request = grpc::ByteBuffer(&whole_server, 1);
  grpc::GenericStub stub(server->InProcessChannel(grpc::ChannelArguments()));
  call->reader = stub.PrepareUnaryCall(&call->context, "/grpc.health.v1.Health/Check",
                                       call->request, &call->queue);
  call->reader->StartCall();
  call->reader->Finish(&call->response, &call->status, call.get());
  if (call->AwaitEnd(limit)) return call->status.ok();
  call->context.TryCancel();
  // The call may end much later, when gRPC has no thread for it: its buffers stay allocated.
  if (!call->AwaitEnd(kCancelTime)) (void)call.release();
  return false;
}

}  // namespace jobscope
