// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_CLIENT_NATIVE_NATIVE_RESUME_FIXTURE_H_
#define TESTS_CLIENT_NATIVE_NATIVE_RESUME_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tensorflow/xplane.pb.h"
#include "tests/client/fake_native_worker.h"
#include "tests/client/native/native_fixture.h"

namespace jobscope {

inline const grpc::Status kCut(grpc::StatusCode::UNAVAILABLE, "Connection reset by peer");

// A capture whose connection is lost, beside one of the same items that was not.
class NativeResumeTest : public NativeWorkerTest {
 protected:
  NativeResumeTest() {
    // What is lost without these items is what is compared.
    FakeNativeWorker::Script script;
    script.capture = [this](FakeCapture* capture) {
      FakeNativeWorker::Begin(capture);
      return Rest(capture, 0);
    };
    FakeNativeWorker fake(script);
    Record(fake.address());
    EXPECT_TRUE(log_->AwaitEnded().ok());
    EXPECT_EQ(Write().kind, Outcome::kOk);
    uncut_ = File();
    EXPECT_GT(uncut_.size(), 20'000u);
    std::filesystem::remove(run_->path() + "/worker.xplane.pb");
  }

  // Everything from an item on, and the end.
  template <typename Stream>
  grpc::Status Rest(Stream* stream, size_t begin) const {
    stream->SendItems(items_, begin);
    stream->SendEnded(items_.size());
    stream->AwaitAck(items_.size());
    return grpc::Status::OK;
  }

  // A worker that starts well, sends some items, and then what `then` does.
  FakeNativeWorker::Script Breaking(size_t items, std::function<grpc::Status(FakeCapture*)> then) {
    FakeNativeWorker::Script script;
    script.capture = [this, items, then](FakeCapture* capture) {
      FakeNativeWorker::Begin(capture);
      capture->SendStarted();
      capture->SendItems(items_, 0, items);
      return then(capture);
    };
    return script;
  }
  static grpc::Status Cut(FakeCapture*) { return kCut; }

  // Reads `resume`; the index of the item that is wanted.
  static size_t Resume(FakeFetch* fetch) {
    v1::FetchRequest request;
    EXPECT_TRUE(fetch->Read(&request) && request.has_resume());
    EXPECT_EQ(request.resume().capture_key(), "key 1");
    return request.resume().next_item() - 1;
  }

  void ExpectUncutFile() {
    EXPECT_TRUE(log_->AwaitEnded().ok());
    const WorkerOutcome outcome = Write();
    EXPECT_EQ(outcome.kind, Outcome::kOk) << outcome.reason;
    EXPECT_TRUE(File() == uncut_) << File().size() << " bytes instead of " << uncut_.size();
  }
  // What there is of the trace is a valid file.
  WorkerOutcome ExpectTruncatedFile() {
    const grpc::Status ended = log_->AwaitEnded();
    EXPECT_FALSE(ended.ok());
    const WorkerOutcome outcome = Write();
    EXPECT_EQ(outcome.kind, Outcome::kTruncated);
    EXPECT_EQ(outcome.grpc_code, static_cast<int>(ended.error_code()));
    EXPECT_FALSE(account_.lost.has_value());
    EXPECT_GT(account_.events.value_or(0), 0u);
    tensorflow::profiler::XSpace space;
    EXPECT_TRUE(space.ParseFromString(File()));
    EXPECT_THAT(space.warnings(),
                ::testing::Contains(::testing::HasSubstr("losses are not known")));
    return outcome;
  }

  const std::vector<FakeItem> items_ = MakeItems(4, 20, 50);
  std::string uncut_;
};

}  // namespace jobscope

#endif  // TESTS_CLIENT_NATIVE_NATIVE_RESUME_FIXTURE_H_
