// SPDX-License-Identifier: Apache-2.0
#include "tests/server/native/native_fixture.h"

#include <utility>

#include "common/xspace/segment/segment.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope {

template class TestStream<v1::CaptureRequest>;
template class TestStream<v1::FetchRequest>;

absl::Status FloodCollector::Arm(const ArmRequest& request) {
  request_ = request;
  ++sessions_;
  attempted_ = 0;
  taken_ = 0;
  plane_ = request_.names->Plane("/host:flood", 0);
  line_ = request_.names->Line(plane_, 1, "line");
  event_ = request_.names->Event(plane_, "event");
  payload_ = request_.names->Stat(plane_, "payload");
  return absl::OkStatus();
}

absl::Duration FloodCollector::Drain() {
  // A collector stops draining while the store is full, and what it cannot keep is lost.
  for (uint64_t i = 0; i < per_drain_ && attempted_ < total_; ++i) {
    if (!AppendSegment()) break;
  }
  return absl::Milliseconds(1);
}

absl::Status FloodCollector::Stop(uint64_t /*end_ticks*/) {
  if (raw_plane_bytes_ > 0) {
    tensorflow::profiler::XPlane plane;
    plane.set_name("/device:flood");
    std::string& name = *plane.add_lines()->mutable_name();
    name.assign(raw_plane_bytes_, 'x');
    name.resize(raw_plane_bytes_ - (plane.ByteSizeLong() - raw_plane_bytes_));
    v1::RawPlane raw;
    raw.set_plane(plane.SerializeAsString());
    EXPECT_EQ(raw.plane().size(), raw_plane_bytes_);
    EXPECT_TRUE(request_.sink->Append(xspace::ItemKind::kRawPlane, raw.SerializeAsString()));
  }
  return absl::OkStatus();
}

CollectorReport FloodCollector::Report() {
  CollectorReport report;
  report.attempted = attempted_;
  report.events = taken_;
  if (attempted_ > taken_) report.lost_by_cause[LossCause::kStoreFull] = attempted_ - taken_;
  return report;
}

bool FloodCollector::AppendSegment() {
  const uint64_t number = attempted_ + 1;
  if (request_.sink->Full()) {
    if (!patient_) attempted_ = number;
    return !patient_;
  }
  stats_.Clear();
  stats_.Bytes(payload_, std::string(segment_bytes_, static_cast<char>(number)));
  xspace::SegmentBuilder segment(request_.sink, plane_, line_, 1);
  xspace::SegmentEvent event;
  event.start_ps = static_cast<int64_t>(number);
  event.duration_ps = 1;
  event.metadata_id = event_;
  event.stats = stats_.bytes();
  segment.Add(event);
  segment.Flush();
  const uint64_t taken = segment.appended_events();
  if (taken == 0 && patient_) return false;
  attempted_ = number;
  taken_ += taken;
  return true;
}

void NativeFixture::StartFlood(GrpcServerOptions options) {
  EXPECT_TRUE(sessions_->Shutdown(absl::Minutes(1)));
  SessionManager::Dependencies dependencies;
  dependencies.collectors = {&flood_};
  dependencies.identity = [this] { return identity_; };
  sessions_ = std::make_shared<SessionManager>(std::move(dependencies));
  options.sessions = sessions_;
  StartServer(std::move(options));
}

v1::CaptureRequest NativeFixture::ArmRequestOf(const std::string& session_id) {
  v1::CaptureRequest request;
  request.mutable_arm()->set_session_id(session_id);
  request.mutable_arm()->set_host_tracer_level(2);
  return request;
}

v1::CaptureRequest NativeFixture::StartRequestOf(absl::Duration duration) {
  v1::CaptureRequest request;
  request.mutable_start()->set_duration_ns(
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(duration)));
  return request;
}

std::unique_ptr<NativeFixture::CaptureStream> NativeFixture::Open() {
  auto stream = std::make_unique<CaptureStream>();
  stream->stream = native_->Capture(&stream->context);
  return stream;
}

std::unique_ptr<NativeFixture::CaptureStream> NativeFixture::Arm(const std::string& session_id) {
  return Arm(ArmRequestOf(session_id));
}

std::unique_ptr<NativeFixture::CaptureStream> NativeFixture::Arm(
    const v1::CaptureRequest& request) {
  auto stream = Open();
  EXPECT_TRUE(stream->Send(request));
  const auto armed = stream->Await(v1::CaptureResponse::kArmed);
  if (armed.has_value()) {
    stream->armed = armed->armed();
  } else {
    ADD_FAILURE() << "not armed: " << stream->Finish().error_message();
  }
  return stream;
}

std::unique_ptr<NativeFixture::CaptureStream> NativeFixture::Start(absl::Duration duration,
                                                                   const std::string& session_id) {
  auto stream = Arm(session_id);
  EXPECT_TRUE(stream->Send(StartRequestOf(duration)));
  EXPECT_TRUE(stream->Await(v1::CaptureResponse::kStarted).has_value());
  return stream;
}

std::unique_ptr<NativeFixture::CaptureStream> NativeFixture::StartWholeFlood(
    const std::string& session_id) {
  auto stream = Start(absl::Minutes(1), session_id);
  EXPECT_TRUE(Eventually([this] { return flood_.attempted() == flood_.total(); }));
  return stream;
}

std::unique_ptr<NativeFixture::CaptureStream> NativeFixture::RecordFlood(
    const std::string& session_id) {
  auto stream = StartWholeFlood(session_id);
  EXPECT_EQ(sessions_->Stop(session_id), session_id);
  return stream;
}

std::unique_ptr<NativeFixture::FetchStream> NativeFixture::Fetch(const std::string& key,
                                                                 uint64_t next_item) {
  v1::Resume resume;
  resume.set_capture_key(key);
  resume.set_next_item(next_item);
  return Fetch(resume);
}

std::unique_ptr<NativeFixture::FetchStream> NativeFixture::Fetch(const v1::Resume& resume) {
  auto stream = std::make_unique<FetchStream>();
  stream->stream = native_->Fetch(&stream->context);
  v1::FetchRequest request;
  *request.mutable_resume() = resume;
  EXPECT_TRUE(stream->Send(request));
  return stream;
}

void NativeFixture::ExpectWithoutGap(const std::vector<v1::Item>& items, uint64_t first) {
  for (const v1::Item& item : items) ASSERT_EQ(item.number(), first++);
}

v1::Summary NativeFixture::SummaryOf(const std::vector<v1::Item>& items) {
  if (!items.empty() && items.back().has_summary()) return items.back().summary();
  ADD_FAILURE() << "the last item is no summary";
  return {};
}

uint64_t NativeFixture::EventsOf(const std::vector<v1::Item>& items) {
  uint64_t events = 0;
  for (const v1::Item& item : items) events += item.events().count();
  return events;
}

}  // namespace jobscope
