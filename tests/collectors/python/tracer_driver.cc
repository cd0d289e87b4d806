// SPDX-License-Identifier: Apache-2.0
//
// The Python collector in a Python process, for tests: a library for ctypes, which gives the GIL up
// during calls. One session at a time.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/python/bridge/api.h"
#include "collectors/python/bridge/gil_holds.h"
#include "collectors/python/python_collector.h"
#include "common/clock/clock.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/store.h"
#include "tests/failing_memory.h"

namespace jobscope {
namespace {

constexpr bool kUsesTsc = false;

bool IsMainThread() { return gettid() == getpid(); }

bool IsHelperThread() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return std::string_view(name) == "jobscope-python";
}

class FileSink : public xspace::ByteSink {
 public:
  explicit FileSink(const char* path) : file_(fopen(path, "wb")) {}
  ~FileSink() override {
    if (file_ != nullptr) fclose(file_);
  }
  absl::Status Write(std::string_view bytes, bool /*stable*/) override {
    if (file_ != nullptr && fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size()) {
      return absl::OkStatus();
    }
    return absl::InternalError("the trace cannot be written");
  }

 private:
  FILE* const file_;
};

std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

// As the session does it: all verbs on one thread, which drains in between.
class Session {
 public:
  // With `start_at` in the future: armed only.
  Session(PythonCollector* collector, int level, size_t store_bytes, absl::Time start_at)
      : collector_(collector), store_(store_bytes), names_(&store_), start_at_(start_at) {
    ArmRequest request;
    request.recording.python_tracer_level = level;
    request.sink = &store_;
    request.names = &names_;
    thread_ = std::thread([this, request] { Run(request); });
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return started_; });
  }

  void StartLater(absl::Duration after) {
    const std::lock_guard<std::mutex> lock(mutex_);
    start_at_ = absl::Now() + after;
    changed_.notify_all();
  }

  void StopLater(absl::Duration after) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_at_ = absl::Now() + after;
    changed_.notify_all();
  }

  void Stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void AwaitEnd() {
    std::unique_lock<std::mutex> lock(mutex_);
    // A session that needs the GIL to end would wait for ever.
    (void)changed_.wait_for(lock, std::chrono::seconds(30), [this] { return ended_; });
  }

  absl::Status Write(const char* path) const {
    const std::vector<xspace::ItemView> items = store_.Items();
    xspace::AssembleOptions options;
    auto assembler = xspace::Assembler::Create(items, options);
    if (!assembler.ok()) return assembler.status();
    FileSink sink(path);
    return assembler->Write(0, &sink);
  }

  std::string Json() const {
    const auto pair = [](std::string* out, const auto& entry) {
      absl::StrAppend(out, Quoted(Name(entry.first)), ": ", entry.second);
    };
    const auto text = [](std::string* out, const std::string& entry) {
      absl::StrAppend(out, Quoted(entry));
    };
    return absl::StrCat(
        "{\"state\": ", Quoted(Name(report_.state)), ", \"reason\": ", Quoted(report_.reason),
        ", \"attempted\": ", report_.attempted, ", \"events\": ", report_.events,
        ", \"outside\": ", report_.outside, ", \"lost\": {",
        absl::StrJoin(report_.lost_by_cause, ", ", pair),
        "}, \"account_unknown\": ", report_.account_unknown ? "true" : "false", ", \"warnings\": [",
        absl::StrJoin(report_.warnings, ", ", text), "], \"longest_verb_ms\": ", longest_verb_ms_,
        ", \"duration_ms\": ", duration_ms_, ", \"holds\": ", Quoted(python::LongestGilHolds()),
        "}");
  }

 private:
  template <typename Body>
  void Timed(Body body) {
    const uint64_t before = WorkerMonotonicNs();
    body();
    longest_verb_ms_ =
        std::max(longest_verb_ms_, static_cast<double>(WorkerMonotonicNs() - before) / 1e6);
  }

  void Run(const ArmRequest& request) {
    const ClockSample early = SampleClocks(kUsesTsc);
    bool recording = false;
    Timed([&] { recording = collector_->Arm(request).ok(); });
    AwaitStart();
    const uint64_t start = SampleClocks(kUsesTsc).ticks;
    StartRequest begin;
    begin.start_ticks = start;
    // Ticks are nanoseconds, so that no second sample is needed for their rate.
    begin.map = TickMap::FromSamples(early, early).WithZero(start);
    Timed([&] { recording = recording && collector_->Start(begin).ok(); });
    std::unique_lock<std::mutex> lock(mutex_);
    started_ = true;
    changed_.notify_all();
    while (!stop_) {
      lock.unlock();
      absl::Duration pause = absl::InfiniteDuration();
      if (recording) Timed([&] { pause = collector_->Drain(); });
      lock.lock();
      const auto limit = std::min({pause, absl::Seconds(1), stop_at_ - absl::Now()});
      changed_.wait_for(lock, absl::ToChronoMicroseconds(limit), [this] { return stop_; });
      if (absl::Now() >= stop_at_) break;
    }
    lock.unlock();
    const uint64_t end = SampleClocks(kUsesTsc).ticks;
    duration_ms_ = static_cast<double>(end - start) / 1e6;
    if (recording) Timed([&] { (void)collector_->Stop(end); });
    Timed([&] { report_ = collector_->Report(); });
    lock.lock();
    ended_ = true;
    changed_.notify_all();
  }

  void AwaitStart() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (absl::Now() < start_at_) {
      started_ = true;  // as far as the caller waits for it
      changed_.notify_all();
      changed_.wait_for(
          lock, absl::ToChronoMicroseconds(std::min(start_at_ - absl::Now(), absl::Seconds(1))));
    }
  }

  PythonCollector* const collector_;
  xspace::Store store_;
  xspace::Names names_;
  CollectorReport report_;
  double longest_verb_ms_ = 0;
  double duration_ms_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Time start_at_;
  bool started_ = false;
  bool stop_ = false;
  bool ended_ = false;
  absl::Time stop_at_ = absl::InfiniteFuture();
  std::thread thread_;  // last: it uses the others
};

