// SPDX-License-Identifier: Apache-2.0
//
// A server that behaves like a worker, or misbehaves like one.
#ifndef TESTS_CLIENT_FAKE_WORKER_H_
#define TESTS_CLIENT_FAKE_WORKER_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/client/fake_traces.h"

namespace jobscope {

// Profile answers raw bytes, so that it can answer nonsense. One thread per call: tests have few.
class FakeWorker {
 public:
  struct Answer {
    grpc::Status status;
    std::string bytes;  // of a ProfileResponse
  };

  struct Behavior {
    std::string listen = "127.0.0.1:0";
    // Speaks jobscope.v1.Profiler too; otherwise Describe and Stop are UNIMPLEMENTED, as with a
    // stock worker.
    bool native = true;
    // Says in Describe that it streams too. It does not: for `check` alone.
    bool streams = false;
    std::optional<v1::Busy> busy;
    uint64_t max_duration_ms = 0;
    // Waits for the duration, or for Stop, Terminate, cancel, before it answers.
    bool waits = true;
    // So many Terminate calls, the first ones, have no effect and no answer.
    int lost_terminates = 0;
    // What Terminate answers otherwise; unless it is OK, it has no effect either.
    grpc::Status terminate;
    // Called when a recording has begun.
    std::function<void()> on_recording;
    // What it answers; by default a trace of 10 events.
    std::function<Answer(const tensorflow::ProfileRequest& request, bool stopped)> answer;
  };

  explicit FakeWorker(Behavior behavior)
      : behavior_(std::move(behavior)), native_(this), profiler_(this) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(behavior_.listen, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&profiler_);
    if (behavior_.native) builder.RegisterService(&native_);
    server_ = builder.BuildAndStart();
  }

  ~FakeWorker() {
    {
      // The server waits for calls that are recording.
      const absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    server_->Shutdown(absl::ToChronoTime(absl::Now()));
    std::vector<std::thread> threads;
    {
      const absl::MutexLock lock(&mutex_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
    server_->Wait();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  std::vector<tensorflow::ProfileRequest> requests() const {
    const absl::MutexLock lock(&mutex_);
    return requests_;
  }
  // When the first of them came; in the infinite future if none has.
  absl::Time first_request() const {
    const absl::MutexLock lock(&mutex_);
    return first_request_;
  }
  int terminates() const { return terminates_; }
  std::vector<std::string> stopped_sessions() const {
    const absl::MutexLock lock(&mutex_);
    return {stops_.begin(), stops_.end()};
  }
  // Waits until `count` Profile calls have arrived.
  bool AwaitRequests(size_t count, absl::Duration timeout = absl::Minutes(1)) const {
    const absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return requests_.size() >= count;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), timeout);
  }

  static Answer Trace(const tensorflow::ProfileRequest& request, bool stopped, bool native,
                      int events) {
    v1::Summary summary = MakeSummary(static_cast<uint64_t>(events));
    summary.set_truncated(stopped);
    if (stopped) summary.set_ended_by("request");
    tensorflow::ProfileResponse response;
    *response.mutable_xspace() =
        MakeTrace(events, request.host_name(), native ? &summary : nullptr);
    return {grpc::Status::OK, response.SerializeAsString()};
  }

 private:
  class Native : public v1::Profiler::CallbackService {
   public:
    explicit Native(FakeWorker* worker) : worker_(worker) {}
    grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                       const v1::DescribeRequest*,
                                       v1::DescribeResponse* response) override {
      response->set_version("0.1.0");
      response->set_streams(worker_->behavior_.streams);
      response->mutable_identity()->set_host("node1");
      response->mutable_identity()->set_pid(4711);
      response->mutable_limits()->set_max_duration_ms(worker_->behavior_.max_duration_ms);
      v1::CollectorState& host = *response->add_collectors();
      host.set_name("host");
      host.set_state("on");
      if (worker_->behavior_.busy) *response->mutable_busy() = *worker_->behavior_.busy;
      grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
      reactor->Finish(grpc::Status::OK);
      return reactor;
    }
    grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                   const v1::StopRequest* request,
                                   v1::StopResponse* response) override {
      response->set_stopped(worker_->StopSession(request->session_id()));
      grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
      reactor->Finish(grpc::Status::OK);
      return reactor;
    }

   private:
    FakeWorker* const worker_;
  };

