// SPDX-License-Identifier: Apache-2.0
//
// The program `capture` between a worker that is broken, or hostile, and one that is neither.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/fake_native_worker.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

v1::DescribeResponse Native() {
  v1::DescribeResponse description;
  description.set_version("test");
  description.set_streams(true);
  return description;
}

// A hundred bytes of each item take 3 KiB once they are parsed: a GiB and a half in all.
TEST(HostileWorkerTest, CostsNeitherMemoryNorTheTracesOfOthers) {
  const std::vector<FakeItem> items = MakeItems(1, 10, 10);
  FakeNativeWorker::Script good;
  good.description = Native();
  good.capture = [&items](FakeCapture* capture) {
    return FakeNativeWorker::SendAll(capture, items);
  };
  FakeNativeWorker::Script hostile = good;
  hostile.capture = [&items](FakeCapture* capture) {
    FakeNativeWorker::Begin(capture);
    capture->SendItems(items, 0, items.size() - 1);
    std::string threads;
    for (int i = 0; i < 40; ++i) threads.append("\x1a\x00", 2);  // Loss.threads, empty
    uint64_t number = items.size() - 1;
    while (number < 500'000) {
      std::vector<FakeItem> losses;
      for (int i = 0; i < 500; ++i) {
        ++number;
        const std::string collector = absl::StrCat(number);
        std::string body = "\x0a";
        body.push_back(static_cast<char>(collector.size()));
        losses.push_back({number, xspace::ItemKind::kLoss, absl::StrCat(body, collector, threads)});
      }
      if (!capture->SendRaw(ItemsMessage(losses))) return grpc::Status::OK;
    }
    capture->SendRaw(ItemsMessage({{number + 1, xspace::ItemKind::kSummary, items.back().body}}));
    capture->SendEnded(number + 1);
    capture->AwaitAck(number + 1);
    return grpc::Status::OK;
  };
  FakeNativeWorker good_worker(good);
  FakeNativeWorker hostile_worker(hostile);
  const TemporaryDirectory logdir;
  Subprocess capture(
      {CAPTURE_PROGRAM,
       absl::StrCat("--service_addr=", hostile_worker.address(), ",", good_worker.address()),
       "--logdir=" + logdir.path(), "--duration_ms=100", "--json"});
  EXPECT_EQ(capture.Wait(), 0) << capture.err();
  const json workers = json::parse(capture.out(), nullptr, false)["workers"];
  ASSERT_EQ(workers.size(), 2U) << capture.out();
  EXPECT_EQ(workers[0]["outcome"], "truncated");
  EXPECT_THAT(workers[0]["reason"].get<std::string>(), HasSubstr("the worker sent more than"));
  EXPECT_EQ(workers[0]["events"], 100);
  EXPECT_EQ(workers[1]["outcome"], "ok") << workers[1];
#if !defined(__SANITIZE_ADDRESS__)  // which keeps freed memory back
  EXPECT_LT(capture.peak_bytes(), size_t{700} << 20);
#endif
}

}  // namespace
}  // namespace jobscope
