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
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/xspace/segment/stats.h"
#include "jobscope/v1/item.pb.h"
#include "jobscope/v1/profiler.grpc.pb.h"
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
  absl::Status Arm(const ArmRequest& request) override;
  absl::Status Start(const StartRequest& /*request*/) override { return absl::OkStatus(); }
  absl::Duration Drain() override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;
  uint64_t LostSoFar() const override { return attempted_ - taken_; }

 private:
  // Returns false if it has to wait for room.
  bool AppendSegment();

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

extern template class TestStream<v1::CaptureRequest>;
extern template class TestStream<v1::FetchRequest>;

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
  void StartFlood(GrpcServerOptions options);

  static v1::CaptureRequest ArmRequestOf(const std::string& session_id);
  static v1::CaptureRequest StartRequestOf(absl::Duration duration);

  std::unique_ptr<CaptureStream> Open();
  std::unique_ptr<CaptureStream> Arm(const std::string& session_id = "s");
  std::unique_ptr<CaptureStream> Arm(const v1::CaptureRequest& request);
  std::unique_ptr<CaptureStream> Start(absl::Duration duration,
                                       const std::string& session_id = "s");

  // A capture of the whole flood, however long that takes here: it runs until it is ended.
  std::unique_ptr<CaptureStream> StartWholeFlood(const std::string& session_id = "s");
  // The same, ended: it delivers.
  std::unique_ptr<CaptureStream> RecordFlood(const std::string& session_id = "s");

  std::unique_ptr<FetchStream> Fetch(const std::string& key, uint64_t next_item);
  std::unique_ptr<FetchStream> Fetch(const v1::Resume& resume);

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

  static void ExpectWithoutGap(const std::vector<v1::Item>& items, uint64_t first = 1);
  static v1::Summary SummaryOf(const std::vector<v1::Item>& items);
  static uint64_t EventsOf(const std::vector<v1::Item>& items);

  FloodCollector flood_;
};

}  // namespace jobscope

#endif  // TESTS_SERVER_NATIVE_NATIVE_FIXTURE_H_
