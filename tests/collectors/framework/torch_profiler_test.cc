// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's own profiler as a collector, over modules that do as PyTorch's, in the Python named by
// JOBSCOPE_TEST_LIBPYTHON; and when it stands in for callbacks.
#include "collectors/framework/torch_profiler.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/collectors/framework/fake_torch.h"
#include "tests/collectors/framework/torch_fakes.py.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {
namespace {

using python::Interpreter;
using python::Script;
using python::Value;
using ::testing::HasSubstr;

template <typename T>
T Symbol(void* library, const char* name) {
  return reinterpret_cast<T>(dlsym(library, name));
}

class PythonProcess : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* const path = std::getenv("JOBSCOPE_TEST_LIBPYTHON");
    ASSERT_NE(path, nullptr);
    void* const library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(library, nullptr) << dlerror();
    Symbol<void (*)(int)>(library, "Py_InitializeEx")(0);
    Symbol<void* (*)()>(library, "PyEval_SaveThread")();
  }
};
const auto* const kProcess = ::testing::AddGlobalTestEnvironment(new PythonProcess);

int64_t ThisThread() { return syscall(SYS_gettid); }

class TorchProfilerTest : public ::testing::Test {
 protected:
  TorchProfilerTest() {
    FakeTorch::Get().SetVersion("9.9.0");
    Call("load", {int64_t{1}});
    Call("clear");
    Call("refuse", {Value()});
  }
  ~TorchProfilerTest() override {
    EXPECT_EQ(Int("running"), 0);
    Call("unload");
  }

