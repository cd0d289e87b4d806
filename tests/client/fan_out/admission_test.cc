// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/fan_out/fan_out_options.h"
#include "client/fan_out/roster.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::DescribeResponse RankOfAJob() {
  v1::DescribeResponse response;
  response.set_streams(true);
  response.mutable_identity()->set_pid(7);
  response.mutable_identity()->set_rank(3);
  response.mutable_identity()->set_has_rank(true);
  response.mutable_identity()->set_executable("/opt/train");
  response.mutable_gpus()->add_gpus()->set_name("NVIDIA H100");
  response.mutable_gpus()->set_driver_version("580");
  return response;
}

struct AdmissionTest : ::testing::Test {
  AdmissionTest() { options_.duration = absl::Seconds(1); }

  // One attempt at the worker, which answers with `response`.
  void Attempt(const v1::DescribeResponse* response) {
    roster_.BeginAttempt(0, absl::InfiniteFuture());
    roster_[0].streams = true;
    account_.protocol = Protocol::kNative;
    decision_ = admission_.Decide(0, response);
  }

  FanOutOptions options_;
  Roster roster_{{Endpoint()}, {"w0_1"}};
  Admission admission_{options_, &roster_};
  ManifestWorker& account_ = roster_[0].result.account;
  Admission::Decision decision_;
};

// As if its job was replaced between two attempts.
TEST_F(AdmissionTest, TheAccountOfAnEarlierProcessIsNotThatOfItsSuccessor) {
  const v1::DescribeResponse before = RankOfAJob();
  Attempt(&before);
  EXPECT_EQ(account_.rank, 3);
  EXPECT_EQ(account_.gpus.size(), 1u);

  v1::DescribeResponse after;
  after.set_streams(true);
  after.mutable_identity()->set_pid(8);
  Attempt(&after);
  EXPECT_EQ(decision_.next, Admission::Next::kArm);
  EXPECT_EQ(account_.pid, 8);
  EXPECT_EQ(account_.rank, std::nullopt);
  EXPECT_EQ(account_.executable, "");
  EXPECT_THAT(account_.gpus, IsEmpty());
  EXPECT_EQ(account_.gpu_driver, "");
  EXPECT_EQ(account_.name, "w0_1");
  EXPECT_EQ(account_.protocol, Protocol::kNative);
}

TEST_F(AdmissionTest, TheAccountOfAnEarlierProcessIsNotThatOfAStockWorker) {
  const v1::DescribeResponse before = RankOfAJob();
  Attempt(&before);
  Attempt(nullptr);
  EXPECT_EQ(decision_.next, Admission::Next::kAskTensorflow);
  EXPECT_EQ(account_.pid, std::nullopt);
  EXPECT_EQ(account_.executable, "");
  // Its second answer, over the other protocol.
  roster_[0].streams = false;
  EXPECT_EQ(admission_.Decide(0, nullptr).next, Admission::Next::kArm);
  EXPECT_THAT(account_.warnings, ElementsAre(HasSubstr("native protocol")));
}

// Three addresses. A process has a number here.
class TwinsTest : public ::testing::Test {
 protected:
  TwinsTest() { options_.duration = absl::Seconds(1); }

  // The address under which the worker is a duplicate if that process answers. Nullopt: it is
  // recorded itself.
  std::optional<std::string> SameAs(size_t index, int process) {
    v1::DescribeResponse response;
    response.set_streams(true);
    response.mutable_identity()->set_pid(process);
    response.set_start_unix_ns(1);
    roster_.BeginAttempt(index, absl::InfiniteFuture());
    roster_[index].streams = true;
    decision_ = admission_.Decide(index, &response);
    if (decision_.next == Admission::Next::kArm) return std::nullopt;
    EXPECT_EQ(decision_.outcome.kind, Outcome::kDuplicate);
    roster_.Move(index, Stage::kDone);
    return roster_[index].result.account.same_as;
  }

  static std::vector<Endpoint> Endpoints() {
    std::vector<Endpoint> endpoints(3);
    for (size_t i = 0; i < endpoints.size(); ++i) endpoints[i].address = absl::StrCat("w", i);
    return endpoints;
  }

  FanOutOptions options_;
  Roster roster_{Endpoints(), {"w0", "w1", "w2"}};
  Admission admission_{options_, &roster_};
  Admission::Decision decision_;  // the last one
};

TEST_F(TwinsTest, AnAddressWhoseProcessWasReplacedStandsForTheNewOneOnly) {
  EXPECT_EQ(SameAs(0, 7), std::nullopt);
  EXPECT_EQ(SameAs(1, 7), "w0");
  EXPECT_EQ(SameAs(0, 8), std::nullopt);  // after it was busy, for example
  EXPECT_THAT(decision_.duplicates_of_earlier, ElementsAre(1));
  EXPECT_EQ(SameAs(0, 9), std::nullopt);
  EXPECT_THAT(decision_.duplicates_of_earlier, IsEmpty()) << "each once";
  // The earlier process, which only the other address reaches now.
  EXPECT_EQ(SameAs(2, 7), std::nullopt);
  EXPECT_EQ(SameAs(1, 7), "w2");
}

TEST_F(TwinsTest, AReplacedProcessMayHaveBothAddressesAgain) {
  EXPECT_EQ(SameAs(0, 7), std::nullopt);
  EXPECT_EQ(SameAs(1, 7), "w0");
  EXPECT_EQ(SameAs(0, 8), std::nullopt);
  EXPECT_THAT(decision_.duplicates_of_earlier, ElementsAre(1));
  EXPECT_EQ(SameAs(1, 8), "w0");
  EXPECT_EQ(SameAs(0, 8), std::nullopt);
  EXPECT_THAT(decision_.duplicates_of_earlier, IsEmpty());
}

TEST_F(TwinsTest, AProcessThatAnswersAgainKeepsItsDuplicates) {
  EXPECT_EQ(SameAs(0, 7), std::nullopt);
  EXPECT_EQ(SameAs(1, 7), "w0");
  EXPECT_EQ(SameAs(0, 7), std::nullopt);
  EXPECT_THAT(decision_.duplicates_of_earlier, IsEmpty());
  EXPECT_EQ(SameAs(2, 7), "w0");
}

TEST_F(TwinsTest, AWorkerThatBecomesADuplicateStandsForNoProcess) {
  EXPECT_EQ(SameAs(0, 7), std::nullopt);
  EXPECT_EQ(SameAs(1, 8), std::nullopt);
  EXPECT_EQ(SameAs(2, 8), "w1");
  EXPECT_EQ(SameAs(1, 7), "w0");
  EXPECT_THAT(decision_.duplicates_of_earlier, ElementsAre(2));
  EXPECT_EQ(SameAs(2, 8), std::nullopt);
}

}  // namespace
}  // namespace jobscope
