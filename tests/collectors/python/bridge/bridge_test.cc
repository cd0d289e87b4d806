// SPDX-License-Identifier: Apache-2.0
//
// The bridge, over the libpython named by JOBSCOPE_TEST_LIBPYTHON.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/interpreter.h"
#include "collectors/python/bridge/script.h"
#include "common/process/fork_pause.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/collectors/python/sample.py.h"

namespace jobscope::python {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename T>
T Symbol(void* library, const char* name) {
  return reinterpret_cast<T>(dlsym(library, name));
}

// Checks that the bridge reports that there is no interpreter. Then starts one, as a program does,
// and releases the GIL.
class PythonProcess : public ::testing::Environment {
 public:
  void SetUp() override {
    EXPECT_FALSE(SurelyAbsent()) << "nobody has looked";
    EXPECT_EQ(Interpreter::Find().status().code(), absl::StatusCode::kNotFound);
    EXPECT_TRUE(SurelyAbsent());
    const char* const path = std::getenv("JOBSCOPE_TEST_LIBPYTHON");
    ASSERT_NE(path, nullptr);
    void* const library = dlopen(
        path,
        RTLD_NOW | (std::getenv("JOBSCOPE_TEST_LOCAL") == nullptr ? RTLD_GLOBAL : RTLD_LOCAL));
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_FALSE(SurelyAbsent());
    EXPECT_THAT(std::string(Interpreter::Find().status().message()),
                HasSubstr("not initialised yet"));
    Symbol<void (*)(int)>(library, "Py_InitializeEx")(0);
    Symbol<void* (*)()>(library, "PyEval_SaveThread")();
  }
};
const auto* const kProcess = ::testing::AddGlobalTestEnvironment(new PythonProcess);

class BridgeTest : public ::testing::Test {
 protected:
  BridgeTest() : interpreter_(Interpreter::Find().value()) {}

  std::unique_ptr<Script> LoadSample() {
    auto script = Script::Load(interpreter_, "sample.py", kSamplePy,
                               {{"report", [this](const std::vector<Value>& arguments) {
                                   reported_ = arguments;
                                   ++reports_;
                                 }}});
    EXPECT_TRUE(script.ok()) << script.status();
    return *std::move(script);
  }

  const Interpreter* const interpreter_;
  std::vector<Value> reported_;
  int reports_ = 0;
};

// Before 3.13, a child that is forked while Python has the lock that this takes would hang in
// os.fork. From 3.13 on forks wait for that lock: they would wait for each other.
TEST_F(BridgeTest, ForksWaitWhileAThreadIsMadeKnownUnlessPythonMakesThem) {
  static ThreadState* (*make)(InterpreterState*) = nullptr;
  static bool forked = false;
  static int made = 0;
  Api api = **FindApi();
  make = api.ThreadState_New;
  api.ThreadState_New = [](InterpreterState* interpreter) {
    ++made;
    std::thread([] {
      if (!BeginFork()) return;
      forked = true;
      EndFork();
    }).join();
    return make(interpreter);
  };
  int runs = 0;
  const auto run = [&] { return WithGil(api, GilUse::kScript, [&] { ++runs; }); };
  std::thread([&] {
    EXPECT_TRUE(run().ok());
    EXPECT_EQ(api.GILState_GetThisThreadState(), nullptr);
  }).join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(forked, api.minor >= 13);
  // A thread that is known already, as the one that started Python, stays so.
  ThreadState* const known = api.GILState_GetThisThreadState();
  EXPECT_NE(known, nullptr);
  EXPECT_TRUE(run().ok());
  EXPECT_EQ(api.GILState_GetThisThreadState(), known);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(runs, 2);
}

TEST_F(BridgeTest, WithoutMemoryForAThreadThereIsNoGil) {
  Api api = **FindApi();
  api.ThreadState_New = [](InterpreterState*) { return static_cast<ThreadState*>(nullptr); };
  bool ran = false;
  std::thread([&] {
    EXPECT_EQ(WithGil(api, GilUse::kScript, [&] { ran = true; }).code(),
              absl::StatusCode::kResourceExhausted);
  }).join();
  EXPECT_FALSE(ran);
}

// Otherwise no thread of the program would get the GIL again.
TEST_F(BridgeTest, ABodyWithoutMemoryReleasesTheGil) {
  const Api& api = **FindApi();
  std::thread([&api] {
    absl::Status status;
    EXPECT_NO_THROW(status = WithGil(api, GilUse::kScript, [] { throw std::bad_alloc(); }));
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }).join();
  EXPECT_EQ(std::get<int64_t>(LoadSample()->Call("echo", {Value(int64_t{1})}).value()), 1);
}

TEST_F(BridgeTest, AFunctionWithoutMemoryThrowsNothingIntoTheProgram) {
  const auto script =
      Script::Load(interpreter_, "short_of_memory.py", "def go():\n  _note()\n  return 1\n",
                   {{"_note", [](const std::vector<Value>&) { throw std::bad_alloc(); }}});
  absl::StatusOr<Value> answer;
  EXPECT_NO_THROW(answer = (*script)->Call("go"));
  EXPECT_EQ(std::get<int64_t>(answer.value()), 1);
}

TEST_F(BridgeTest, TellsItsVersion) { EXPECT_THAT(interpreter_->version(), StartsWith("3.")); }

TEST_F(BridgeTest, KnowsWhatIsImportedAndImportsNothing) {
  EXPECT_TRUE(interpreter_->HasModule("sys"));
  EXPECT_FALSE(interpreter_->HasModule("xml.dom.minidom"));
  EXPECT_FALSE(interpreter_->HasModule("no such module"));
  EXPECT_FALSE(interpreter_->HasModule("xml.dom.minidom"));
}

TEST_F(BridgeTest, ValuesGoBothWays) {
  const auto script = LoadSample();
  EXPECT_EQ(std::get<int64_t>(script->Call("echo", {Value(int64_t{-7})}).value()), -7);
  EXPECT_EQ(std::get<int64_t>(script->Call("echo", {Value(INT64_MIN)}).value()), INT64_MIN);
  EXPECT_EQ(std::get<double>(script->Call("echo", {Value(2.5)}).value()), 2.5);
  EXPECT_EQ(std::get<std::string>(script->Call("echo", {Value(std::string("\xc3\xa4"))}).value()),
            "\xc3\xa4");
  EXPECT_EQ(
      std::get<Bytes>(script->Call("echo", {Value(Bytes{std::string("\0\xff", 2)})}).value()).data,
      std::string("\0\xff", 2));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(script->Call("echo", {Value()}).value()));
  EXPECT_EQ(std::get<int64_t>(script->Call("count").value()), 6);
}

