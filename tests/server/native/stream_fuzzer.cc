// SPDX-License-Identifier: Apache-2.0
//
// Clients that send any messages in any order over Capture, Fetch and SyncClock, close and break
// off streams, make unary calls with any bytes, and present any authorization, with TLS or without:
// each stream ends, only the token is let in, and the worker serves the next client.
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/sync_stream.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/log/log.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "server/grpc_server/grpc_server.h"
#include "server/limits.h"
#include "server/listen/listen_address.h"
#include "server/services/step_source.h"
#include "server/session/session_manager.h"
#include "tests/certificates.h"
#include "tests/fuzz_input.h"
#include "tests/server/session/fake_collector.h"
#include "tests/silent_protobuf.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

constexpr char kToken[] = "0123456789abcdef-token";
constexpr absl::Duration kRecording = absl::Milliseconds(10);
// With a client that says nothing. Ticks are shorter, so that it is checked in time.
constexpr absl::Duration kTimeLimit = absl::Milliseconds(20);
constexpr absl::Duration kTick = absl::Milliseconds(5);
constexpr uint64_t kPings = 3;

// Has an item that travels in pieces.
class LargeCollector : public FakeCollector {
 public:
  LargeCollector() : FakeCollector("large") {}
  absl::Status Arm(const ArmRequest& request) override {
    sink_ = request.sink;
    return FakeCollector::Arm(request);
  }
  absl::Status Stop(uint64_t end_ticks) override {
    const std::string body(limits::kMaxMessageItemBytes + 1, 'x');
    Require(sink_->Append(xspace::ItemKind::kRawPlane, body));
    return FakeCollector::Stop(end_ticks);
  }

 private:
  xspace::ItemSink* sink_ = nullptr;
};

// Never destroyed: gRPC's threads run until the end.
class Worker {
 public:
  explicit Worker(const TemporaryDirectory& directory) {
    SetLogLevel(LogLevel::kOff);
    const Certificates& made = Certificates::Get();  // by a child, before gRPC has threads
    CredentialFiles files;
    files.token = {directory.Write("token", kToken), "JOBSCOPE_TOKEN_FILE"};
    Require(chmod(files.token.path.c_str(), 0600) == 0);
    channel = Serve(absl::StrCat("unix:", directory.path(), "/socket"), files,
                    grpc::InsecureChannelCredentials());
    files.tls_certificate = {made.Path("server.crt"), "JOBSCOPE_TLS_CERT"};
    files.tls_key = {made.Path("server.key"), "JOBSCOPE_TLS_KEY"};
    files.tls_authorities = {made.Path("ca.crt"), "JOBSCOPE_TLS_CA"};
    const auto client = grpc::SslCredentials(
        {made.Read("ca.crt"), made.Read("client.key"), made.Read("client.crt")});
    files.tls_allowed_names = "someone else,operator";
    with_tls = Serve("127.0.0.1:0", files, client);
    files.tls_allowed_names = "someone else";
    with_another_name = Serve("127.0.0.1:0", files, client);
  }
  static Worker& Get() {
    static const TemporaryDirectory directory;
    static auto* const worker = new Worker(directory);
    return *worker;
  }

  std::shared_ptr<grpc::Channel> channel;
  std::shared_ptr<grpc::Channel> with_tls;
  std::shared_ptr<grpc::Channel> with_another_name;  // than that which it accepts

