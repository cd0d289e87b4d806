// SPDX-License-Identifier: Apache-2.0
//
// The collectors of JAX and TensorFlow over modules that do as theirs, in the Python named by
// JOBSCOPE_TEST_LIBPYTHON.
#ifndef TESTS_COLLECTORS_FRAMEWORK_PROFILER_FIXTURE_H_
#define TESTS_COLLECTORS_FRAMEWORK_PROFILER_FIXTURE_H_

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "collectors/framework/framework_collectors.h"
#include "collectors/python/bridge/interpreter.h"
#include "collectors/python/bridge/script.h"
#include "tensorflow/xplane.pb.h"
#include "tests/collectors/framework/foreign_fakes.py.h"
#include "tests/collectors/host/session_driver.h"

namespace jobscope {

template <typename T>
T SymbolOf(void* library, const char* name) {
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
    SymbolOf<void (*)(int)>(library, "Py_InitializeEx")(0);
    SymbolOf<void* (*)()>(library, "PyEval_SaveThread")();
  }
  void TearDown() override { EXPECT_EQ(rmdir(folder_.c_str()), 0); }

 private:
  std::string folder_;
};
inline auto* const g_process = new PythonProcess;
inline const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(g_process);

// Returns `count` calls from now on; with `marked`, they are marked as steps.
inline std::string Recording(int count, bool marked = false) {
  tensorflow::profiler::XSpace space;
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

class ProfilerTest : public ::testing::TestWithParam<Framework> {
 protected:
  ProfilerTest()
      : fakes_(python::Script::Load(python::Interpreter::Find().value(), "fakes",
                                    python::kForeignFakesPy)
                   .value()),
        collector_(GetParam().make(Environment())),
        driver_(collector_.get(), uses_tsc_) {
    Call("load", {int64_t{1}});
    SetTrace("");
  }
  ~ProfilerTest() override {
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
  python::Value Call(const char* function, const std::vector<python::Value>& arguments = {}) {
    const auto answer = fakes_->Call(function, arguments);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : python::Value();
  }
  int64_t Int(const char* function) { return std::get<int64_t>(Call(function)); }
  void SetTrace(std::string bytes, const std::string& error = "") {
    Call("set_trace",
         {python::Bytes{std::move(bytes)}, error.empty() ? python::Value() : python::Value(error)});
  }
  bool IsJax() const { return std::string_view(GetParam().name) == "jax"; }

  const bool uses_tsc_ = false;
  bool has_steps_ = false;
  const std::unique_ptr<python::Script> fakes_;
  const std::unique_ptr<Collector> collector_;
  SessionDriver driver_;
};

inline constexpr Framework kFrameworks[] = {{"jax", &MakeJaxCollector},
                                            {"tensorflow", &MakeTensorflowCollector}};

inline std::string FrameworkName(const ::testing::TestParamInfo<Framework>& info) {
  return info.param.name;
}

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_FRAMEWORK_PROFILER_FIXTURE_H_
