// SPDX-License-Identifier: Apache-2.0
#include "server/native/capture_response.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/text/foreign_text.h"
#include "server/limits.h"

namespace jobscope {

v1::CaptureResponse ArmedResponse(const NativeCapture& capture, uint64_t received_ns) {
  const SessionArmed armed = capture.armed();
  v1::CaptureResponse response;
  v1::Armed& answer = *response.mutable_armed();
  answer.set_capture_key(capture.key());
  for (const v1::CollectorState& state : armed.collectors) *answer.add_collectors() = state;
  answer.set_store_bytes(armed.store_bytes);
  answer.set_lookback_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(armed.lookback)));
  if (auto steps = capture.Steps()) *answer.mutable_steps() = *std::move(steps);
  answer.set_received_monotonic_ns(received_ns);
  answer.set_realtime_ns(static_cast<uint64_t>(RealtimeNs()));
  answer.set_sent_monotonic_ns(WorkerMonotonicNs());
  return response;
}

v1::CaptureResponse StartedResponse(const SessionStarted& started) {
  v1::CaptureResponse response;
  response.mutable_started()->set_start_monotonic_ns(started.start_monotonic_ns);
  response.mutable_started()->set_late_ns(started.late_ns);
  return response;
}

v1::CaptureResponse ProgressResponse(const NativeCapture& capture) {
  v1::CaptureResponse response;
  *response.mutable_progress() = capture.Progress();
  return response;
}

v1::CaptureResponse EndedResponse(const NativeCapture::Snapshot& snapshot,
                                  const ItemWriter& writer) {
  v1::CaptureResponse response;
  v1::Ended& ended = *response.mutable_ended();
  const bool delivers = snapshot.commanded && !snapshot.dropped;
  ended.set_last_item(delivers ? snapshot.last_item : writer.next() - 1);
  if (!snapshot.commanded && snapshot.result.ok()) {
    ended.set_code(static_cast<int>(absl::StatusCode::kCancelled));
    ended.set_reason("the capture was ended before it was started");
  } else if (!snapshot.result.ok()) {
    ended.set_code(static_cast<int>(snapshot.result.code()));
    ended.set_reason(Printable(snapshot.result.message(), limits::kMaxStatusTextBytes));
  } else if (writer.left_out() > 0) {
    ended.set_reason(absl::StrCat(writer.left_out(), " items are larger than ",
                                  limits::kMaxItemBytes,
                                  " bytes, the most that travels, and were sent empty"));
  }
  return response;
}

}  // namespace jobscope
