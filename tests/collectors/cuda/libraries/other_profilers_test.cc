// SPDX-License-Identifier: Apache-2.0
//
// Tests captures while another profiler holds CUPTI's one subscription. Each case is a process of
// its own, because libraries stay loaded.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "tests/collectors/cuda/collector_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

void Load(const char* library) {
  if (dlopen(library, RTLD_NOW) != nullptr) return;
  std::fprintf(stderr, "%s\n", dlerror());
  std::_Exit(2);
}

void SetRecording(int calls) {
  void (*set)(int) = nullptr;
  cuda::FindIn(dlopen(FAKE_TORCH, RTLD_NOW), "FakeTorchSetRecording", &set);
  set(calls);
}

// As Kineto does on its first use. Refused once, it never traces a GPU in this process.
int32_t SubscribeAsKineto() {
  void* subscriber = nullptr;
  const auto callback = [](void*, uint32_t, uint32_t, const void*) {};
  return gpu().Subscribe(&subscriber, callback, nullptr);
}

std::atomic<int> kineto_buffers_back{0};

// As a torch.profiler block does at its begin.
void RecordAsKineto() {
  static uint8_t buffer[4096];
  gpu().RegisterCallbacks(
      [](uint8_t** data, size_t* size, size_t* max_records) {
        *data = buffer;
        *size = sizeof(buffer);
        *max_records = 0;
      },
      [](void*, uint32_t, uint8_t*, size_t, size_t) { ++kineto_buffers_back; });
  gpu().Enable(cuda::kKindConcurrentKernel);
  SetRecording(-1);
}

void AwaitDisabled(uint32_t kind) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (gpu().IsEnabled(kind) != 0 && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(gpu().IsEnabled(kind), 0) << kind;
}

class OtherProfilersTest : public CudaCollectorTest {
 protected:
  // In a child, which begins anew because threads of other tests may still run here: what has
  // failed there is what the child prints.
  static void InAProcess(const std::function<void()>& body) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          body();
          std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
        },
        ::testing::ExitedWithCode(0), "");
  }
  void ExpectReportOfTorchProfiler() {
    const auto reported = AllOf(HasSubstr("a torch.profiler block recorded during this capture"),
                                HasSubstr("capture again while no torch.profiler block runs"),
                                HasSubstr("run that block again without a capture"));
    EXPECT_EQ(session().report().state, CollectorState::kDegraded);
    EXPECT_THAT(session().report().reason, reported);
    EXPECT_THAT(session().report().warnings, Contains(reported));
  }
  void Refused(const std::string& text) {
    const absl::Status status = session().Arm();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(gpu().IsEnabled(10), 0);
    EXPECT_EQ(gpu().Calls("cuptiActivityRegisterCallbacks"), 0u);  // the other one's stay
  }
};

// PyTorch before August 2026 subscribes when its profiler is first used, and never unsubscribes.
TEST_F(OtherProfilersTest, BesideAnIdleKinetoTracingGoesOnWithoutASubscription) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    options_.finalize = cuda::FinalizeChoice::kAlways;
    // CUPTI 13 tells the last one of a subscriber without a name.
    for (const char* const owner : {"", "CUPTI", "CUPTI for", "CUPTI for ",
                                    "CUPTI for  <not provided>", "CUPTI for <not provided>"}) {
      SCOPED_TRACE(owner);
      driver_.reset();
      gpu().SetOwner(owner);
      gpu().SetAttribute(cuda::kPerThreadBuffer, 0);  // as its last recording did
      Begin();
      EXPECT_EQ(gpu().Attribute(cuda::kPerThreadBuffer), 1u);
      gpu().Launch(kAdd);
      Finish();
      session().ExpectIdentity();
      EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
      EXPECT_EQ(session().Named(kAddName).size(), 1u);
      EXPECT_EQ(session().Named("Launch vecAdd").size(), 1u);
      EXPECT_THAT(session().report().warnings, Contains(HasSubstr("traced without one")));
      EXPECT_EQ(gpu().IsEnabled(10), 0);
    }
    EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
    EXPECT_EQ(gpu().Calls("cuptiUnsubscribe"), 0u);
    EXPECT_EQ(gpu().Attribute(cuda::kDeviceBufferPoolLimit), 250u);
  });
}