 private:
  std::shared_ptr<grpc::Channel> Serve(const std::string& address, const CredentialFiles& files,
                                       const std::shared_ptr<grpc::ChannelCredentials>& client) {
    SessionManager::Dependencies dependencies;
    if (servers_.empty()) dependencies.collectors = {&collector_};
    dependencies.identity = [] { return v1::Identity(); };
    GrpcServerOptions options;
    options.address = *ParseListenAddress(address, std::nullopt);
    options.credentials = files;
    options.native_limits.hold = kTimeLimit;
    options.native_limits.armed = kTimeLimit;
    options.native_limits.stall = kTimeLimit;
    options.native_limits.resume = kTimeLimit;
    options.native_limits.clock_idle = kTimeLimit;
    options.native_limits.pings = kPings;
    options.native_limits.armed_tick = kTick;
    options.native_limits.steps_tick = kTick;
    options.native_limits.recording_tick = kTick;
    options.sessions = std::make_shared<SessionManager>(std::move(dependencies));
    options.set_recording = [](std::optional<int>) {};
    options.steps = [] { return StepHistory(); };
    options.closer = [](const std::function<void()>& closed) {
      closed();
      return absl::OkStatus();
    };
    auto server = GrpcServer::Start(std::move(options));
    Require(server.ok());
    servers_.push_back(*std::move(server));
    return grpc::CreateChannel(servers_.back()->address(), client);
  }

  LargeCollector collector_;
  std::vector<std::unique_ptr<GrpcServer>> servers_;
};

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

grpc::Status Describe(const std::shared_ptr<grpc::Channel>& channel,
                      const std::vector<std::string>& authorizations) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(9));
  for (const std::string& value : authorizations) context.AddMetadata("authorization", value);
  v1::DescribeResponse response;
  return v1::Profiler::NewStub(channel)->Describe(&context, {}, &response);
}

void CheckAuthorization(FuzzInput* input) {
  std::vector<std::string> values;
  const auto first = input->Take<uint8_t>();
  for (int count = first % 4; count > 0; --count) {
    std::string value;
    const auto how = input->Take<uint8_t>();
    if ((how & 1) != 0) value += (how & 2) != 0 ? "Bearer " : "bEARER ";
    if ((how & 4) != 0) value += kToken;
    if ((how & 8) != 0) value += input->TakeBytes8();
    // gRPC's clients send nothing else.
    const grpc_slice bytes = grpc_slice_from_static_buffer(value.data(), value.size());
    if (grpc_header_nonbin_value_is_legal(bytes) != 0) values.push_back(value);
  }
  Worker& worker = Worker::Get();
  if (first >= 192) return Require(!Describe(worker.with_another_name, values).ok());
  const bool admitted = Describe(first >= 128 ? worker.with_tls : worker.channel, values).ok();
  const bool one = values.size() == 1 && absl::StartsWithIgnoreCase(values[0], "Bearer ");
  const bool exact = one && values[0].substr(7) == kToken;
  // HTTP takes blanks from a value's ends.
  const bool good = one && absl::StripAsciiWhitespace(values[0].substr(7)) == kToken;
  Require(admitted ? good : !exact);
}

class Stream {
 public:
  explicit Stream(uint8_t kind) : fetches_(kind % 3 == 1) {
    static constexpr const char* kMethods[] = {"/jobscope.v1.Profiler/Capture",
                                               "/jobscope.v1.Profiler/Fetch",
                                               "/jobscope.v1.Profiler/SyncClock"};
    SetDeadline(&context_);
    context_.AddMetadata("authorization", absl::StrCat("Bearer ", kToken));
    stream_.reset(
        grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
            Worker::Get().channel.get(),
            grpc::internal::RpcMethod(kMethods[kind % 3],
                                      grpc::internal::RpcMethod::BIDI_STREAMING),
            &context_));
  }
  // Whatever was sent, the stream ends.
  ~Stream() {
    Close();
    while (Read()) {
    }
    (void)stream_->Finish();
  }

  // A request of Capture or Fetch; both have the same fields for `ack` and `finish`.
  void Send(const v1::CaptureRequest& capture, const v1::FetchRequest& fetch) {
    SendRaw(fetches_ ? fetch.SerializeAsString() : capture.SerializeAsString());
  }
  void SendRaw(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    if (!closed_) stream_->Write(grpc::ByteBuffer(&slice, 1));
  }
  // The next message that is no progress: how many of those there are depends on the machine.
  bool Read() {
    v1::CaptureResponse response;
    do {
      grpc::ByteBuffer bytes;
      if (!stream_->Read(&bytes)) return false;
      std::string text;
      std::vector<grpc::Slice> slices;
      if (bytes.Dump(&slices).ok()) {
        for (const grpc::Slice& slice : slices) {
          text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
        }
      }
      if (!response.ParseFromString(text)) return true;
    } while (response.has_progress());
    if (response.has_armed()) LastKey() = response.armed().capture_key();
    return true;
  }
  void Close() {
    if (!std::exchange(closed_, true)) stream_->WritesDone();
  }
  void Cancel() { context_.TryCancel(); }

  // Of the capture that was armed last.
  static std::string& LastKey() {
    static auto* const key = new std::string;
    return *key;
  }

 private:
  const bool fetches_;
  bool closed_ = false;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
};