  using RawProfiler = tensorflow::ProfilerService::WithRawCallbackMethod_Profile<
      tensorflow::ProfilerService::WithCallbackMethod_Terminate<
          tensorflow::ProfilerService::Service>>;

  class Profiler : public RawProfiler {
   public:
    explicit Profiler(FakeWorker* worker) : worker_(worker) {}
    grpc::ServerUnaryReactor* Profile(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override {
      return worker_->OnProfile(context, *request, response);
    }
    grpc::ServerUnaryReactor* Terminate(grpc::CallbackServerContext* context,
                                        const tensorflow::TerminateRequest* request,
                                        tensorflow::TerminateResponse*) override {
      if (worker_->terminates_++ < worker_->behavior_.lost_terminates) return new Silence();
      const grpc::Status& status = worker_->behavior_.terminate;
      if (status.ok()) worker_->StopSession(request->session_id());
      grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
      reactor->Finish(status);
      return reactor;
    }

   private:
    // A call that is not answered until its caller gives up.
    class Silence : public grpc::ServerUnaryReactor {
      void OnCancel() override { Finish(grpc::Status::CANCELLED); }
      void OnDone() override { delete this; }
    };

    FakeWorker* const worker_;
  };

  bool StopSession(const std::string& session_id) {
    const absl::MutexLock lock(&mutex_);
    stops_.insert(session_id.empty() ? running_ : session_id);
    return !running_.empty();
  }

  grpc::ServerUnaryReactor* OnProfile(grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer& bytes, grpc::ByteBuffer* response) {
    tensorflow::ProfileRequest request;
    std::vector<grpc::Slice> slices;
    std::string joined;
    if (bytes.Dump(&slices).ok()) {
      for (const grpc::Slice& slice : slices) {
        joined.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
    }
    (void)request.ParseFromString(joined);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const absl::MutexLock lock(&mutex_);
    if (requests_.empty()) first_request_ = absl::Now();
    requests_.push_back(request);
    running_ = request.session_id();
    threads_.emplace_back([this, request, context, reactor, response] {
      const bool stopped = WaitForEnd(request, context);
      const Answer answer = behavior_.answer ? behavior_.answer(request, stopped)
                                             : Trace(request, stopped, behavior_.native, 10);
      *response = Buffer(answer.bytes);
      reactor->Finish(answer.status);
    });
    return reactor;
  }

  // True if stopped before the end.
  bool WaitForEnd(const tensorflow::ProfileRequest& request, grpc::CallbackServerContext* context) {
    if (!behavior_.waits) return false;
    const absl::Time start =
        std::max(absl::Now(),
                 absl::FromUnixNanos(static_cast<int64_t>(request.opts().start_timestamp_ns())));
    const auto ended = [this, context, &request]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return closing_ || stops_.count(request.session_id()) > 0 || context->IsCancelled();
    };
    const absl::MutexLock lock(&mutex_);
    bool stopped = mutex_.AwaitWithDeadline(absl::Condition(&ended), start);
    if (behavior_.on_recording) behavior_.on_recording();
    if (!stopped) {
      stopped = mutex_.AwaitWithDeadline(absl::Condition(&ended),
                                         start + absl::Milliseconds(request.opts().duration_ms()));
    }
    running_.clear();
    return stopped;
  }

  const Behavior behavior_;
  std::atomic<int> terminates_ = 0;
  mutable absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::string running_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> stops_ ABSL_GUARDED_BY(mutex_);
  std::vector<tensorflow::ProfileRequest> requests_ ABSL_GUARDED_BY(mutex_);
  absl::Time first_request_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  int port_ = 0;
  Native native_;
  Profiler profiler_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace jobscope

#endif  // TESTS_CLIENT_FAKE_WORKER_H_