TEST_F(OtherProfilersTest, KinetosFirstUseMayComeDuringACapture) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    Begin();
    EXPECT_EQ(gpu().IsSubscribed(), 0);
    EXPECT_EQ(SubscribeAsKineto(), 0);
    gpu().Launch(kAdd);
    Finish();
    session().ExpectIdentity();
    EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    EXPECT_THAT(session().report().warnings, IsEmpty());
    EXPECT_EQ(gpu().IsSubscribed(), 1);  // Kineto's
  });
}

TEST_F(OtherProfilersTest, BesideAPyTorchWithoutASubscriberCuptiIsFinalizedOnRequest) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    options_.finalize = cuda::FinalizeChoice::kAlways;
    options_.limits.detach_wait = absl::Seconds(10);
    options_.limits.detach = absl::Seconds(20);
    std::atomic<bool> ended{false};
    std::thread application([&ended] {
      while (!ended) {
        for (const uint32_t site : {0u, 1u}) (void)gpu().ApiSite(1, site, "cuCtxSynchronize");
        std::this_thread::yield();
      }
    });
    Begin();
    EXPECT_EQ(gpu().IsSubscribed(), 0);
    gpu().Launch(kAdd);
    Finish();
    ended = true;
    application.join();
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    EXPECT_EQ(gpu().Calls("cuptiFinalize"), 1u);
    EXPECT_EQ(gpu().IsSubscribed(), 0);
  });
}

// A Kineto of August 2026 or later holds no subscription.
TEST_F(OtherProfilersTest, TheRecordsOfAKinetoWithoutASubscriptionAreItsOwn) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    SetRecording(-1);
    Refused("torch.profiler records in this process");
  });
}

TEST_F(OtherProfilersTest, ARecordingThatBeganDuringACaptureGoesOnAfterIt) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    Begin();
    RecordAsKineto();
    EXPECT_NE(gpu().LaunchPending(kAdd), 0u);  // into Kineto's buffer
    Finish();
    EXPECT_THAT(session().report().warnings, Contains(HasSubstr("GPU tracing stays on until")));
    ExpectReportOfTorchProfiler();
    EXPECT_EQ(gpu().IsEnabled(cuda::kKindConcurrentKernel), 1);
    EXPECT_EQ(gpu().IsEnabled(cuda::kKindRuntime), 1);
    EXPECT_EQ(gpu().IsEnabled(cuda::kKindMemory), 0);
    EXPECT_EQ(kineto_buffers_back, 0);  // its kernel has not ended
    SetRecording(0);
    for (uint32_t kind = 1; kind < 60; ++kind) AwaitDisabled(kind);
  });
}

// It has taken the records over: neither of the two has lost any that it could count.
TEST_F(OtherProfilersTest, ARecordingWithinACaptureIsReportedWithTheRemedy) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    Begin();
    RecordAsKineto();
    (void)session().Drain();
    SetRecording(0);
    (void)session().Drain();
    Finish();
    EXPECT_THAT(session().report().warnings, Not(Contains(HasSubstr("GPU tracing stays on"))));
    ExpectReportOfTorchProfiler();
  });
}

TEST_F(OtherProfilersTest, ACaptureAfterThatRecordingIsItsOwn) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    Begin();
    RecordAsKineto();
    Finish();
    EXPECT_EQ(gpu().IsEnabled(cuda::kKindConcurrentKernel), 1);
    SetRecording(0);
    driver_.reset();
    Begin();
    absl::SleepFor(absl::Milliseconds(300));  // the thread that waited for the recording notices
    EXPECT_EQ(gpu().IsEnabled(cuda::kKindConcurrentKernel), 1);
    gpu().Launch(kAdd);
    Finish();
    EXPECT_EQ(session().report().state, CollectorState::kOn) << session().report().reason;
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
    EXPECT_EQ(gpu().IsEnabled(cuda::kKindConcurrentKernel), 0);
  });
}

