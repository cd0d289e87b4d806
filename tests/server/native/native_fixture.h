// SPDX-License-Identifier: Apache-2.0
//
// Starts a real server over a collector that records as much as a test requests, and a client that
// a test controls message by message.
#ifndef TESTS_SERVER_NATIVE_NATIVE_FIXTURE_H_
#define TESTS_SERVER_NATIVE_NATIVE_FIXTURE_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock/clock.h"
#include "common/xspace/segment/segment.h"
#include "common/xspace/segment/stats.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "tensorflow/xplane.pb.h"
#include "tests/server/service_fixture.h"

namespace jobscope {

// Records segments of one event each, whose bytes follow from their number: two captures of it are
// equal. Loses what the store does not take, and counts it.
class FloodCollector : public Collector {
 public:
  // Of each session: so many segments, so many per Drain (each millisecond), of so many bytes.
  // Waits for room if `patient`.
  void Flood(uint64_t segments, uint64_t per_drain, size_t segment_bytes, bool patient = false) {
    total_ = segments;
    patient_ = patient;
    per_drain_ = per_drain;
    segment_bytes_ = segment_bytes;
  }
  // A framework's plane of that size, at the session's end.
  void set_raw_plane_bytes(size_t bytes) { raw_plane_bytes_ = bytes; }
  uint64_t total() const { return total_; }
  uint64_t attempted() const { return attempted_; }
  uint64_t sessions() const { return sessions_; }

