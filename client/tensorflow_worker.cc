// SPDX-License-Identifier: Apache-2.0
#include "client/tensorflow_worker.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/slice.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tensorflow/profiler_service.pb.h"

namespace jobscope {
namespace {

constexpr char kDescribe[] = "/jobscope.v1.Profiler/Describe";
constexpr char kStop[] = "/jobscope.v1.Profiler/Stop";
constexpr char kProfile[] = "/tensorflow.ProfilerService/Profile";
constexpr char kTerminate[] = "/tensorflow.ProfilerService/Terminate";

// Answers of Describe and Stop: a foreign server must not make us join gigabytes.
constexpr size_t kMaxSmallReplyBytes = 4 << 20;

std::shared_ptr<grpc::Channel> Dial(const Endpoint& endpoint, absl::Duration connect_timeout,
                                    int max_reply_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(max_reply_bytes);
  // Attempts, and the time each may take, are ours to count: no retry, no back-off that outlives a
  // channel.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(connect_timeout)));
  // A proxy that is set for the web does not lead to workers.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // No TXT look-up per worker.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return grpc::CreateCustomChannel(endpoint.target, grpc::InsecureChannelCredentials(), arguments);
}

template <typename Message>
bool Parse(const grpc::ByteBuffer& bytes, Message* message) {
  if (bytes.Length() > kMaxSmallReplyBytes) return false;
  std::vector<grpc::Slice> slices;
  if (bytes.Length() > 0 && !bytes.Dump(&slices).ok()) return false;
  std::string joined;
  joined.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices) {
    joined.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return message->ParseFromString(joined);
}

grpc::Status Unreadable() {
  return grpc::Status(grpc::StatusCode::INTERNAL, "the answer cannot be parsed");
}

}  // namespace

struct TensorflowWorker::Calls {
  absl::Mutex mutex;
  std::unordered_map<Call*, std::shared_ptr<Call>> in_flight ABSL_GUARDED_BY(mutex);
};

// Lives in `in_flight` from its start until it is done.
class TensorflowWorker::Call : public CallThreads::Call {
 public:
  Call(absl::Time deadline, std::shared_ptr<Calls> calls, CaptureDone done)
      : calls_(std::move(calls)), done_(std::move(done)) {
    context_.set_deadline(absl::ToChronoTime(deadline));
    context_.set_wait_for_ready(false);
  }

  void Start(const std::shared_ptr<grpc::Channel>& channel, const char* method,
             const grpc::ByteBuffer& request, grpc::CompletionQueue* queue) {
    reader_ = grpc::GenericStub(channel).PrepareUnaryCall(&context_, method, request, queue);
    reader_->StartCall();
    reader_->Finish(&reply_, &status_, static_cast<CallThreads::Call*>(this));
  }

  void Cancel() { context_.TryCancel(); }

  void OnDone() override {
    std::shared_ptr<Call> self;
    {
      const absl::MutexLock lock(&calls_->mutex);
      const auto it = calls_->in_flight.find(this);
      self = std::move(it->second);
      calls_->in_flight.erase(it);
    }
    done_(std::move(status_), std::move(reply_));
  }

 private:
  const std::shared_ptr<Calls> calls_;
  const CaptureDone done_;
  grpc::ClientContext context_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;
};

TensorflowWorker::TensorflowWorker(const Endpoint& endpoint, absl::Duration connect_timeout,
                                   int max_reply_bytes, CallThreads* threads)
    : channel_(Dial(endpoint, connect_timeout, max_reply_bytes)),
      calls_(std::make_shared<Calls>()),
      threads_(threads) {}

TensorflowWorker::~TensorflowWorker() { TensorflowWorker::Cancel(); }

void TensorflowWorker::Start(const char* method, const std::string& request, absl::Time deadline,
                             CaptureDone done) {
  const grpc::Slice slice(request);
  const auto call = std::make_shared<Call>(deadline, calls_, std::move(done));
  {
    const absl::MutexLock lock(&calls_->mutex);
    calls_->in_flight.emplace(call.get(), call);
  }
  call->Start(channel_, method, grpc::ByteBuffer(&slice, 1), threads_->queue());
}

void TensorflowWorker::Describe(absl::Time deadline, DescribeDone done) {
  Start(kDescribe, "", deadline,
        [done = std::move(done)](grpc::Status status, grpc::ByteBuffer bytes) {
          v1::DescribeResponse response;
          if (status.ok() && !Parse(bytes, &response)) status = Unreadable();
          done(std::move(status), std::move(response));
        });
}

void TensorflowWorker::Capture(const CaptureCall& call, CaptureDone done) {
  Start(kProfile, ProfileRequestBytes(call), call.deadline, std::move(done));
}

void TensorflowWorker::Stop(const std::string& session_id, bool native, absl::Time deadline,
                            StopDone done) {
  if (native) {
    v1::StopRequest request;
    request.set_session_id(session_id);
    Start(kStop, request.SerializeAsString(), deadline,
          [done = std::move(done)](grpc::Status status, const grpc::ByteBuffer& bytes) {
            v1::StopResponse response;
            if (status.ok() && !Parse(bytes, &response)) status = Unreadable();
            done(std::move(status), response.stopped());
          });
    return;
  }
  tensorflow::TerminateRequest request;
  request.set_session_id(session_id);
  Start(kTerminate, request.SerializeAsString(), deadline,
        [done = std::move(done)](grpc::Status status, const grpc::ByteBuffer&) {
          done(status, status.ok());
        });
}

void TensorflowWorker::Cancel() {
  std::vector<std::shared_ptr<Call>> calls;
  {
    const absl::MutexLock lock(&calls_->mutex);
    for (const auto& [key, call] : calls_->in_flight) calls.push_back(call);
  }
  for (const std::shared_ptr<Call>& call : calls) call->Cancel();
}

bool TensorflowWorker::connected() const {
  return channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
}

std::string ProfileRequestBytes(const CaptureCall& call) {
  const auto duration_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(call.duration));
  tensorflow::ProfileRequest request;
  request.set_duration_ms(duration_ms);
  request.add_tools("xplane.pb");
  request.set_repository_root(call.repository_root);
  request.set_session_id(call.session_id);
  request.set_host_name(call.file_stem);
  request.set_emit_xspace(true);
  tensorflow::ProfileOptions& options = *request.mutable_opts();
  options.set_version(1);
  options.set_include_dataset_ops(true);
  options.set_enable_hlo_proto(true);
  options.set_host_tracer_level(call.host_tracer_level);
  options.set_device_tracer_level(call.device_tracer_level);
  options.set_python_tracer_level(call.python_tracer_level);
  options.set_duration_ms(duration_ms);
  if (call.start.has_value()) {
    options.set_start_timestamp_ns(static_cast<uint64_t>(absl::ToUnixNanos(*call.start)));
  }
  return request.SerializeAsString();
}

}  // namespace jobscope
