// SPDX-License-Identifier: Apache-2.0
//
// A server of jobscope.v1.Profiler that follows a script, message by message, also where no worker
// would.
#ifndef TESTS_CLIENT_FAKE_NATIVE_WORKER_H_
#define TESTS_CLIENT_FAKE_NATIVE_WORKER_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/native/wire/native_messages.h"
#include "common/clock/clock.h"
#include "jobscope/v1/profiler.pb.h"
#include "tests/client/fake_items.h"
#include "tests/client/fake_traces.h"

namespace jobscope {

using RawStream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

// One Capture or Fetch, as its script sees it. All functions block.
template <typename Request>
class FakeStream {
 public:
  explicit FakeStream(RawStream* stream) : stream_(stream) {}

  // False: the client has closed its side, or is gone.
  bool Read(Request* request) {
    grpc::ByteBuffer bytes;
    return stream_->Read(&bytes) && request->ParseFromString(Join(bytes));
  }
  bool SendRaw(const std::string& bytes) { return stream_->Write(Buffer(bytes)); }
  bool Send(const v1::CaptureResponse& response) { return SendRaw(response.SerializeAsString()); }

  bool SendArmed(const std::string& key = "key 1") {
    v1::CaptureResponse response;
    response.mutable_armed()->set_capture_key(key);
    response.mutable_armed()->set_store_bytes(1 << 28);
    return Send(response);
  }
  // A large item, from `offset` on, in pieces.
  bool SendChunks(const FakeItem& item, size_t bytes, size_t offset = 0) {
    while (offset < item.body.size()) {
      v1::CaptureResponse response;
      v1::Chunk& chunk = *response.mutable_chunk();
      chunk.set_number(item.number);
      chunk.set_kind(static_cast<uint32_t>(item.kind));
      chunk.set_body_bytes(item.body.size());
      chunk.set_offset(offset);
      chunk.set_data(item.body.substr(offset, bytes));
      if (!Send(response)) return false;
      offset += bytes;
    }
    return true;
  }
  bool SendStarted(uint64_t monotonic_ns = 1) {
    v1::CaptureResponse response;
    response.mutable_started()->set_start_monotonic_ns(monotonic_ns);
    return Send(response);
  }
  bool SendProgress(uint64_t events) {
    v1::CaptureResponse response;
    response.mutable_progress()->set_state("recording");
    response.mutable_progress()->set_events(events);
    return Send(response);
  }
  bool SendEnded(uint64_t last_item, int code = 0, const std::string& reason = "") {
    v1::CaptureResponse response;
    response.mutable_ended()->set_last_item(last_item);
    response.mutable_ended()->set_code(code);
    response.mutable_ended()->set_reason(reason);
    return Send(response);
  }
  // Items [begin, end) by index, one message for each of `per_message`.
  bool SendItems(const std::vector<FakeItem>& items, size_t begin = 0, size_t end = SIZE_MAX,
                 size_t per_message = 3) {
    end = std::min(end, items.size());
    for (size_t at = begin; at < end; at += per_message) {
      if (!SendRaw(ItemsMessage(items, at, std::min(end, at + per_message)))) return false;
    }
    return true;
  }
  // Reads until everything up to `through` is acknowledged.
  bool AwaitAck(uint64_t through) {
    Request request;
    while (Read(&request)) {
      if (request.has_ack() && request.ack().through() >= through) return true;
    }
    return false;
  }
  // Reads until the client ends the capture; false if it goes without a word.
  bool AwaitFinish(bool* abandon) {
    Request request;
    while (Read(&request)) {
      if (!request.has_finish()) continue;
      *abandon = request.finish().abandon();
      return true;
    }
    return false;
  }
  // Says nothing until the client is gone.
  void Hang() {
    Request request;
    while (Read(&request)) {
    }
  }

 private:
  RawStream* const stream_;
};

using FakeCapture = FakeStream<v1::CaptureRequest>;
using FakeFetch = FakeStream<v1::FetchRequest>;

class FakeNativeWorker {
 public:
  struct Script {
    std::function<grpc::Status(FakeCapture* capture)> capture;
    // `number` counts from 1.
    std::function<grpc::Status(FakeFetch* fetch, int number)> fetch;
    // Its clock, minus ours.
    int64_t clock_offset_ns = 0;
    int64_t realtime_offset_ns = 0;
    // What it says of itself; without it, it knows no Describe.
    std::optional<v1::DescribeResponse> description;
    // Answers a ping; by default with its clock.
    std::function<std::string(const v1::ClockPing& ping)> pong;
  };

