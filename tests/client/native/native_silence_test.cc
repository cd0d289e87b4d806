// SPDX-License-Identifier: Apache-2.0
//
// Tests streams on which nothing arrives although the worker is alive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "tests/client/native/native_resume_fixture.h"

namespace jobscope {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class NativeSilenceTest : public NativeResumeTest {
 protected:
  // A worker whose first connection falls silent after 20 items.
  FakeNativeWorker::Script Hanging() {
    FakeNativeWorker::Script script = Breaking(20, [](FakeCapture* capture) {
      capture->Hang();
      return grpc::Status::OK;
    });
    script.fetch = [this](FakeFetch* fetch, int) { return Rest(fetch, Resume(fetch)); };
    return script;
  }
  void RecordFrom(const FakeNativeWorker::Script& script) {
    FakeNativeWorker fake(script);
    Record(fake.address());
    ExpectUncutFile();
  }
};

TEST_F(NativeSilenceTest, SilenceIsALostStream) {
  options_.timeouts.silence = absl::Milliseconds(100);
  options_.timeouts.stall = absl::Seconds(3);  // by then it has answered, on a busy machine, too
  RecordFrom(Hanging());
  EXPECT_THAT(log_->notes(),
              Contains(HasSubstr("nothing arrived for 3s, although the worker answers")));
}

// Too many others are being asked.
TEST_F(NativeSilenceTest, OfAWorkerThatWasNotAskedNothingIsSaid) {
  options_.timeouts.silence = absl::Milliseconds(100);
  options_.timeouts.stall = absl::Milliseconds(300);
  options_.timeouts.max_probes = 0;
  RecordFrom(Hanging());
  EXPECT_THAT(log_->notes(),
              Contains(HasSubstr("nothing arrived for 300ms, and the worker could not be asked")));
}

// Packets of the old connection are dropped, and the worker has noticed: it ends the recording
// before the client would think of a new connection by itself.
TEST_F(NativeSilenceTest, AWorkerThatHasLostTheConnectionSaysSoInItsAnswer) {
  options_.timeouts.silence = absl::Seconds(1);
  options_.timeouts.stall = absl::Minutes(10);
  FakeNativeWorker::Script script = Hanging();
  script.description.emplace().mutable_busy()->set_client_lost_ms(1000);
  RecordFrom(script);
  EXPECT_THAT(log_->notes(), Contains(HasSubstr("the worker has lost this connection")));
}

}  // namespace
}  // namespace jobscope