  Value Call(const char* function, const std::vector<Value>& arguments = {}) {
    const auto answer = fakes_->Call(function, arguments);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : Value();
  }
  int64_t Int(const char* function) { return std::get<int64_t>(Call(function)); }
  void WillRecord(const char* name, int64_t thread, int64_t scope, bool is_async = false,
                  int64_t dimension = 0) {
    Call("record", {std::string(name), thread, scope, int64_t{is_async}, dimension});
  }
  void ExpectOff(const char* why) {
    EXPECT_TRUE(driver_.Arm().ok());
    EXPECT_EQ(collector_.Describe().state, "off");
    EXPECT_THAT(collector_.Describe().reason, HasSubstr(why));
    EXPECT_TRUE(driver_.Start().ok());
    EXPECT_EQ(Int("running"), 0);
    EXPECT_TRUE(collector_.Stop(driver_.Now()).ok());
    EXPECT_EQ(collector_.Report().state, "off");
  }
  const CollectorReport& Capture() {
    EXPECT_TRUE(driver_.Arm().ok());
    EXPECT_EQ(collector_.Describe().state, "degraded") << collector_.Describe().reason;
    EXPECT_EQ(Int("running"), 0);  // the program may want it until the start
    EXPECT_TRUE(driver_.Start().ok());
    EXPECT_EQ(Int("running"), 1);
    return driver_.StopAt(driver_.Now() + 1'000'000'000);
  }

  const bool uses_tsc_ = false;
  const std::unique_ptr<Script> fakes_ =
      Script::Load(Interpreter::Find().value(), "fakes", python::kTorchFakesPy).value();
  TorchCollector collector_{jobscope_trace_writer(), [](const std::function<void()>&) {},
                            MakeTorchProfiler({uses_tsc_, nullptr, nullptr})};
  SessionDriver driver_{&collector_, uses_tsc_};
};

TEST_F(TorchProfilerTest, StandsInForCallbacks) {
  for (int i = 0; i < 250; ++i) WillRecord("aten::mm", ThisThread(), 0, false, 32);
  WillRecord("forward", ThisThread(), 7);
  WillRecord("gloo:all_reduce", ThisThread(), 7, true);
  driver_.request().record_shapes = true;
  const CollectorReport& report = Capture();
  EXPECT_EQ(report.state, "degraded");
  EXPECT_THAT(report.reason, HasSubstr("by PyTorch's own profiler, because PyTorch 9.9.0 is not"));
  EXPECT_EQ(report.events, 252u);
  driver_.ExpectIdentity();
  EXPECT_EQ(Int("wanted_shapes"), 1);
  EXPECT_EQ(FakeTorch::Get().callbacks(), 0u);
  const auto operators = driver_.Named("aten::mm");
  ASSERT_EQ(operators.size(), 250u);
  EXPECT_EQ(operators[0].line_id, ThisThread());
  EXPECT_EQ(operators[0].texts.at("shape"), "[[32, 2], []]");
  EXPECT_EQ(driver_.Named("forward")[0].line_id, ThisThread());
  EXPECT_EQ(driver_.Named("forward")[0].texts.count("shape"), 0u);
  EXPECT_NE(driver_.Named("gloo:all_reduce")[0].line_id, ThisThread());
}

TEST_F(TorchProfilerTest, NamesSayWhatXprofShallReadAndWhatALengthMeans) {
  WillRecord("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", ThisThread(), 7);
  WillRecord("nccl:all_reduce", ThisThread(), 7, true);
  EXPECT_EQ(Capture().events, 2u);
  EXPECT_EQ(
      driver_.Named("IteratorGetNext enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
          .size(),
      1u);
  EXPECT_EQ(driver_.Named("nccl:all_reduce (enqueue)").size(), 1u);
}

TEST_F(TorchProfilerTest, LevelOneHasUserScopesAlone) {
  WillRecord("aten::mm", ThisThread(), 0);
  WillRecord("forward", ThisThread(), 7);
  driver_.request().levels.host = 1;
  EXPECT_EQ(Capture().events, 1u);
  EXPECT_EQ(Int("wanted_shapes"), 0);
  EXPECT_EQ(driver_.Named("forward").size(), 1u);
}

TEST_F(TorchProfilerTest, OnlyTheFirstSessionWarmsItUp) {
  (void)Capture();
  const int64_t before = Int("begun");
  (void)Capture();
  EXPECT_EQ(Int("begun"), before + 1);
}

TEST_F(TorchProfilerTest, SaysWhyNeitherCanBeHad) {
  Call("take", {int64_t{1}});
  ExpectOff("is being profiled already");
  Call("take", {int64_t{0}});
  Call("load", {int64_t{0}});
  ExpectOff("9.9.0 is not among the versions");
  ExpectOff("nor can its own profiler be used: this version of PyTorch has no profiler of all");
  Call("unload");
  ExpectOff("this process has not loaded PyTorch");
  Call("load", {int64_t{1}});
  driver_.request().frameworks = FrameworkChoice::Parse("none").value();
  ExpectOff("not among the frameworks asked for");
}

TEST_F(TorchProfilerTest, AStartThatIsRefused) {
  EXPECT_TRUE(driver_.Arm().ok());
  Call("refuse", {std::string("Profiler is already enabled")});
  EXPECT_FALSE(driver_.Start().ok());
  EXPECT_EQ(collector_.Report().state, "failed");
  EXPECT_THAT(collector_.Report().reason, HasSubstr("did not start: Profiler is already enabled"));
}

TEST_F(TorchProfilerTest, TheProgramsOwnEndsIt) {
  Call("cancel", {int64_t{1}});
  const CollectorReport& report = Capture();
  EXPECT_EQ(report.state, "failed");
  EXPECT_THAT(report.reason, HasSubstr("the program has started torch.profiler"));
  Call("cancel", {int64_t{0}});
}

TEST_F(TorchProfilerTest, CallbacksComeFirst) {
  FakeTorch::Get().SetVersion("2.4.0");
  EXPECT_TRUE(driver_.Arm().ok());
  EXPECT_EQ(collector_.Describe().state, "on");
  EXPECT_EQ(FakeTorch::Get().callbacks(), 3u);
  EXPECT_TRUE(driver_.Start().ok());
  EXPECT_EQ(Int("running"), 0);
  EXPECT_TRUE(collector_.Stop(driver_.Now()).ok());
}

}  // namespace
}  // namespace jobscope
