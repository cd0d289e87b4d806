// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/unary_calls.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/rpc/completion.h"
#include "jobscope/v1/profiler.pb.h"
#include "rpc/arguments.h"
#include "rpc/deadline.h"
#include "tensorflow/profiler_service.pb.h"

namespace jobscope {
namespace {

constexpr char kDescribe[] = "/jobscope.v1.Profiler/Describe";
constexpr char kStop[] = "/jobscope.v1.Profiler/Stop";
constexpr char kClose[] = "/jobscope.v1.Profiler/Close";
constexpr char kTerminate[] = "/tensorflow.ProfilerService/Terminate";

constexpr char kCompressedText[] =
    "the worker compresses its answers, which are refused: a small one could fill this machine's "
    "memory; is a proxy in between?";

grpc::Status Unreadable() {
  return grpc::Status(grpc::StatusCode::INTERNAL, "the answer cannot be parsed");
}

}  // namespace

struct UnaryCalls::InFlight {
  absl::Mutex mutex;
  std::unordered_map<Call*, std::shared_ptr<Call>> calls ABSL_GUARDED_BY(mutex);
};

// Owned by `InFlight` from its start until it is done.
class UnaryCalls::Call : public Completion {
 public:
  Call(absl::Duration timeout, std::shared_ptr<InFlight> in_flight, Done done)
      : in_flight_(std::move(in_flight)), done_(std::move(done)) {
    context_.set_deadline(DeadlineIn(timeout));
    context_.set_wait_for_ready(false);
  }

  void Start(const std::shared_ptr<grpc::Channel>& channel, const char* method,
             const grpc::ByteBuffer& request, grpc::CompletionQueue* queue) {
    reader_ = grpc::GenericStub(channel).PrepareUnaryCall(&context_, method, request, queue);
    reader_->StartCall();
    reader_->Finish(&reply_, &status_, static_cast<Completion*>(this));
  }

  void Cancel() { context_.TryCancel(); }

  void OnDone(bool) override {
    std::shared_ptr<Call> self;
    {
      const absl::MutexLock lock(&in_flight_->mutex);
      const auto it = in_flight_->calls.find(this);
      self = std::move(it->second);
      in_flight_->calls.erase(it);
    }
    // Unlike elsewhere, UNIMPLEMENTED here does not mean an older or stock worker.
    if (IsCompressed(status_)) status_ = grpc::Status(grpc::StatusCode::INTERNAL, kCompressedText);
    done_(status_, &reply_);
  }

 private:
  const std::shared_ptr<InFlight> in_flight_;
  const Done done_;
  grpc::ClientContext context_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
};

UnaryCalls::UnaryCalls(std::shared_ptr<grpc::Channel> channel, CallThreads* threads)
    : channel_(std::move(channel)),
      in_flight_(std::make_shared<InFlight>()),
      threads_(threads),
      lease_(threads) {}

UnaryCalls::~UnaryCalls() { CancelAll(); }

void UnaryCalls::Start(const char* method, const std::string& request, absl::Duration timeout,
                       Done done) {
  const grpc::Slice slice(request);
  const auto call = std::make_shared<Call>(timeout, in_flight_, std::move(done));
  {
    const absl::MutexLock lock(&in_flight_->mutex);
    in_flight_->calls.emplace(call.get(), call);
  }
  call->Start(channel_, method, grpc::ByteBuffer(&slice, 1), threads_->queue());
}

void UnaryCalls::Describe(absl::Duration timeout, WorkerClient::DescribeDone done) {
  Start(kDescribe, "", timeout,
        [done = std::move(done)](grpc::Status status, const grpc::ByteBuffer* bytes) {
          v1::DescribeResponse response;
          if (status.ok() && !ParseSmall(*bytes, &response)) status = Unreadable();
          done(std::move(status), std::move(response));
        });
}

void UnaryCalls::Stop(const std::string& session_id, absl::Duration timeout,
                      WorkerClient::StopDone done) {
  AskStop(session_id, timeout,
          [done = std::move(done)](const grpc::Status& status, const v1::StopResponse& response) {
            done(status, response.stopped());
          });
}

void UnaryCalls::AskStop(const std::string& session_id, absl::Duration timeout, StopAnswered done) {
  v1::StopRequest request;
  request.set_session_id(session_id);
  Start(kStop, request.SerializeAsString(), timeout,
        [done = std::move(done)](grpc::Status status, const grpc::ByteBuffer* bytes) {
          v1::StopResponse response;
          if (status.ok() && !ParseSmall(*bytes, &response)) status = Unreadable();
          done(status, std::move(response));
        });
}

void UnaryCalls::Close(absl::Duration timeout,
                       std::function<void(const grpc::Status& status)> done) {
  Start(kClose, v1::CloseRequest().SerializeAsString(), timeout,
        [done = std::move(done)](const grpc::Status& status, const grpc::ByteBuffer*) {
          done(status);
        });
}

void UnaryCalls::Terminate(const std::string& session_id, absl::Duration timeout,
                           WorkerClient::StopDone done) {
  tensorflow::TerminateRequest request;
  request.set_session_id(session_id);
  Start(kTerminate, request.SerializeAsString(), timeout,
        [done = std::move(done)](const grpc::Status& status, const grpc::ByteBuffer*) {
          done(status, status.ok());
        });
}

void UnaryCalls::CancelAll() {
  std::vector<std::shared_ptr<Call>> calls;
  {
    const absl::MutexLock lock(&in_flight_->mutex);
    calls.reserve(in_flight_->calls.size());
    for (const auto& [key, call] : in_flight_->calls) calls.push_back(call);
  }
  for (const std::shared_ptr<Call>& call : calls) call->Cancel();
}

bool ParseSmall(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  if (bytes.Length() > size_t{kMaxSmallReplyBytes}) return false;
  std::vector<grpc::Slice> slices;
  if (bytes.Length() > 0 && !bytes.Dump(&slices).ok()) return false;
  std::string joined;
  joined.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices) {
    joined.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return message->ParseFromString(joined);
}

}  // namespace jobscope