TEST_F(BridgeTest, TextThatIsNotUtf8IsReplacedNotRefused) {
  const auto script = LoadSample();
  EXPECT_EQ(std::get<std::string>(script->Call("echo", {Value(std::string("a\xff"))}).value()),
            "a\xef\xbf\xbd");
}

TEST_F(BridgeTest, EmbeddingKeepsTheText) {
  const auto script = LoadSample();
  EXPECT_EQ(std::get<std::string>(script->Call("backslash").value()), "\\ \" @x@ ${x} ;][");
}

TEST_F(BridgeTest, AnExceptionNamesScriptAndLine) {
  const auto script = LoadSample();
  const absl::Status failed = script->Call("fail", {Value(std::string("no good"))}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(std::string(failed.message()), "ValueError: no good (<jobscope>/sample.py:18)");
}

TEST_F(BridgeTest, WhatIsNotPassedIsNamed) {
  const auto script = LoadSample();
  EXPECT_THAT(std::string(script->Call("give_list").status().message()),
              HasSubstr("give_list returned a list"));
  EXPECT_THAT(std::string(script->Call("give_large").status().message()), HasSubstr("64 bits"));
  EXPECT_THAT(std::string(script->Call("nothing").status().message()), HasSubstr("has no nothing"));
  EXPECT_THAT(std::string(script->Call("report_object").status().message()),
              HasSubstr("RuntimeError: report: argument 0 is a object"));
  EXPECT_EQ(reports_, 0);
}

TEST_F(BridgeTest, ASourceThatDoesNotCompileIsAnError) {
  const auto script = Script::Load(interpreter_, "broken.py", "def f(:\n");
  ASSERT_FALSE(script.ok());
  EXPECT_THAT(std::string(script.status().message()), StartsWith("SyntaxError"));
  EXPECT_THAT(std::string(script.status().message()), HasSubstr("broken.py"));
  const auto raises = Script::Load(interpreter_, "raises.py", "\n1 / 0\n");
  ASSERT_FALSE(raises.ok());
  EXPECT_EQ(std::string(raises.status().message()),
            "ZeroDivisionError: division by zero (<jobscope>/raises.py:2)");
}

TEST_F(BridgeTest, PythonCallsOurFunctionsOnAnyThread) {
  const auto script = LoadSample();
  ASSERT_TRUE(script->Call("report_from_thread", {Value(std::string("x"))}).ok());
  ASSERT_EQ(reports_, 1);
  ASSERT_EQ(reported_.size(), 5U);
  EXPECT_EQ(std::get<std::string>(reported_[0]), "x");
  EXPECT_EQ(std::get<int64_t>(reported_[1]), 1);
  EXPECT_EQ(std::get<double>(reported_[2]), 2.5);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(reported_[3]));
  EXPECT_EQ(std::get<Bytes>(reported_[4]).data, std::string("\0\xff", 2));
}

TEST_F(BridgeTest, AFunctionOfAScriptThatIsGoneDoesNothing) {
  const auto other = LoadSample();
  ASSERT_TRUE(other->Call("report_is_there").ok());
  // A hook that Python keeps: the module of another script.
  const auto keeper = Script::Load(interpreter_, "keeper.py",
                                   "import sys\ndef keep():\n  sys._jobscope_test = report\n",
                                   {{"report", [this](const std::vector<Value>&) { ++reports_; }}});
  ASSERT_TRUE((*keeper)->Call("keep").ok());
  const auto caller =
      Script::Load(interpreter_, "caller.py", "import sys\ndef call():\n  sys._jobscope_test()\n");
  ASSERT_TRUE((*caller)->Call("call").ok());
  EXPECT_EQ(reports_, 1);
  const_cast<absl::StatusOr<std::unique_ptr<Script>>&>(keeper)->reset();
  ASSERT_TRUE((*caller)->Call("call").ok());
  EXPECT_EQ(reports_, 1);
}

TEST_F(BridgeTest, ThreadsMayCallAtOnce) {
  const auto script = LoadSample();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&script] {
      for (int call = 0; call < 500; ++call) {
        EXPECT_TRUE(script->Call("echo", {Value(int64_t{call})}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::get<int64_t>(script->Call("count").value()), 2000);
}

TEST_F(BridgeTest, AForkedChildIsRefused) {
  ASSERT_TRUE(interpreter_->HasModule("sys"));
  const pid_t child = fork();
  if (child == 0) {
    _exit(Interpreter::Find().status().code() == absl::StatusCode::kUnavailable ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace jobscope::python