void CallUnary(FuzzInput* input) {
  static constexpr const char* kMethods[] = {"/jobscope.v1.Profiler/Describe",
                                             "/jobscope.v1.Profiler/Stop",
                                             "/jobscope.v1.Profiler/Close"};
  const char* const method = kMethods[input->Take<uint8_t>() % 3];
  grpc::ClientContext context;
  SetDeadline(&context);
  context.AddMetadata("authorization", absl::StrCat("Bearer ", kToken));
  const grpc::Slice slice(input->TakeBytes8());
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  (void)grpc::internal::BlockingUnaryCall(
      Worker::Get().channel.get(),
      grpc::internal::RpcMethod(method, grpc::internal::RpcMethod::NORMAL_RPC), &context, request,
      &response);
}

void Play(FuzzInput* input) {
  auto stream = std::make_unique<Stream>(input->Take<uint8_t>());
  for (int streams = 1; !input->empty();) {
    const auto operation = input->Take<uint8_t>();
    v1::CaptureRequest capture;
    v1::FetchRequest fetch;
    switch (operation % 10) {
      case 0:
        stream->SendRaw(input->TakeBytes8());
        break;
      case 1: {
        v1::Arm& arm = *capture.mutable_arm();
        arm.set_session_id(input->TakeBytes(operation / 64));
        arm.set_host_tracer_level(operation / 32);
        arm.set_chunks((operation & 16) != 0);
        arm.set_by_steps((operation & 8) != 0);
        stream->Send(capture, fetch);
        break;
      }
      case 2:
        capture.mutable_start()->set_duration_ns(
            static_cast<uint64_t>(absl::ToInt64Nanoseconds(kRecording)));
        stream->Send(capture, fetch);
        break;
      case 3: {
        const auto through = input->Take<uint8_t>();
        capture.mutable_ack()->set_through(through);
        fetch.mutable_ack()->set_through(through);
        stream->Send(capture, fetch);
        break;
      }
      case 4:
        capture.mutable_finish()->set_abandon(operation >= 128);
        fetch.mutable_finish()->set_abandon(operation >= 128);
        stream->Send(capture, fetch);
        break;
      case 5: {
        v1::Resume& resume = *fetch.mutable_resume();
        resume.set_capture_key(operation < 192 ? Stream::LastKey() : input->TakeBytes8());
        resume.set_next_item(input->Take<uint8_t>());
        resume.set_next_offset(input->Take<uint8_t>());
        resume.set_chunks(operation >= 128);
        stream->Send(capture, fetch);
        break;
      }
      case 6:
        stream->Close();
        break;
      case 7:  // another stream, after the end of this one or in the middle of it
        if (++streams > 4) return;
        if (operation >= 128) stream->Cancel();
        stream = std::make_unique<Stream>(operation / 16);
        break;
      case 9:
        CallUnary(input);
        break;
      default:
        (void)stream->Read();
    }
  }
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const SilentProtobuf silent;
  FuzzInput input(data, size);
  CheckAuthorization(&input);
  Play(&input);
  Require(Describe(Worker::Get().channel, {absl::StrCat("Bearer ", kToken)}).ok());
  return 0;
}
