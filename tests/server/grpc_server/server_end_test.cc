// SPDX-License-Identifier: Apache-2.0
//
// Tests what remains in the process after a server has ended.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

std::set<std::string> ThreadIds() {
  std::set<std::string> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    ids.insert(entry.path().filename());
  }
  return ids;
}

// True also for a thread that has ended.
bool BlocksUserSignals(const std::string& thread_id) {
  std::ifstream status("/proc/self/task/" + thread_id + "/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("SigBlk:", 0) != 0) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (SIGUSR1 - 1) & 1) != 0;
  }
  return true;
}

struct Stream {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ClockPing, v1::ClockPong>> calls;
};

class ServerEndTest : public ServiceFixture {
 protected:
  // Of this thread, and of those that gRPC starts for it.
  static void BlockUserSignals(bool block) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    ASSERT_EQ(pthread_sigmask(block ? SIG_BLOCK : SIG_UNBLOCK, &signals, nullptr), 0);
  }
};

// gRPC starts threads when several calls end at once: they inherit the mask of the thread that ends
// them, and would then take signals that are meant for the application.
TEST_F(ServerEndTest, NoThreadThatGrpcStartsMeanwhileTakesSignalsOfTheApplication) {
  BlockUserSignals(true);  // the threads that gRPC starts for the client
  StartServer();
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 60; ++i) {
    auto stream = std::make_unique<Stream>();
    stream->calls = native_->SyncClock(&stream->context);
    v1::ClockPong pong;
    ASSERT_TRUE(stream->calls->Write({}) && stream->calls->Read(&pong));
    streams.push_back(std::move(stream));
  }
  const std::set<std::string> before = ThreadIds();
  BlockUserSignals(false);
  server_->Stop(absl::Seconds(60));
  BlockUserSignals(true);
  for (const std::string& id : ThreadIds()) {
    EXPECT_TRUE(before.count(id) != 0 || BlocksUserSignals(id)) << "thread " << id;
  }
  server_.reset();
  for (const auto& stream : streams) {
    EXPECT_EQ(stream->calls->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
}

}  // namespace
}  // namespace jobscope