  std::string_view name() const override { return "flood"; }
  CollectorReport Describe() const override { return {}; }
  absl::Status Arm(const ArmRequest& request) override {
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
  absl::Status Start(const StartRequest& /*request*/) override { return absl::OkStatus(); }
  absl::Duration Drain() override {
    // A collector stops draining while the store is full, and what it cannot keep is lost.
    for (uint64_t i = 0; i < per_drain_ && attempted_ < total_; ++i) {
      if (!AppendSegment()) break;
    }
    return absl::Milliseconds(1);
  }
  absl::Status Stop(uint64_t /*end_ticks*/) override {
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
  CollectorReport Report() override {
    CollectorReport report;
    report.attempted = attempted_;
    report.events = taken_;
    if (attempted_ > taken_) report.lost_by_cause[LossCause::kStoreFull] = attempted_ - taken_;
    return report;
  }
  uint64_t LostSoFar() const override { return attempted_ - taken_; }

 private:
  // Returns false if it has to wait for room.
  bool AppendSegment() {
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

  std::atomic<uint64_t> total_{0};
  std::atomic<uint64_t> per_drain_{0};
  std::atomic<size_t> segment_bytes_{0};
  std::atomic<size_t> raw_plane_bytes_{0};
  std::atomic<bool> patient_{false};
  std::atomic<uint64_t> sessions_{0};
  std::atomic<uint64_t> attempted_{0};
  std::atomic<uint64_t> taken_{0};
  ArmRequest request_;
  xspace::PlaneKey plane_ = 0;
  int64_t line_ = 0;
  uint64_t event_ = 0;
  uint64_t payload_ = 0;
  xspace::StatsEncoder stats_{xspace::StatsOf::kEvent};
};

// One stream, of Capture or Fetch, read and written by the test's own thread.
template <typename Request>
class TestStream {
 public:
  using Stream = grpc::ClientReaderWriterInterface<Request, v1::CaptureResponse>;

  TestStream() { context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(4)); }
  ~TestStream() {
    if (stream == nullptr || finished_) return;
    context.TryCancel();
    (void)Finish();
  }

  bool Send(const Request& request) { return stream->Write(request); }
  void Close() { stream->WritesDone(); }
  void Cancel() { context.TryCancel(); }
  // What has not been read is thrown away.
  grpc::Status Finish() {
    v1::CaptureResponse response;
    while (stream->Read(&response)) Note(response);
    finished_ = true;
    return stream->Finish();
  }

  // The next message, noted. Nothing: the stream has ended.
  std::optional<v1::CaptureResponse> Next() {
    v1::CaptureResponse response;
    if (!stream->Read(&response)) return std::nullopt;
    Note(response);
    return response;
  }
  // The next message of that kind; those before it are noted, too.
  std::optional<v1::CaptureResponse> Await(v1::CaptureResponse::MessageCase kind) {
    while (auto response = Next()) {
      if (response->message_case() == kind) return response;
    }
    return std::nullopt;
  }

  bool Ack(uint64_t through) {
    Request request;
    request.mutable_ack()->set_through(through);
    return Send(request);
  }
  bool SendFinish(bool abandon) {
    Request request;
    request.mutable_finish()->set_abandon(abandon);
    return Send(request);
  }

  uint64_t last_item() const { return items.empty() ? 0 : items.back().number(); }

  grpc::ClientContext context;
  std::unique_ptr<Stream> stream;
  std::vector<v1::Item> items;  // all that came whole
  std::vector<v1::Chunk> chunks;
  size_t largest_message_bytes = 0;  // of those with items
  std::vector<v1::Progress> progress;
  std::vector<std::string> order;  // of messages, items and progress once per run of them

 private:
  void Note(const v1::CaptureResponse& response) {
    static constexpr const char* kNames[] = {"none",  "armed", "started", "progress",
                                             "items", "ended", "chunk"};
    const std::string name = kNames[response.message_case()];
    if (response.has_chunk()) chunks.push_back(response.chunk());
    if (name == "items" || name == "chunk") {
      largest_message_bytes = std::max(largest_message_bytes, response.ByteSizeLong());
    }
    if (name == "progress") progress.push_back(response.progress());
    for (const v1::Item& item : response.items().items()) items.push_back(item);
    if (name != "progress" && (order.empty() || order.back() != name)) order.push_back(name);
  }

  bool finished_ = false;
};

// A sanitizer keeps memory that was freed, and more beside it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kRssIsOurs = false;
#elif defined(__clang__)
inline constexpr bool kRssIsOurs =
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
inline constexpr bool kRssIsOurs = true;
#endif

class NativeFixture : public ServiceFixture {
 protected:
  static constexpr size_t kFloodItemBytes = 20'000;

  struct CaptureStream : TestStream<v1::CaptureRequest> {
    v1::Armed armed;
  };
  using FetchStream = TestStream<v1::FetchRequest>;

  // Over the flood instead of the fixture's collector.
  void StartFlood(GrpcServerOptions options) {
    EXPECT_TRUE(sessions_->Shutdown(absl::Minutes(1)));
    SessionManager::Dependencies dependencies;
    dependencies.collectors = {&flood_};
    dependencies.identity = [this] { return identity_; };
    sessions_ = std::make_shared<SessionManager>(std::move(dependencies));
    options.sessions = sessions_;
    StartServer(std::move(options));
  }

  static v1::CaptureRequest ArmRequestOf(const std::string& session_id) {
    v1::CaptureRequest request;
    request.mutable_arm()->set_session_id(session_id);
    request.mutable_arm()->set_host_tracer_level(2);
    return request;
  }
  static v1::CaptureRequest StartRequestOf(absl::Duration duration) {
    v1::CaptureRequest request;
    request.mutable_start()->set_duration_ns(
        static_cast<uint64_t>(absl::ToInt64Nanoseconds(duration)));
    return request;
  }

  std::unique_ptr<CaptureStream> Open() {
    auto stream = std::make_unique<CaptureStream>();
    stream->stream = native_->Capture(&stream->context);
    return stream;
  }
  std::unique_ptr<CaptureStream> Arm(const std::string& session_id = "s") {
    return Arm(ArmRequestOf(session_id));
  }
  std::unique_ptr<CaptureStream> Arm(const v1::CaptureRequest& request) {
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
  std::unique_ptr<CaptureStream> Start(absl::Duration duration,
                                       const std::string& session_id = "s") {
    auto stream = Arm(session_id);
    EXPECT_TRUE(stream->Send(StartRequestOf(duration)));
    EXPECT_TRUE(stream->Await(v1::CaptureResponse::kStarted).has_value());
    return stream;
  }

  // A capture of the whole flood, however long that takes here: it runs until it is ended.
  std::unique_ptr<CaptureStream> StartWholeFlood(const std::string& session_id = "s") {
    auto stream = Start(absl::Minutes(1), session_id);
    EXPECT_TRUE(Eventually([this] { return flood_.attempted() == flood_.total(); }));
    return stream;
  }
  // The same, ended: it delivers.
  std::unique_ptr<CaptureStream> RecordFlood(const std::string& session_id = "s") {
    auto stream = StartWholeFlood(session_id);
    EXPECT_EQ(sessions_->Stop(session_id), session_id);
    return stream;
  }

  std::unique_ptr<FetchStream> Fetch(const std::string& key, uint64_t next_item) {
    v1::Resume resume;
    resume.set_capture_key(key);
    resume.set_next_item(next_item);
    return Fetch(resume);
  }
  std::unique_ptr<FetchStream> Fetch(const v1::Resume& resume) {
    auto stream = std::make_unique<FetchStream>();
    stream->stream = native_->Fetch(&stream->context);
    v1::FetchRequest request;
    *request.mutable_resume() = resume;
    EXPECT_TRUE(stream->Send(request));
    return stream;
  }

  // Reads and acknowledges until `ended`, and expects the stream to end well.
  template <typename Stream>
  static v1::Ended Drain(Stream* stream) {
    v1::Ended ended;
    while (auto response = stream->Next()) {
      // False: it has ended already.
      if (response->has_items()) stream->Ack(stream->last_item());
      if (response->has_ended()) {
        ended = response->ended();
        stream->Close();
      }
    }
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return ended;
  }

  static void ExpectWithoutGap(const std::vector<v1::Item>& items, uint64_t first = 1) {
    for (const v1::Item& item : items) ASSERT_EQ(item.number(), first++);
  }
  static v1::Summary SummaryOf(const std::vector<v1::Item>& items) {
    if (!items.empty() && items.back().has_summary()) return items.back().summary();
    ADD_FAILURE() << "the last item is no summary";
    return {};
  }
  static uint64_t EventsOf(const std::vector<v1::Item>& items) {
    uint64_t events = 0;
    for (const v1::Item& item : items) events += item.events().count();
    return events;
  }

  FloodCollector flood_;
};

}  // namespace jobscope

#endif  // TESTS_SERVER_NATIVE_NATIVE_FIXTURE_H_