TEST_F(OtherProfilersTest, ARecordingGoesOnAfterACaptureThatIsAbandoned) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    options_.finalize = cuda::FinalizeChoice::kAlways;
    Begin();
    RecordAsKineto();
    driver_.reset();
    collector_.reset();
    AwaitDisabled(cuda::kKindMemory);
    EXPECT_EQ(gpu().IsEnabled(cuda::kKindConcurrentKernel), 1);
    EXPECT_EQ(gpu().Calls("cuptiFinalize"), 0u);
  });
}

// Our own captures run it for a moment, to know whether it works.
TEST_F(OtherProfilersTest, AKinetoThatRecordsForAMomentIsWaitedFor) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    SetRecording(5);  // looks
    gpu().SetOwner("");
    Begin();
    gpu().Launch(kAdd);
    Finish();
    EXPECT_EQ(session().Named(kAddName).size(), 1u);
  });
}

TEST_F(OtherProfilersTest, TheRecordsOfAKinetoThatRecordsAreItsOwn) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    SetRecording(-1);  // to the end
    gpu().SetOwner("");
    Refused("torch.profiler records in this process");
  });
}

TEST_F(OtherProfilersTest, AToolFromOutsideIsNamedAndLeftAlone) {
  InAProcess([this] {
    Load(FAKE_TORCH);
    Load(FAKE_TOOL);
    gpu().SetOwner("");
    Refused("already being profiled by libToolsInjection64.so");
  });
}

TEST_F(OtherProfilersTest, AToolThatCudaLoadsIsNamed) {
  InAProcess([this] {
    Load(FAKE_TORCH);
    Load(FAKE_CUDA);
    setenv("CUDA_INJECTION64_PATH", FAKE_CUDA, 1);
    gpu().SetOwner("");
    Refused("already being profiled by libcuda.so");
  });
}

// Kineto gives no name. CUPTI before 13.0 does not tell the name.
TEST_F(OtherProfilersTest, ASubscriberWithANameIsNotKineto) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    for (const char* const owner : {"XLA", "CUPTI for XLA"}) {
      gpu().SetOwner(owner);
      Refused("already being profiled by XLA");
    }
  });
}

TEST_F(OtherProfilersTest, BesideJaxTheSubscriberMayBeEither) {
  InAProcess([this] {
    Load(FAKE_TORCH_CUDA);
    Load(FAKE_XLA);
    gpu().SetOwner("");
    Refused("already being profiled by PyTorch or JAX");
  });
}

// From 12.5 on kernels stay traced, before 12.9 with buffers of ours: XLA's tracer would free them.
TEST_F(OtherProfilersTest, WhereKernelsStayTracedWithOurBuffersJaxTracesItself) {
  for (const uint32_t version : {22u, 26u, 27u, 130001u}) {
    InAProcess([this, version] {
      options_.cupti_library = UseVersion(version);
      Load(FAKE_XLA);
      if (version == 26) return Refused("would crash JAX's own tracer");
      EXPECT_TRUE(session().Arm().ok()) << version;
    });
  }
}

TEST_F(OtherProfilersTest, APyTorchWithoutCudaSubscribesNever) {
  InAProcess([this] {
    Load(FAKE_TORCH);
    gpu().SetOwner("");
    Refused("start the program without it");
  });
}

// It registers its buffers once, without a subscription.
TEST_F(OtherProfilersTest, AStragglerDetectorKeepsItsBuffers) {
  for (const char* const detector : {FAKE_DETECTOR, FAKE_OLD_DETECTOR}) {
    InAProcess([this, detector] {
      Load(detector);
      Refused("start the job without the straggler detector");
      EXPECT_EQ(gpu().Calls("cuptiSubscribe"), 0u);
      EXPECT_EQ(collector().Describe().state, CollectorState::kFailed);
    });
  }
}

TEST_F(OtherProfilersTest, BuffersOfAnotherProfilerAreReported) {
  Begin();
  uint64_t theirs[8] = {};
  gpu().Return(theirs, nullptr, 0);
  Finish();
  EXPECT_THAT(session().report().warnings, Contains(HasSubstr("that profiler has lost")));
}

TEST_F(OtherProfilersTest, SomebodyUnknownIsLeftAlone) {
  InAProcess([this] {
    gpu().SetOwner("");
    Refused("start the program without it");
  });
}

}  // namespace
}  // namespace jobscope
