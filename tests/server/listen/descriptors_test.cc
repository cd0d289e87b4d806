// SPDX-License-Identifier: Apache-2.0
//
// The job's file descriptors stay the job's, whatever connects, and a shortage of them is not the
// server's end. On real processes with real limits.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "server/limits.h"
#include "tensorflow/profiler_service.grpc.pb.h"
#include "tests/certificates.h"
#include "tests/server/crowded_worker_process.h"
#include "tests/server/sockets.h"

namespace jobscope {
namespace {

constexpr int kWorkerDescriptors = 256;
constexpr size_t kCallers = 1'000;

class Descriptors : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  static bool CanHoldCallers() {
    rlimit limit = {};
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > kCallers + 100;
  }

  void StartWorker(bool tls) {
    std::vector<std::string> environment = {"JOBSCOPE_LISTEN=127.0.0.1:0"};
    credentials_ = grpc::InsecureChannelCredentials();
    if (tls) {
      const Certificates& certificates = Certificates::Get();
      environment.push_back("JOBSCOPE_TLS_CERT=" + certificates.Path("server.crt"));
      environment.push_back("JOBSCOPE_TLS_KEY=" + certificates.Path("server.key"));
      grpc::SslCredentialsOptions options;
      options.pem_root_certs = certificates.Read("ca.crt");
      credentials_ = grpc::SslCredentials(options);
    }
    worker_ = std::make_unique<CrowdedWorker>(kWorkerDescriptors, std::move(environment));
    ASSERT_NE(worker_->address(), "");
  }

  // Over a connection of its own.
  std::shared_ptr<grpc::Channel> Dial() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(worker_->address(), credentials_, arguments);
  }
  grpc::Status Describe(absl::Duration timeout) const {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    v1::DescribeResponse response;
    return v1::Profiler::NewStub(Dial())->Describe(&context, {}, &response);
  }
  // What an operator's capture needs; over one connection.
  grpc::Status Profile() const {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    tensorflow::ProfileRequest request;
    request.set_duration_ms(50);
    request.set_emit_xspace(true);
    tensorflow::ProfileResponse response;
    return tensorflow::ProfilerService::NewStub(Dial())->Profile(&context, request, &response);
  }
  static bool Eventually(const std::function<bool()>& condition) {
    const absl::Time end = absl::Now() + absl::Minutes(2);
    while (!condition()) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(5));  // a poll interval, not a synchronisation
    }
    return true;
  }

  // Connects kCallers that say `first_bytes` and nothing more, and looks what that does to the job.
  void BeCrowded(const std::string& first_bytes) {
    // The first connections of a process cost gRPC descriptors of its own.
    ASSERT_TRUE(Describe(absl::Minutes(1)).ok());
    const size_t before = worker_->AskNumber("count");
    std::vector<RawConnection> callers;
    callers.reserve(kCallers);
    while (callers.size() < kCallers) callers.emplace_back(worker_->address(), first_bytes);

    grpc::Status status = Describe(absl::Minutes(1));
    EXPECT_TRUE(status.ok()) << status.error_message();
    status = Profile();
    EXPECT_TRUE(status.ok()) << status.error_message();
    const size_t with_callers = worker_->AskNumber("count");
    EXPECT_LE(with_callers, before + limits::kMaxConnectionDescriptors + limits::kFreeDescriptors);
    EXPECT_EQ(worker_->Ask("open 100"), "ok");
    RecordProperty("descriptors", static_cast<int>(with_callers - before));
  }

  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::unique_ptr<CrowdedWorker> worker_;
};

// Those that came while there was no descriptor must not be the end of the listener.
TEST_F(Descriptors, AShortageIsOverWhenItIsOver) {
  ::testing::internal::CaptureStderr();  // and the worker's, which inherits it
  StartWorker(/*tls=*/false);
  ASSERT_TRUE(Describe(absl::Minutes(1)).ok());
  EXPECT_GT(worker_->AskNumber("use"), 0U);
  std::vector<RawConnection> callers;
  while (callers.size() < 20) callers.emplace_back(worker_->address());
  // Comes behind those, and gets no answer, because nothing is accepted.
  EXPECT_FALSE(Describe(absl::Seconds(1)).ok());
  EXPECT_GT(worker_->AskNumber("free"), 0U);
  EXPECT_TRUE(Eventually([this] { return Describe(absl::Seconds(20)).ok(); }));
  EXPECT_TRUE(Profile().ok());
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::AllOf(::testing::HasSubstr("the profiler server accepts no connection for now: "),
                       ::testing::HasSubstr("Raise the limit on open files (ulimit -n)")));
}

TEST_F(Descriptors, TheLastOnesAreTheJobs) {
  StartWorker(/*tls=*/false);
  ASSERT_TRUE(Describe(absl::Minutes(1)).ok());
  const size_t free = kWorkerDescriptors - worker_->AskNumber("count");
  ASSERT_TRUE(Eventually([this] { return worker_->Ask("open 100") == "ok"; }));
  std::vector<RawConnection> callers;
  while (callers.size() < kWorkerDescriptors) callers.emplace_back(worker_->address());
  EXPECT_TRUE(Describe(absl::Minutes(1)).ok());
  EXPECT_GT(free, limits::kMaxConnectionDescriptors + limits::kFreeDescriptors);
  EXPECT_EQ(worker_->Ask(absl::StrCat("open ", free - limits::kMaxConnectionDescriptors - 2)),
            "ok");
}

TEST_F(Descriptors, AThousandWhoSayNothing) {
  if (!CanHoldCallers()) GTEST_SKIP() << "the limit on open files is too low here";
  StartWorker(/*tls=*/false);
  BeCrowded("");
}

TEST_F(Descriptors, AThousandWhoBeginToSpeak) {
  if (!CanHoldCallers()) GTEST_SKIP() << "the limit on open files is too low here";
  StartWorker(/*tls=*/false);
  BeCrowded(kHttp2Preface);
}

TEST_F(Descriptors, AThousandWhoConnectAndNeverAsk) {
  if (!CanHoldCallers()) GTEST_SKIP() << "the limit on open files is too low here";
  StartWorker(/*tls=*/false);
  BeCrowded(kHttp2Preface + kHttp2Settings);
}

TEST_F(Descriptors, AThousandWhoSayNothingToTls) {
  if (!CanHoldCallers()) GTEST_SKIP() << "the limit on open files is too low here";
  StartWorker(/*tls=*/true);
  BeCrowded("");
}

TEST_F(Descriptors, AThousandWhoBeginTls) {
  if (!CanHoldCallers()) GTEST_SKIP() << "the limit on open files is too low here";
  StartWorker(/*tls=*/true);
  BeCrowded(kTlsBeginning);
}

}  // namespace
}  // namespace jobscope
