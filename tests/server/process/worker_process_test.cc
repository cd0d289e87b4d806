// SPDX-License-Identifier: Apache-2.0
//
// libjobscope.so as a worker uses it: the C ABI and its C++ form, with the real recorder.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jobscope/jobscope_c.h"
#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

// The first test to run starts recording in this process; all share the recorder, and each its own
// server.
class WorkerProcess : public ::testing::Test {
 protected:
  ~WorkerProcess() override {
    looping_ = false;
    if (loop_.joinable()) loop_.join();
    EXPECT_EQ(jobscope_server_stop(), JOBSCOPE_OK);
  }

  static ProfilerServerOptions Loopback() {
    ProfilerServerOptions options;
    options.address = "127.0.0.1:0";
    return options;
  }

  // A training loop: steps of about 1 ms, numbered without a gap.
  void StartLoop() {
    loop_ = std::thread([this] {
      SetThreadName("trainer");
      while (looping_) {
        if (step_ >= limit_) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        JOBSCOPE_STEP("train", step_.load());
        {
          JOBSCOPE_SCOPE("load_batch", "bytes", 4096);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        step_.fetch_add(1);
      }
    });
  }
  void AwaitStep(int64_t step) {
    while (step_ < step) std::this_thread::yield();
  }

  std::unique_ptr<tensorflow::ProfilerService::Stub> Tensorflow(const ProfilerServer& server) {
    return tensorflow::ProfilerService::NewStub(
        grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  }

  // Events of the host plane by name.
  static std::map<std::string, int> CountByName(const tensorflow::profiler::XSpace& space) {
    std::map<std::string, int> counts;
    for (const auto& plane : space.planes()) {
      for (const auto& line : plane.lines()) {
        for (const auto& event : line.events()) {
          ++counts[plane.event_metadata().at(event.metadata_id()).name()];
        }
      }
    }
    return counts;
  }

  // Numbers of the whole steps in the trace.
  static std::set<int64_t> StepNumbers(const tensorflow::profiler::XSpace& space) {
    std::set<int64_t> numbers;
    for (const auto& plane : space.planes()) {
      for (const auto& line : plane.lines()) {
        for (const auto& event : line.events()) {
          for (const auto& stat : event.stats()) {
            if (plane.stat_metadata().at(stat.metadata_id()).name() == "step_num") {
              numbers.insert(stat.int64_value());
            }
          }
        }
      }
    }
    return numbers;
  }

  std::atomic<bool> looping_{true};
  std::atomic<int64_t> step_{0};
  std::atomic<int64_t> limit_{INT64_MAX};  // the loop stands still before this step
  std::thread loop_;
};

TEST_F(WorkerProcess, ACaptureHoldsTheScopesOfTheProcess) {
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  StartLoop();
  auto stub = Tensorflow(server);
  tensorflow::ProfileResponse response;
  std::map<std::string, int> counts;
  // Longer where the loop was not run meanwhile.
  for (uint64_t duration_ms = 200; duration_ms < 20'000 && counts["load_batch"] <= 20;
       duration_ms *= 2) {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.set_duration_ms(duration_ms);
    request.set_emit_xspace(true);
    const auto start = Clock::now();
    const grpc::Status status = stub->Profile(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(duration_ms));
    counts = CountByName(response.xspace());
  }
  EXPECT_GT(counts["train"], 20);
  EXPECT_GT(counts["load_batch"], 20);
  const std::set<int64_t> steps = StepNumbers(response.xspace());
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(static_cast<int64_t>(steps.size()), *steps.rbegin() - *steps.begin() + 1)
      << "steps are missing";
}

TEST_F(WorkerProcess, ContinuousProfilingHasNoGap) {
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  auto stub = Tensorflow(server);
  {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.mutable_opts()->set_version(1);  // host level 0, as XProf sends it
    tensorflow::ContinuousProfilingResponse response;
    ASSERT_TRUE(stub->StartContinuousProfiling(&context, request, &response).ok());
  }
  limit_ = 0;
  StartLoop();
  std::set<int64_t> steps;
  int64_t loads = 0;
  for (int64_t until : {50, 100, 150}) {
    limit_ = until;  // or the rings would be overwritten while a busy machine takes the snapshots
    AwaitStep(until);
    grpc::ClientContext context;
    tensorflow::ProfileResponse response;
    const grpc::Status status = stub->GetSnapshot(&context, {}, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const std::set<int64_t> in_snapshot = StepNumbers(response.xspace());
    // Each snapshot reaches back to the start: what was before the one before it is there again.
    ASSERT_FALSE(in_snapshot.empty());
    EXPECT_EQ(*in_snapshot.begin(), 0);
    EXPECT_GE(*in_snapshot.rbegin(), until - 1);
    steps.insert(in_snapshot.begin(), in_snapshot.end());
    const int64_t loads_now = CountByName(response.xspace())["load_batch"];
    EXPECT_GT(loads_now, loads);
    loads = loads_now;
  }
  EXPECT_EQ(static_cast<int64_t>(steps.size()), *steps.rbegin() + 1) << "steps are missing";
  grpc::ClientContext context;
  tensorflow::StopContinuousProfilingResponse response;
  EXPECT_TRUE(stub->StopContinuousProfiling(&context, {}, &response).ok());
}

TEST_F(WorkerProcess, MonitorKnowsTheSteps) {
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  StartLoop();
  AwaitStep(10);
  auto stub = Tensorflow(server);
  tensorflow::MonitorResponse response;
  // Again where the loop was not run meanwhile.
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    tensorflow::MonitorRequest request;
    request.set_duration_ms(300);
    ASSERT_TRUE(stub->Monitor(&context, request, &response).ok());
    const double average_ms = response.monitor_result().step_time_ms_avg();
    if (average_ms >= 1.0 && average_ms < 300.0) break;
  }
  const auto& result = response.monitor_result();
  EXPECT_EQ(result.response_type(), tensorflow::ProfilerServiceMonitorResult::UTIL_IDLE_STEP);
  EXPECT_GE(result.step_time_ms_min(), 1.0);
  EXPECT_LE(result.step_time_ms_min(), result.step_time_ms_avg());
  EXPECT_LE(result.step_time_ms_avg(), result.step_time_ms_max());
  EXPECT_LT(result.step_time_ms_avg(), 300.0);

  auto native = v1::Profiler::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext describe_context;
  v1::DescribeResponse description;
  ASSERT_TRUE(native->Describe(&describe_context, {}, &description).ok());
  EXPECT_GT(description.steps(), 10u);
  EXPECT_GE(description.step_time_ms(), 1.0);
  EXPECT_EQ(description.identity().pid(), getpid());
}

TEST_F(WorkerProcess, ARankThatTheProgramSetsLaterIsInTheTrace) {
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  setenv("RANK", "1234", 1);
  StartLoop();
  AwaitStep(10);
  grpc::ClientContext context;
  tensorflow::ProfileRequest request;
  request.set_duration_ms(100);
  request.set_emit_xspace(true);
  tensorflow::ProfileResponse response;
  const grpc::Status status = Tensorflow(server)->Profile(&context, request, &response);
  unsetenv("RANK");
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response.SerializeAsString(), HasSubstr("[rank 1234]"));
}

TEST_F(WorkerProcess, ASecondStartWithTheSameOptionsIsTheSameServer) {
  EXPECT_EQ(jobscope_server_running(), 0);
  {
    const ProfilerServer first = ProfilerServer::Start(Loopback());
    ASSERT_TRUE(first) << first.error();
    EXPECT_EQ(jobscope_server_running(), 1);
    {
      const ProfilerServer second = ProfilerServer::Start(Loopback());
      ASSERT_TRUE(second) << second.error();
      EXPECT_EQ(second.address(), first.address());
    }
    EXPECT_EQ(jobscope_server_running(), 1) << "the first handle has lost its server";

    ProfilerServerOptions others = Loopback();
    others.store_bytes = 32 << 20;
    const ProfilerServer third = ProfilerServer::Start(others);
    EXPECT_FALSE(third);
    EXPECT_EQ(third.code(), JOBSCOPE_E_BUSY);
    EXPECT_THAT(third.error(), AllOf(HasSubstr(first.address()), HasSubstr("other options")));
  }
  EXPECT_EQ(jobscope_server_running(), 0);
}

// `jobscope run` has started it: a program with a server of its own in the code goes on with that
// one.
TEST_F(WorkerProcess, AServerOfTheEnvironmentIsGivenToEveryStart) {
  ASSERT_EQ(setenv("JOBSCOPE_LISTEN", "127.0.0.1:0", 1), 0);
  {
    ProfilerServerOptions as_attached;
    as_attached.address = "127.0.0.1:0";
    const ProfilerServer attached = ProfilerServer::Start(as_attached);
    ASSERT_TRUE(attached) << attached.error();
    ProfilerServerOptions in_code;
    in_code.address = "127.0.0.1:6009";
    in_code.store_bytes = 32 << 20;
    const ProfilerServer second = ProfilerServer::Start(in_code);
    EXPECT_TRUE(second) << second.error();
    EXPECT_EQ(second.address(), attached.address());
  }
  EXPECT_EQ(unsetenv("JOBSCOPE_LISTEN"), 0);
  EXPECT_EQ(jobscope_server_running(), 0);
}

TEST_F(WorkerProcess, HandlesMove) {
  ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  ProfilerServer other = std::move(server);
  EXPECT_TRUE(other);
  EXPECT_FALSE(server);  // NOLINT(bugprone-use-after-move): this is what is tested
  other = ProfilerServer();
  EXPECT_EQ(jobscope_server_running(), 0);
}

TEST_F(WorkerProcess, BadOptionsAreErrorsThatSayWhatToDo) {
  struct {
    std::function<void(ProfilerServerOptions*)> change;
    int code;
    const char* text;
  } const cases[] = {
      {[](ProfilerServerOptions* o) { o->address = ""; }, JOBSCOPE_E_INVALID, "JOBSCOPE_LISTEN"},
      {[](ProfilerServerOptions* o) { o->address = "127.0.0.1:70000"; }, JOBSCOPE_E_INVALID,
       "over 65535"},
      {[](ProfilerServerOptions* o) { o->address = std::string(2000, 'a'); }, JOBSCOPE_E_INVALID,
       "1,024"},
      {[](ProfilerServerOptions* o) { o->address = "no-such-host.invalid:1"; }, JOBSCOPE_E_ADDRESS,
       "not known"},
      {[](ProfilerServerOptions* o) { o->address = "0.0.0.0:0"; }, JOBSCOPE_E_REFUSED,
       "JOBSCOPE_INSECURE"},
      {[](ProfilerServerOptions* o) { o->store_bytes = 1; }, JOBSCOPE_E_INVALID, "1048576"},
      {[](ProfilerServerOptions* o) { o->store_bytes = UINT64_MAX; }, JOBSCOPE_E_INVALID,
       "store_bytes"},
      {[](ProfilerServerOptions* o) { o->ring_records = 1000; }, JOBSCOPE_E_INVALID,
       "power of two"},
      // Obeyed, it would leave every thread without a ring.
      {[](ProfilerServerOptions* o) { o->rings_cap_bytes = 32768 * 32; }, JOBSCOPE_E_INVALID,
       "must hold at least one ring"},
      {[](ProfilerServerOptions* o) { o->ring_records = 4194304; }, JOBSCOPE_E_INVALID,
       "rings_cap_bytes = 67108864"},
  };
  for (const auto& bad : cases) {
    ProfilerServerOptions options = Loopback();
    bad.change(&options);
    const ProfilerServer server = ProfilerServer::Start(options);
    EXPECT_FALSE(server) << bad.text;
    EXPECT_EQ(server.code(), bad.code) << server.error();
    EXPECT_THAT(server.error(), HasSubstr(bad.text));
    EXPECT_EQ(jobscope_server_running(), 0);
  }
}

TEST_F(WorkerProcess, TheCAbiTakesOlderAndAbsentOptions) {
  setenv("JOBSCOPE_LISTEN", "127.0.0.1:0", 1);
  char address[64] = "x";
  char error[64] = "x";
  EXPECT_EQ(jobscope_server_start(nullptr, address, sizeof(address), error, sizeof(error)),
            JOBSCOPE_OK);
  EXPECT_THAT(std::string(address), StartsWith("127.0.0.1:"));
  EXPECT_STREQ(error, "");
  EXPECT_EQ(jobscope_server_stop(), JOBSCOPE_OK);
  // A caller that knows the address only.
  jobscope_server_options options;
  std::memset(&options, 0xff, sizeof(options));
  options.size = offsetof(jobscope_server_options, insecure);
  options.address = nullptr;
  EXPECT_EQ(jobscope_server_start(&options, nullptr, 0, nullptr, 0), JOBSCOPE_OK);
  EXPECT_EQ(jobscope_server_stop(), JOBSCOPE_OK);
  // Texts are cut at the buffer's size, and ended.
  options.size = 0;
  char tiny[8];
  EXPECT_EQ(jobscope_server_start(&options, nullptr, 0, tiny, sizeof(tiny)), JOBSCOPE_E_INVALID);
  EXPECT_EQ(std::strlen(tiny), sizeof(tiny) - 1);
  unsetenv("JOBSCOPE_LISTEN");
}

TEST_F(WorkerProcess, TheKillSwitchWins) {
  setenv("JOBSCOPE_DISABLE", "1", 1);
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  unsetenv("JOBSCOPE_DISABLE");
  EXPECT_FALSE(server);
  EXPECT_EQ(server.code(), JOBSCOPE_E_REFUSED);
  EXPECT_THAT(server.error(), HasSubstr("JOBSCOPE_DISABLE"));
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

TEST_F(WorkerProcess, TheEnvironmentsCeilingsHold) {
  const Variable duration("JOBSCOPE_MAX_DURATION_MS", "500000");
  const Variable bytes("JOBSCOPE_MAX_TRACE_MB", "1");
  const Variable rate("JOBSCOPE_MAX_CAPTURES_PER_MINUTE", "1");
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  ASSERT_TRUE(server) << server.error();
  auto stub = Tensorflow(server);
  const auto profile = [&stub](uint64_t duration_ms, tensorflow::ProfileResponse* response) {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.set_duration_ms(duration_ms);
    request.set_emit_xspace(true);
    return stub->Profile(&context, request, response);
  };
  tensorflow::ProfileResponse response;
  EXPECT_EQ(profile(500'001, &response).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  std::thread recorder([this] {
    while (looping_) {
      JOBSCOPE_SCOPE("flood");
    }
  });
  const grpc::Status first = profile(500'000, &response);
  looping_ = false;
  recorder.join();
  EXPECT_TRUE(first.ok()) << first.error_message();
  EXPECT_THAT(response.SerializeAsString(),
              AllOf(HasSubstr("max_trace_bytes"), Not(HasSubstr("JOBSCOPE_STORE_MB"))));
  EXPECT_EQ(profile(1, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// Ceilings in code win.
TEST_F(WorkerProcess, TheCeilingsInCodeHold) {
  const Variable duration("JOBSCOPE_MAX_DURATION_MS", "500000");
  ProfilerServerOptions options = Loopback();
  options.max_duration_ms = 50;
  options.max_captures_per_minute = 1;
  const ProfilerServer server = ProfilerServer::Start(options);
  ASSERT_TRUE(server) << server.error();
  auto stub = Tensorflow(server);
  const auto code_of = [&stub](uint64_t duration_ms) {
    grpc::ClientContext context;
    tensorflow::ProfileRequest request;
    request.set_duration_ms(duration_ms);
    tensorflow::ProfileResponse response;
    return stub->Profile(&context, request, &response).error_code();
  };
  EXPECT_EQ(code_of(60), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(code_of(50), grpc::StatusCode::OK);
  EXPECT_EQ(code_of(50), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(WorkerProcess, CredentialsFromTheEnvironmentAreNotIgnored) {
  setenv("JOBSCOPE_TLS_CERT", "cert.pem", 1);
  const ProfilerServer server = ProfilerServer::Start(Loopback());
  unsetenv("JOBSCOPE_TLS_CERT");
  EXPECT_EQ(server.code(), JOBSCOPE_E_INVALID);
  EXPECT_THAT(server.error(), HasSubstr("JOBSCOPE_TLS_CERT=/"));
  EXPECT_THAT(server.error(), HasSubstr("/cert.pem"));
  EXPECT_THAT(server.error(), HasSubstr("JOBSCOPE_TLS_KEY"));
}

TEST_F(WorkerProcess, CredentialsInCodeWinOverTheEnvironment) {
  setenv("JOBSCOPE_TOKEN_FILE", "/absent/in_environment", 1);
  ProfilerServerOptions options = Loopback();
  options.token_file = "/absent/in_code";
  const ProfilerServer server = ProfilerServer::Start(options);
  unsetenv("JOBSCOPE_TOKEN_FILE");
  EXPECT_EQ(server.code(), JOBSCOPE_E_INVALID);
  EXPECT_THAT(server.error(), HasSubstr("options.token_file=/absent/in_code"));
}

TEST_F(WorkerProcess, WritesItsAddressToThePortDirectory) {
  std::string directory = ::testing::TempDir() + "/addrXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  setenv("JOBSCOPE_PORT_DIR", directory.c_str(), 1);
  setenv("RANK", "5", 1);
  {
    const ProfilerServer server = ProfilerServer::Start(Loopback());
    ASSERT_TRUE(server) << server.error();
    std::string line;
    std::ifstream file(directory + "/5.addr");
    std::getline(file, line);
    EXPECT_EQ(line, server.address());
  }
  EXPECT_EQ(rmdir(directory.c_str()), 0) << "the file was left behind";

  const ProfilerServer missing = ProfilerServer::Start(Loopback());
  EXPECT_EQ(missing.code(), JOBSCOPE_E_IO);
  EXPECT_THAT(missing.error(), HasSubstr("JOBSCOPE_PORT_DIR"));
  EXPECT_EQ(jobscope_server_running(), 0);
  unsetenv("JOBSCOPE_PORT_DIR");
  unsetenv("RANK");
}

}  // namespace
}  // namespace jobscope