// Left alone at exit, and in forked children, as the worker's are.
Session* g_session = nullptr;
auto* const g_answer = new std::string;

}  // namespace
}  // namespace jobscope

extern "C" {

#define DRIVER_API __attribute__((visibility("default")))

DRIVER_API void driver_arm(int level, uint64_t store_bytes, int start) {
  static auto* const collector = new jobscope::PythonCollector(jobscope::kUsesTsc);
  jobscope::g_session = new jobscope::Session(
      collector, level, store_bytes, start != 0 ? absl::InfinitePast() : absl::InfiniteFuture());
}

DRIVER_API void driver_start(int level, uint64_t store_bytes) { driver_arm(level, store_bytes, 1); }

DRIVER_API void driver_start_later(int milliseconds) {
  jobscope::g_session->StartLater(absl::Milliseconds(milliseconds));
}

// Gives the GIL up with an exception on its way, as extensions do that close a file; until the pipe
// `until` is closed. Tells on the pipe `here`. For ctypes.PyDLL.
DRIVER_API void driver_wait_with_exception(int here, int until) {
  const jobscope::python::Api& api = **jobscope::python::FindApi();
  api.Err_SetString(*api.runtime_error_class, "on its way");
  jobscope::python::ThreadState* const state = api.Eval_SaveThread();
  char byte = 0;
  if (write(here, &byte, 1) == 1) {
    while (read(until, &byte, 1) > 0) {
    }
  }
  api.Eval_RestoreThread(state);
}

// Calls `function`, which enters Python, on a thread that Python does not know, and which keeps its
// state of a Python thread until the pipe `until` is closed.
DRIVER_API void driver_call_aside(void (*function)(), int until) {
  std::thread([=] {
    const jobscope::python::Api& api = **jobscope::python::FindApi();
    const int before = api.GILState_Ensure();
    jobscope::python::ThreadState* const state = api.Eval_SaveThread();
    function();
    char byte = 0;
    while (read(until, &byte, 1) > 0) {
    }
    api.Eval_RestoreThread(state);
    api.GILState_Release(before);
  }).join();
}

// Opens a library without the GIL, as C++ code of a program does.
DRIVER_API int driver_open(const char* path) { return dlopen(path, RTLD_NOW) != nullptr; }

// Lets the next `count` allocations fail, of the main thread or of the helper's.
DRIVER_API void driver_fail_allocations(int on_main, int count) {
  jobscope::FailAllocations(1, count,
                            on_main != 0 ? &jobscope::IsMainThread : &jobscope::IsHelperThread);
}

// Ends the recording by itself; driver_stop is still to be called.
DRIVER_API void driver_stop_later(int milliseconds) {
  jobscope::g_session->StopLater(absl::Milliseconds(milliseconds));
}

// Waits until the recording has ended so. Keeps the GIL if it is called by way of ctypes.PyDLL.
DRIVER_API void driver_await_end() { jobscope::g_session->AwaitEnd(); }

// The report, as JSON. The trace is in the file then.
DRIVER_API const char* driver_stop(const char* path) {
  jobscope::g_session->Stop();
  const absl::Status written = jobscope::g_session->Write(path);
  *jobscope::g_answer = written.ok() ? jobscope::g_session->Json() : std::string(written.message());
  delete jobscope::g_session;
  jobscope::g_session = nullptr;
  return jobscope::g_answer->c_str();
}

}  // extern "C"
