// SPDX-License-Identifier: Apache-2.0
//
// Workers that send any messages in any order over Capture, Fetch and SyncClock: the client reports
// once that it was armed, and once that the capture has ended, and all its files are traces. The
// input is what the client does, then what the worker does.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "client/native/native_worker.h"
#include "client/rpc/call_threads.h"
#include "client/run/write_pool.h"
#include "common/clock/monotonic.h"
#include "common/net/endpoint.h"
#include "common/run/run_directory.h"
#include "tests/client/fake_native_worker.h"
#include "tests/fuzz_input.h"
#include "tests/silent_protobuf.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

constexpr absl::Duration kTimeLimit = absl::Milliseconds(100);

// What is left of the input, for the worker's threads.
class WorkerInput {
 public:
  struct Step {
    uint8_t operation = 0;
    std::string bytes;
  };
  void Set(FuzzInput input) {
    const absl::MutexLock lock(&mutex_);
    input_ = input;
    next_item_ = 1;
  }
  bool Next(Step* step) {
    const absl::MutexLock lock(&mutex_);
    if (input_.empty()) return false;
    step->operation = input_.Take<uint8_t>();
    step->bytes = input_.TakeBytes8();
    return true;
  }
  uint64_t NextItem() {
    const absl::MutexLock lock(&mutex_);
    return next_item_++;
  }

 private:
  absl::Mutex mutex_;
  FuzzInput input_ ABSL_GUARDED_BY(mutex_){nullptr, 0};
  uint64_t next_item_ ABSL_GUARDED_BY(mutex_) = 1;
};

WorkerInput& Input() {
  static auto* const input = new WorkerInput;
  return *input;
}

std::string ItemsMessage(uint64_t number, uint32_t kind, const std::string& body) {
  std::string item;
  protozero::pbf_writer writer(item);
  writer.add_uint64(1, number);
  writer.add_bytes(kind, body);
  std::string items;
  protozero::pbf_writer(items).add_message(1, item);
  std::string message;
  protozero::pbf_writer(message).add_message(4, items);
  return message;
}

template <typename Request>
grpc::Status PlayWorker(FakeStream<Request>* stream) {
  WorkerInput::Step step;
  while (Input().Next(&step)) {
    const unsigned parameter = step.operation / 8;
    Request request;
    switch (step.operation % 8) {
      case 0:
        if (!stream->Read(&request)) return grpc::Status::OK;
        break;
      case 1:
        stream->SendRaw(step.bytes);
        break;
      case 2:
        stream->SendArmed(step.bytes);
        break;
      case 3:
        stream->SendStarted(MonotonicNow());
        break;
      case 4:
        stream->SendRaw(ItemsMessage(Input().NextItem(), 2 + parameter % 10, step.bytes));
        break;
      case 5:
        stream->SendEnded(parameter, static_cast<int>(step.bytes.size() % 17), step.bytes);
        break;
      case 6:
        stream->SendProgress(parameter);
        break;
      default:
        return grpc::Status(static_cast<grpc::StatusCode>(parameter % 17), step.bytes);
    }
  }
  return grpc::Status::OK;
}

std::string Pong(const v1::ClockPing& ping) {
  WorkerInput::Step step;
  if (!Input().Next(&step)) return "";
  if (step.operation % 2 == 0) return step.bytes;
  v1::ClockPong pong;
  pong.set_number(ping.number() + step.operation / 64);
  FuzzInput times(reinterpret_cast<const uint8_t*>(step.bytes.data()), step.bytes.size());
  pong.set_received_monotonic_ns(MonotonicNow() + times.Take<uint64_t>());
  pong.set_sent_monotonic_ns(MonotonicNow() + times.Take<uint64_t>());
  pong.set_realtime_ns(times.Take<uint64_t>());
  return pong.SerializeAsString();
}

