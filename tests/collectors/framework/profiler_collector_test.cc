// SPDX-License-Identifier: Apache-2.0
//
// The collectors of JAX and TensorFlow over modules that do as theirs, in the Python named by
// JOBSCOPE_TEST_LIBPYTHON.
#include "collectors/framework/profiler_collector.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <utility>

#include "collectors/framework/framework_collectors.h"
#include "collectors/python/bridge/interpreter.h"
#include "collectors/python/bridge/script.h"
#include "tests/collectors/framework/foreign_fakes.py.h"
#include "tests/collectors/host/session_driver.h"
#include "tests/collectors/throwing_sink.h"

namespace jobscope {
namespace {

using python::Bytes;
using python::Interpreter;
using python::Script;
using python::Value;
using tensorflow::profiler::XSpace;

template <typename T>
T Symbol(void* library, const char* name) {
  return reinterpret_cast<T>(dlsym(library, name));
}

class PythonProcess : public ::testing::Environment {
 public:
  void SetUp() override {
    // Of its own, for what TensorFlow hands over.
    std::string folder = ::testing::TempDir() + "foreign.XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    ASSERT_EQ(setenv("TMPDIR", folder.c_str(), 1), 0);
    const char* const path = std::getenv("JOBSCOPE_TEST_LIBPYTHON");
    ASSERT_NE(path, nullptr);
    void* const library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(library, nullptr) << dlerror();
    Symbol<void (*)(int)>(library, "Py_InitializeEx")(0);
    Symbol<void* (*)()>(library, "PyEval_SaveThread")();
  }
  void TearDown() override { EXPECT_EQ(rmdir(folder_.c_str()), 0); }

 private:
  std::string folder_;
};
auto* const g_process = new PythonProcess;
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(g_process);

// `count` calls, a millisecond apart from now on; with `step` they are marked.
std::string Recording(int count, bool marked = false) {
  XSpace space;
  auto* const environment = space.add_planes();
  environment->set_name("Task Environment");
  (*environment->mutable_stat_metadata())[1].set_name("profile_start_time");
  auto* const start = environment->add_stats();
  start->set_metadata_id(1);
  start->set_uint64_value(static_cast<uint64_t>(RealtimeNs()));
  auto* const host = space.add_planes();
  host->set_name("/host:CPU");
  (*host->mutable_event_metadata())[7].set_name("PjitFunction(step)");
  (*host->mutable_stat_metadata())[8].set_name("_r");
  (*host->mutable_stat_metadata())[9].set_name("step_num");
  (*host->mutable_stat_metadata())[10].set_name("tf_function_call");
  auto* const line = host->add_lines();
  line->set_id(-5);
  for (int i = 0; i < count; ++i) {
    auto* const event = line->add_events();
    event->set_metadata_id(7);
    event->set_offset_ps(i * int64_t{1'000'000});
    event->set_duration_ps(500'000);
    for (const int stat : {8, 9, 10}) {
      if (!marked && stat != 10) continue;
      auto* const added = event->add_stats();
      added->set_metadata_id(stat);
      added->set_int64_value(1 + i);
    }
  }
  return space.SerializeAsString();
}

struct Framework {
  const char* name;
  std::unique_ptr<Collector> (*make)(FrameworkEnvironment environment);
};

class ProfilerCollectorTest : public ::testing::TestWithParam<Framework> {
 protected:
  ProfilerCollectorTest()
      : fakes_(Script::Load(Interpreter::Find().value(), "fakes", python::kForeignFakesPy).value()),
        collector_(GetParam().make(Environment())),
        driver_(collector_.get(), uses_tsc_) {
    Call("load", {int64_t{1}});
    LetGo("");
  }
  ~ProfilerCollectorTest() override {
    EXPECT_EQ(Int("running"), 0);
    EXPECT_EQ(Int("folders"), 0);
    Call("unload");
  }

  FrameworkEnvironment Environment() {
    FrameworkEnvironment environment;
    environment.uses_tsc = uses_tsc_;
    environment.has_steps = [this](uint64_t, uint64_t) { return has_steps_; };
    return environment;
  }
  Value Call(const char* function, const std::vector<Value>& arguments = {}) {
    const auto answer = fakes_->Call(function, arguments);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : Value();
  }
  int64_t Int(const char* function) { return std::get<int64_t>(Call(function)); }
  void LetGo(std::string bytes, const std::string& error = "") {
    Call("let_go", {Bytes{std::move(bytes)}, error.empty() ? Value() : Value(error)});
  }
  bool IsJax() const { return std::string_view(GetParam().name) == "jax"; }

  const bool uses_tsc_ = false;
  bool has_steps_ = false;
  const std::unique_ptr<Script> fakes_;
  const std::unique_ptr<Collector> collector_;
  SessionDriver driver_;
};

TEST_P(ProfilerCollectorTest, WhatItHandsOverIsInTheTrace) {
  EXPECT_EQ(collector_->name(), GetParam().name);
  ASSERT_TRUE(driver_.Arm().ok());
  EXPECT_EQ(collector_->Describe().state, CollectorState::kOn);
  EXPECT_EQ(Int("running"), 0);  // others may want it until the start
  ASSERT_TRUE(driver_.Start().ok());
  EXPECT_EQ(Int("running"), 1);
  EXPECT_EQ(Int("asked_level"), 3);
  EXPECT_EQ(Int("asked_python_level"), 0);
  LetGo(Recording(3, /*marked=*/true));
  const uint64_t end = driver_.Now() + 1'000'000'000;
  const CollectorReport& report = driver_.StopAt(end);
  EXPECT_EQ(report.state, CollectorState::kOn) << report.reason;
  EXPECT_EQ(report.events, 3u);
  EXPECT_EQ(report.steps, 3u);
  driver_.ExpectIdentity();
  EXPECT_EQ(driver_.Named("PjitFunction(step)").size(), 3u);
}

TEST_P(ProfilerCollectorTest, StepsOfOthersWin) {
  has_steps_ = true;
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  LetGo(Recording(3, /*marked=*/true));
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.events, 3u);
  EXPECT_FALSE(report.steps.has_value());
}

TEST_P(ProfilerCollectorTest, StepsAreInferred) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  LetGo(Recording(5));
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.steps, 4u);
  EXPECT_EQ(report.steps_inferred_from, "PjitFunction(step)");
  EXPECT_EQ(report.warnings.size(), 1u);
}

