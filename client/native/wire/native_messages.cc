// SPDX-License-Identifier: Apache-2.0
#include "client/native/wire/native_messages.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <vector>

#include "absl/time/time.h"
#include "client/clock/clock_sync.h"
#include "common/options/recording_options.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {
namespace {

uint64_t Nanoseconds(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(duration), 0));
}

// Converts to the worker's clock; at least 1, because 0 means "not known".
uint64_t Move(uint64_t monotonic_ns, int64_t offset_ns) {
  const int64_t moved = static_cast<int64_t>(monotonic_ns) + offset_ns;
  return static_cast<uint64_t>(std::max<int64_t>(moved, 1));
}

}  // namespace

std::string ArmBytes(const ArmCall& call) {
  v1::CaptureRequest request;
  v1::Arm& arm = *request.mutable_arm();
  arm.set_session_id(call.session_id);
  ToProto(call.recording, &arm);
  arm.set_lookback_ns(Nanoseconds(call.lookback));
  arm.set_by_steps(call.by_steps);
  arm.set_chunks(true);
  return request.SerializeAsString();
}

std::string StartBytes(const StartCall& call) {
  v1::CaptureRequest request;
  v1::Start& start = *request.mutable_start();
  if (call.clock.has_value()) {
    start.set_start_monotonic_ns(Move(call.start_monotonic_ns, call.clock->offset_ns));
    start.set_zero_monotonic_ns(Move(call.zero_monotonic_ns, call.clock->offset_ns));
    start.set_zero_unix_ns(call.zero_unix_ns);
    start.set_clock_uncertainty_ns(UncertaintyAt(*call.clock, call.start_monotonic_ns));
    start.set_clock_offset_ns(call.clock->realtime_offset_ns);
  }
  start.set_duration_ns(Nanoseconds(call.duration));
  if (call.steps.has_value()) *start.mutable_steps() = *call.steps;
  return request.SerializeAsString();
}

std::string ResumeBytes(const std::string& capture_key, uint64_t next_item, uint64_t next_offset) {
  v1::FetchRequest request;
  request.mutable_resume()->set_capture_key(capture_key);
  request.mutable_resume()->set_next_item(next_item);
  request.mutable_resume()->set_chunks(true);
  request.mutable_resume()->set_next_offset(next_offset);
  return request.SerializeAsString();
}

std::string AckBytes(ItemStream stream, uint64_t through) {
  if (stream == ItemStream::kFetch) {
    v1::FetchRequest request;
    request.mutable_ack()->set_through(through);
    return request.SerializeAsString();
  }
  v1::CaptureRequest request;
  request.mutable_ack()->set_through(through);
  return request.SerializeAsString();
}

std::string FinishBytes(ItemStream stream, bool abandon) {
  if (stream == ItemStream::kFetch) {
    v1::FetchRequest request;
    request.mutable_finish()->set_abandon(abandon);
    return request.SerializeAsString();
  }
  v1::CaptureRequest request;
  request.mutable_finish()->set_abandon(abandon);
  return request.SerializeAsString();
}

std::string PingBytes(uint64_t number) {
  v1::ClockPing ping;
  ping.set_number(number);
  return ping.SerializeAsString();
}

std::string Join(const grpc::ByteBuffer& bytes) {
  std::string joined;
  std::vector<grpc::Slice> slices;
  if (bytes.Length() == 0 || !bytes.Dump(&slices).ok()) return joined;
  joined.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices) {
    joined.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return joined;
}

int FirstByte(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  if (bytes.Length() == 0 || !bytes.Dump(&slices).ok()) return -1;
  for (const grpc::Slice& slice : slices) {
    if (slice.size() > 0) return *slice.begin();
  }
  return -1;
}

}  // namespace jobscope