FakeNativeWorker* Worker() {
  static auto* const worker = [] {
    FakeNativeWorker::Script script;
    script.capture = [](FakeCapture* capture) { return PlayWorker(capture); };
    script.fetch = [](FakeFetch* fetch, int) { return PlayWorker(fetch); };
    script.pong = &Pong;
    script.description.emplace().set_streams(true);
    return new FakeNativeWorker(std::move(script));
  }();
  return worker;
}

// The events of the worker.
struct Recorded {
  absl::Notification armed;
  grpc::Status armed_status;
  absl::Notification ended;
  grpc::Status ended_status;
  std::unique_ptr<Delivery> delivery;
};

WorkerEvents EventsOf(const std::shared_ptr<Recorded>& recorded) {
  WorkerEvents events;
  events.armed = [recorded](const grpc::Status& status, const v1::Armed&) {
    recorded->armed_status = status;
    recorded->armed.Notify();  // ends the program if it was notified before
  };
  events.started = [](const v1::Started&) {};
  events.progress = [](const v1::Progress&) {};
  events.note = [](const std::string& note) { Require(!note.empty()); };
  events.ended = [recorded](const grpc::Status& status, std::unique_ptr<Delivery> delivery) {
    Require(recorded->armed.HasBeenNotified());
    recorded->ended_status = status;
    recorded->delivery = std::move(delivery);
    recorded->ended.Notify();
  };
  return events;
}

void Capture(uint8_t how, const RunDirectory& directory) {
  static auto* const disk = new WritePool(1);
  static auto* const threads = new CallThreads;
  NativeWorkerOptions options;
  options.spool_directory = directory.path();
  options.resume_timeout = kTimeLimit;
  options.timeouts.silence = kTimeLimit;
  options.timeouts.probe = kTimeLimit;
  options.timeouts.stall = kTimeLimit;
  options.timeouts.repeat_ack = kTimeLimit / 4;
  NativeWorker worker(*ParseEndpoint(Worker()->address()), options, threads, disk);

  StartCall start;
  if ((how & 1) != 0) {
    absl::Notification done;
    worker.SyncClock(kTimeLimit, [&](const grpc::Status&, std::optional<ClockEstimate> clock) {
      start.clock = clock;
      done.Notify();
    });
    done.WaitForNotification();
  }
  const auto recorded = std::make_shared<Recorded>();
  ArmCall arm;
  arm.session_id = "fuzz";
  arm.file_stem = "worker";
  arm.timeout = kTimeLimit;
  worker.Arm(arm, EventsOf(recorded));
  recorded->armed.WaitForNotification();
  if (!recorded->armed_status.ok()) return;
  if (!start.clock.has_value()) start.clock = worker.arm_clock();
  start.start_monotonic_ns = start.zero_monotonic_ns = MonotonicNow();
  start.duration = (how & 2) != 0 ? absl::ZeroDuration() : absl::Milliseconds(20);
  start.transfer = kTimeLimit;
  if ((how & 4) != 0) start.steps.emplace();
  if ((how & 8) == 0) worker.Start(start);
  if ((how & 0x30) == 0x10) worker.Stop("fuzz", kTimeLimit, [](const grpc::Status&, bool) {});
  if ((how & 0x30) == 0x20 || (how & 8) != 0) worker.Cancel();
  recorded->ended.WaitForNotification();
  Require(recorded->delivery != nullptr || !recorded->ended_status.ok());
  if (recorded->delivery == nullptr) return;
  ManifestWorker account;
  const WorkerOutcome outcome = recorded->delivery->Write(directory, "worker", &account);
  Require(IsDelivery(outcome.kind) ? !account.files.empty() : !outcome.reason.empty());
}

RunDirectory MakeRun() {
  static const TemporaryDirectory logdir;
  RunDirectoryOptions options;
  options.logdir = logdir.path();
  options.run = "run";
  return *RunDirectory::Create(options);
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const SilentProtobuf silent;
  static const RunDirectory directory = MakeRun();
  FuzzInput input(data, size);
  const auto how = input.Take<uint8_t>();
  Input().Set(input);
  Capture(how, directory);
  Input().Set({nullptr, 0});
  return 0;
}