TEST_P(ProfilerCollectorTest, SomebodyElsesSessionIsAReason) {
  ASSERT_TRUE(driver_.Arm().ok());
  LetGo("", "ALREADY_EXISTS: Another profiling session active.");
  const absl::Status started = driver_.Start();
  if (IsJax()) {  // which says so only in the end
    ASSERT_TRUE(started.ok());
    EXPECT_TRUE(collector_->Stop(driver_.Now()).ok());
  } else {
    EXPECT_FALSE(started.ok());
  }
  const CollectorReport report = collector_->Report();
  EXPECT_EQ(report.state, CollectorState::kFailed);
  EXPECT_NE(report.reason.find("is being profiled already"), std::string::npos) << report.reason;
  EXPECT_EQ(collector_->Describe().state, CollectorState::kFailed);
  LetGo("");
}

// The program comes first: ours ends where it begins, and what ours has until then is in the trace.
TEST_P(ProfilerCollectorTest, TheProgramsOwnTraceEndsOurs) {
  const auto program_traces = [this] {
    return std::get<std::string>(Call("program_traces", {std::string(GetParam().name)}));
  };
  ASSERT_TRUE(driver_.Arm().ok());
  EXPECT_EQ(Int("untouched"), 1);
  ASSERT_TRUE(driver_.Start().ok());
  EXPECT_EQ(Int("untouched"), 0);
  LetGo(Recording(3, /*marked=*/true));
  EXPECT_EQ(program_traces(), "");
  EXPECT_EQ(Int("running"), 0);
  EXPECT_EQ(Int("untouched"), 1);
  EXPECT_EQ(program_traces(), "");  // and again, while our session still lasts
  (void)driver_.Drain();
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.state, CollectorState::kDegraded);
  EXPECT_NE(report.reason.find("the program began its own trace"), std::string::npos)
      << report.reason;
  EXPECT_EQ(report.events, 3u);
  driver_.ExpectIdentity();

  // The next capture has all of it again.
  SessionDriver again(collector_.get(), uses_tsc_);
  ASSERT_TRUE(again.Arm().ok());
  ASSERT_TRUE(again.Start().ok());
  LetGo(Recording(4, /*marked=*/true));
  const CollectorReport& next = again.StopAt(again.Now() + 1'000'000'000);
  EXPECT_EQ(next.state, CollectorState::kOn) << next.reason;
  EXPECT_EQ(next.events, 4u);
  EXPECT_EQ(Int("untouched"), 1);
}

TEST_P(ProfilerCollectorTest, WithoutMemoryNothingIsMergedTwice) {
  ThrowingSink sink(driver_.request().sink, "unlucky");
  xspace::Names names(&sink);
  driver_.request().sink = &sink;
  driver_.request().names = &names;
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  XSpace space;
  ASSERT_TRUE(space.ParseFromString(Recording(3, /*marked=*/true)));
  auto* const last = space.add_planes();
  last->set_name("/device:CUSTOM:unlucky");
  last->add_lines()->add_events();
  LetGo(space.SerializeAsString());
  // Ends our session, so that the drain merges it.
  (void)Call("program_traces", {std::string(GetParam().name)});
  EXPECT_THROW(
      while (true) { (void)driver_.Drain(); }, std::bad_alloc);
  (void)driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_LE(driver_.Named("PjitFunction(step)").size(), 3u);
}