  explicit FakeNativeWorker(Script script) : script_(std::move(script)), service_(this) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
  }
  ~FakeNativeWorker() {
    server_->Shutdown(absl::ToChronoTime(absl::Now()));
    server_->Wait();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int fetches() const {
    const absl::MutexLock lock(&mutex_);
    return fetches_;
  }
  int pings() const {
    const absl::MutexLock lock(&mutex_);
    return pings_;
  }

  // Reads `arm`, says armed, reads `start`.
  static bool Begin(FakeCapture* capture, v1::Start* start = nullptr, v1::Arm* arm = nullptr) {
    v1::CaptureRequest request;
    if (!capture->Read(&request) || !request.has_arm()) return false;
    if (arm != nullptr) *arm = request.arm();
    if (!capture->SendArmed() || !capture->Read(&request) || !request.has_start()) return false;
    if (start != nullptr) *start = request.start();
    return true;
  }

  // All of a capture, as a good worker does it.
  static grpc::Status SendAll(FakeCapture* capture, const std::vector<FakeItem>& items) {
    if (!Begin(capture)) return grpc::Status::CANCELLED;
    capture->SendStarted();
    capture->SendProgress(17);
    capture->SendItems(items);
    capture->SendEnded(items.size());
    capture->AwaitAck(items.size());
    return grpc::Status::OK;
  }

 private:
  // As the code that protoc generates, but for messages that are bytes.
  class Service : public grpc::Service {
   public:
    explicit Service(FakeNativeWorker* worker) : worker_(worker) {
      AddStream(kCaptureMethod, &Service::Capture);
      AddStream(kFetchMethod, &Service::Fetch);
      AddStream(kSyncClockMethod, &Service::SyncClock);
      if (!worker->script_.description.has_value()) return;
      AddMethod(new grpc::internal::RpcServiceMethod(
          "/jobscope.v1.Profiler/Describe", grpc::internal::RpcMethod::NORMAL_RPC,
          new grpc::internal::RpcMethodHandler<Service, grpc::ByteBuffer, grpc::ByteBuffer,
                                               grpc::ByteBuffer, grpc::ByteBuffer>(
              [](Service* service, grpc::ServerContext*, const grpc::ByteBuffer*,
                 grpc::ByteBuffer* response) {
                grpc::ByteBuffer bytes =
                    Buffer(service->worker_->script_.description->SerializeAsString());
                response->Swap(&bytes);
                return grpc::Status::OK;
              },
              this)));
    }

   private:
    using Method = grpc::Status (Service::*)(RawStream*);
    void AddStream(const char* path, Method method) {
      AddMethod(new grpc::internal::RpcServiceMethod(
          path, grpc::internal::RpcMethod::BIDI_STREAMING,
          new grpc::internal::BidiStreamingHandler<Service, grpc::ByteBuffer, grpc::ByteBuffer>(
              [method](Service* service, grpc::ServerContext*, RawStream* stream) {
                return (service->*method)(stream);
              },
              this)));
    }
    grpc::Status Capture(RawStream* stream) {
      FakeCapture capture(stream);
      return worker_->script_.capture(&capture);
    }
    grpc::Status Fetch(RawStream* stream) {
      FakeFetch fetch(stream);
      int number = 0;
      {
        const absl::MutexLock lock(&worker_->mutex_);
        number = ++worker_->fetches_;
      }
      return worker_->script_.fetch(&fetch, number);
    }
    grpc::Status SyncClock(RawStream* stream) {
      grpc::ByteBuffer bytes;
      while (stream->Read(&bytes)) {
        v1::ClockPing ping;
        (void)ping.ParseFromString(Join(bytes));
        if (!stream->Write(Buffer(worker_->Pong(ping)))) break;
      }
      return grpc::Status::OK;
    }

    FakeNativeWorker* const worker_;
  };

  std::string Pong(const v1::ClockPing& ping) {
    {
      const absl::MutexLock lock(&mutex_);
      ++pings_;
    }
    if (script_.pong) return script_.pong(ping);
    v1::ClockPong pong;
    pong.set_number(ping.number());
    const uint64_t now_ns = WorkerMonotonicNs() + static_cast<uint64_t>(script_.clock_offset_ns);
    pong.set_received_monotonic_ns(now_ns);
    pong.set_sent_monotonic_ns(now_ns);
    pong.set_realtime_ns(static_cast<uint64_t>(RealtimeNs() + script_.realtime_offset_ns));
    return pong.SerializeAsString();
  }

  const Script script_;
  mutable absl::Mutex mutex_;
  int fetches_ ABSL_GUARDED_BY(mutex_) = 0;
  int pings_ ABSL_GUARDED_BY(mutex_) = 0;
  int port_ = 0;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace jobscope

#endif  // TESTS_CLIENT_FAKE_NATIVE_WORKER_H_
