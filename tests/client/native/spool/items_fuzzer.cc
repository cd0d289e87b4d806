// SPDX-License-Identifier: Apache-2.0
//
// What a worker streams, through receiver, spool, index and assembler to files: an error, or traces
// that protobuf reads and that have the events that were counted. The input is {limits, end of the
// stream}, then a sequence of {operation, size (2 bytes, little-endian), bytes}.
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "client/native/spool/item_receiver.h"
#include "client/native/spool/item_spooler.h"
#include "client/native/spool/spool_delivery.h"
#include "client/rpc/strand.h"
#include "client/run/write_pool.h"
#include "common/run/run_directory.h"
#include "tensorflow/xplane.pb.h"
#include "tests/fuzz_input.h"
#include "tests/silent_protobuf.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

constexpr uint64_t kPartLimitBytes = 4096;

// A message with one item, so that what the fuzzer makes up is a body and not its wrapping.
std::string OneItem(uint64_t number, uint8_t kind, std::string_view body) {
  std::string item;
  protozero::pbf_writer writer(item);
  writer.add_uint64(1, number);
  writer.add_bytes(std::max<uint32_t>(2, kind % 16), body.data(), body.size());
  std::string items;
  protozero::pbf_writer(items).add_message(1, item);
  return items;
}

// A message as it comes from the network, and is written on the disk's thread.
void Spool(const std::string& message, ItemSpooler* spooler) {
  const grpc::Slice slice(message);
  absl::Notification done;
  spooler->Take(std::make_shared<grpc::ByteBuffer>(&slice, 1),
                [&done](const absl::Status&, bool) { done.Notify(); });
  done.WaitForNotification();
}

// Items that came before, gaps, pieces, whole messages.
void Play(FuzzInput* input, ItemReceiver* receiver, ItemSpooler* spooler) {
  std::string last;
  while (!input->empty()) {
    const auto operation = input->Take<uint8_t>();
    const std::string bytes = input->TakeBytes16();
    const uint64_t next = receiver->received().last_item + 1;
    switch (operation % 8) {
      case 0:
        last = bytes;
        (void)receiver->Take(last).ok();
        break;
      case 1: {
        const absl::StatusOr<ItemChunk> chunk = ReadChunk(bytes);
        if (chunk.ok()) (void)receiver->TakeChunk(*chunk).ok();
        break;
      }
      case 2:  // once more
        (void)receiver->Take(last).ok();
        break;
      case 3: {  // a gap, or one that came before
        const uint64_t before = receiver->received().last_item;
        (void)receiver->Take(OneItem(next + 1, operation / 8, bytes)).ok();
        Require(receiver->received().last_item == before);
        break;
      }
      case 4: {  // in two pieces
        ItemChunk chunk;
        chunk.number = next;
        chunk.kind = static_cast<xspace::ItemKind>(2 + operation / 8 % 9);
        chunk.body_bytes = bytes.size();
        chunk.data = std::string_view(bytes).substr(0, bytes.size() / 2);
        if (!receiver->TakeChunk(chunk).ok()) break;
        chunk.offset = chunk.data.size();
        chunk.data = std::string_view(bytes).substr(chunk.offset);
        (void)receiver->TakeChunk(chunk).ok();
        break;
      }
      case 5:
        Spool(bytes, spooler);
        break;
      default:
        last = OneItem(next, operation / 8, bytes);
        (void)receiver->Take(last).ok();
    }
  }
}

// How the stream ended, and what was known of its clock.
void SetEnd(FuzzInput* input, SpooledCapture* capture) {
  const auto how = input->Take<uint8_t>();
  if ((how & 1) != 0) {
    capture->start.clock = ClockEstimate();
    capture->start.zero_unix_ns = input->Take<int64_t>();
    capture->start.clock->realtime_offset_ns = input->Take<int64_t>();
  }
  if ((how & 2) != 0) {
    capture->status = grpc::Status(grpc::StatusCode::UNAVAILABLE, input->TakeBytes8());
  }
  capture->after_end = (how & 4) != 0;
  capture->orderly_end = (how & 8) != 0;
  if ((how & 16) != 0) capture->announced_last_item = input->Take<uint8_t>();
  if ((how & 32) != 0) {
    capture->breaks = 1 + how / 64;
    capture->outage = absl::Seconds(1);
  }
  if ((how & 64) != 0) capture->start.steps.emplace();
  if (how == 128) capture->disk_error = absl::ResourceExhaustedError("the disk is full");
}

void Deliver(SpooledCapture capture, const RunDirectory& directory) {
  ManifestWorker account;
  const WorkerOutcome outcome =
      SpoolDelivery(std::move(capture)).Write(directory, "worker", &account);
  Require(IsDelivery(outcome.kind) || !outcome.reason.empty());
  Require(!IsDelivery(outcome.kind) || !account.files.empty());
  for (const ManifestFile& file : account.files) {
    const std::string text = ReadAll(directory.path() + "/" + file.path);
    Require(text.size() == file.bytes);
    tensorflow::profiler::XSpace space;
    Require(space.ParseFromString(text));
    uint64_t events = 0;
    for (const auto& plane : space.planes()) {
      for (const auto& line : plane.lines()) events += static_cast<uint64_t>(line.events_size());
    }
    Require(events == file.events);
  }
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
  static WritePool disk(1);
  FuzzInput input(data, size);
  const auto how = input.Take<uint8_t>();
  ReceiveLimits limits;
  limits.other_bytes = uint64_t{1} << (10 + how % 8);
  limits.tail_bytes = 1024;
  if ((how & 16) != 0) limits.index_bytes = 4096;
  SpooledCapture capture;
  capture.part_limit_bytes = kPartLimitBytes;
  SetEnd(&input, &capture);

  const auto owner = std::make_shared<int>();
  Strand strand;
  const auto receiver =
      std::make_shared<ItemReceiver>(directory.path(), (how & 8) != 0 ? 8192 : 0, limits);
  ItemSpooler spooler(receiver, &disk, &strand, owner);
  Play(&input, receiver.get(), &spooler);
  const absl::Status disk_error = capture.disk_error;
  spooler.MoveTo(&capture);
  if (capture.disk_error.ok()) capture.disk_error = disk_error;
  Deliver(std::move(capture), directory);
  return 0;
}