// While ours hands over, the program's start waits for it.
TEST_P(ProfilerCollectorTest, TheProgramsOwnTraceWaitsForAHandover) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  LetGo(Recording(3, /*marked=*/true));
  Call("close_gate");
  std::thread collector([&] { (void)driver_.StopAt(driver_.Now() + 1'000'000'000); });
  Call("await_stopping");
  std::string said;
  std::thread program([&] {
    said = std::get<std::string>(Call("program_traces", {std::string(GetParam().name)}));
  });
  Call("open_gate");
  collector.join();
  program.join();
  EXPECT_EQ(said, "");
  EXPECT_EQ(driver_.report().state, CollectorState::kOn) << driver_.report().reason;
  EXPECT_EQ(driver_.report().events, 3u);
}

// Nor does it wait for one that hangs (20 s here): the framework itself then answers the program.
TEST_P(ProfilerCollectorTest, AHangingHandoverDelaysTheProgramsOwnTraceByAFewSeconds) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  LetGo(Recording(3, /*marked=*/true));
  Call("close_gate");
  std::thread collector([&] { (void)driver_.StopAt(driver_.Now() + 1'000'000'000); });
  Call("await_stopping");
  const auto said = std::get<std::string>(Call("program_traces", {std::string(GetParam().name)}));
  Call("open_gate");
  collector.join();
  EXPECT_NE(said.find("nother profiling session active"), std::string::npos) << said;
  EXPECT_EQ(driver_.report().state, CollectorState::kDegraded);
  EXPECT_NE(driver_.report().reason.find("did not end this recording within 5 s"),
            std::string::npos)
      << driver_.report().reason;
  EXPECT_EQ(driver_.report().events, 3u);
}

// The same where it hangs in the end that the program's own start asks for.
TEST_P(ProfilerCollectorTest, AHangingEndDelaysTheProgramsOwnTraceByAFewSeconds) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  LetGo(Recording(3, /*marked=*/true));
  Call("close_gate");
  const auto said = std::get<std::string>(Call("program_traces", {std::string(GetParam().name)}));
  Call("open_gate");
  EXPECT_NE(said.find("nother profiling session active"), std::string::npos) << said;
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.state, CollectorState::kDegraded);
  EXPECT_NE(report.reason.find("did not end this recording within 5 s"), std::string::npos)
      << report.reason;
  EXPECT_EQ(report.events, 3u);
}

TEST_P(ProfilerCollectorTest, NoMoreIsTakenThanACaptureMayKeep) {
  driver_.request().store_bytes = 1000;
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  LetGo(Recording(200));
  const CollectorReport report = driver_.Stop();
  EXPECT_EQ(report.state, CollectorState::kFailed);
  EXPECT_NE(report.reason.find("JOBSCOPE_STORE_MB"), std::string::npos) << report.reason;
  EXPECT_EQ(report.events, 0u);
}

TEST_P(ProfilerCollectorTest, BytesThatAreNoTraceAreAReason) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  LetGo(Recording(3).substr(0, 90));
  const CollectorReport& report = driver_.Stop();
  EXPECT_EQ(report.state, CollectorState::kFailed);
  EXPECT_NE(report.reason.find("not a complete XSpace"), std::string::npos) << report.reason;
}

TEST_P(ProfilerCollectorTest, OffWithAReason) {
  const auto expect_off = [this](const char* why) {
    EXPECT_TRUE(driver_.Arm().ok());
    EXPECT_EQ(collector_->Describe().state, CollectorState::kOff);
    EXPECT_NE(collector_->Describe().reason.find(why), std::string::npos)
        << collector_->Describe().reason;
    EXPECT_TRUE(driver_.Start().ok());
    EXPECT_EQ(Int("running"), 0);
    EXPECT_TRUE(collector_->Stop(driver_.Now()).ok());
    EXPECT_EQ(collector_->Report().state, CollectorState::kOff);
  };
  driver_.request().recording.frameworks = FrameworkChoice::Parse("none").value();
  expect_off("--frameworks");
  driver_.request().recording.frameworks = FrameworkChoice();
  driver_.request().recording.host_tracer_level = 0;
  expect_off("host_tracer_level");
  driver_.request().recording.host_tracer_level = 2;
  if (IsJax()) {
    Call("load", {int64_t{0}});
    expect_off("has not computed anything yet");
  }
  Call("unload");
  expect_off("has not loaded");
}

TEST_P(ProfilerCollectorTest, EndsBeforeItsStart) {
  ASSERT_TRUE(driver_.Arm().ok());
  EXPECT_TRUE(collector_->Stop(driver_.Now()).ok());
  EXPECT_EQ(collector_->Report().state, CollectorState::kOn);
  EXPECT_EQ(Int("running"), 0);
}

// Of a process that has both, TensorFlow reads the data.
TEST_P(ProfilerCollectorTest, StepsAreThoseOfOneFramework) {
  const std::unique_ptr<Collector> other =
      IsJax() ? MakeTensorflowCollector(Environment()) : MakeJaxCollector(Environment());
  SessionDriver others(other.get(), uses_tsc_);
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(others.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  LetGo(Recording(5));
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.steps, IsJax() ? std::optional<uint64_t>(4) : std::nullopt);
  EXPECT_EQ(report.steps_inferred_from, IsJax() ? "PjitFunction(step)" : "");
  EXPECT_TRUE(other->Stop(others.Now()).ok());
}

// What follows ends the interpreter, as far as we can tell: in processes of their own.
class LeavingTest : public ProfilerCollectorTest {
 protected:
  LeavingTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Python's exit hooks run while nobody knows that the session will end.
  void LeaveAndThenStop() {
    ASSERT_TRUE(driver_.Arm().ok());
    ASSERT_TRUE(driver_.Start().ok());
    LetGo(Recording(3, /*marked=*/true));
    driver_.set_planned_end(driver_.Now() + uint64_t{3600} * 1'000'000'000);
    std::atomic<bool> left{false};
    std::thread program([&] {
      Call("leave");
      left = true;
    });
    while (!left) (void)driver_.Drain();
    program.join();
    // The hooks have waited for it, within their time limit.
    EXPECT_GT(driver_.store().events(), 0u);
    const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
    EXPECT_EQ(report.state, CollectorState::kOn) << report.reason;
    EXPECT_EQ(report.events, 3u);
    EXPECT_EQ(report.steps, 3u);
    driver_.ExpectIdentity();
    EXPECT_TRUE(driver_.Arm().ok());
    EXPECT_EQ(collector_->Describe().state, CollectorState::kOff);
    Leave();
  }

  // They run while the collector is in the framework's profiler.
  void LeaveInTheMiddleOfAStop() {
    ASSERT_TRUE(driver_.Arm().ok());
    ASSERT_TRUE(driver_.Start().ok());
    LetGo(Recording(3, /*marked=*/true));
    Call("close_gate");
    std::thread collector([&] { (void)driver_.StopAt(driver_.Now() + 1'000'000'000); });
    Call("await_stopping");
    std::thread program([&] {
      Call("leave");
      EXPECT_GT(driver_.store().events(), 0u);  // so the collector has been back from Python
    });
    Call("open_gate");
    collector.join();
    program.join();
    EXPECT_EQ(driver_.report().state, CollectorState::kOn) << driver_.report().reason;
    EXPECT_EQ(driver_.report().events, 3u);
    Leave();
  }

  void InferNothingWhereThatIsSwitchedOff() {
    setenv("JOBSCOPE_INFER_STEPS", "0", 1);
    ASSERT_TRUE(driver_.Arm().ok());
    ASSERT_TRUE(driver_.Start().ok());
    LetGo(Recording(5));
    const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
    EXPECT_EQ(report.events, 5u);
    EXPECT_FALSE(report.steps.has_value());
    Leave();
  }

  void Leave() {
    g_process->TearDown();
    std::exit(HasFailure() ? 1 : 0);
  }
};

TEST_P(LeavingTest, WhatIsRecordedIsInTheTraceBeforeThePythonIsGone) {
  EXPECT_EXIT(LeaveAndThenStop(), ::testing::ExitedWithCode(0), "");
}

TEST_P(LeavingTest, NoThreadOfOursIsLeftInPython) {
  EXPECT_EXIT(LeaveInTheMiddleOfAStop(), ::testing::ExitedWithCode(0), "");
}

TEST_P(LeavingTest, StepsAreNotInferredWhereThatIsSwitchedOff) {
  EXPECT_EXIT(InferNothingWhereThatIsSwitchedOff(), ::testing::ExitedWithCode(0), "");
}

constexpr Framework kFrameworks[] = {{"jax", &MakeJaxCollector},
                                     {"tensorflow", &MakeTensorflowCollector}};
INSTANTIATE_TEST_SUITE_P(All, LeavingTest, ::testing::ValuesIn(kFrameworks),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(All, ProfilerCollectorTest, ::testing::ValuesIn(kFrameworks),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace jobscope
