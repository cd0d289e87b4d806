// SPDX-License-Identifier: Apache-2.0
//
// Runs the real program against workers of every kind.
#ifndef TESTS_CLIENT_CLI_CAPTURE_FIXTURE_H_
#define TESTS_CLIENT_CLI_CAPTURE_FIXTURE_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/client/fake_worker.h"
#include "tests/subprocess.h"
#include "tests/temporary_directory.h"

namespace jobscope {

// A port of the kernel's choice, on loopback.
class Socket {
 public:
  explicit Socket(bool listens) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    // A server of gRPC's may listen there beside it; nobody else gets the port meanwhile.
    const int on = 1;
    if (setsockopt(fd_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) std::abort();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0) std::abort();
    if (listens) listen(fd_, 8);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Socket() { close(fd_); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  const int fd_;
  int port_ = 0;
};

class CaptureTest : public ::testing::Test {
 protected:
  using json = nlohmann::json;

  std::unique_ptr<Subprocess> Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), CAPTURE_PROGRAM);
    return std::make_unique<Subprocess>(arguments);
  }
  std::unique_ptr<Subprocess> StartCapture(const std::string& addresses,
                                           std::vector<std::string> more = {}) {
    more.push_back("--service_addr=" + addresses);
    more.push_back("--logdir=" + logdir_.path());
    more.push_back("--session_id=r");
    return Start(std::move(more));
  }
  // Runs a short capture with --json; returns the manifest, and checks that stdout and the file say
  // the same.
  json Capture(const std::string& addresses, int exit_code, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--json", "--duration_ms=100"});
    const std::unique_ptr<Subprocess> capture = StartCapture(addresses, std::move(more));
    EXPECT_EQ(capture->Wait(), exit_code) << capture->err();
    EXPECT_TRUE(json::accept(capture->out())) << capture->out();
    const json manifest = json::parse(capture->out(), nullptr, false);
    // A run without a trace is none to viewers.
    const bool failed = exit_code == 4;
    EXPECT_EQ(std::filesystem::exists(run()), !failed);
    EXPECT_EQ(manifest["run_directory"], failed ? logdir_.path() + "/failed_runs/r" : run());
    EXPECT_EQ(capture->out(),
              ReadAll(manifest["run_directory"].get<std::string>() + "/capture.json"));
    EXPECT_EQ(manifest["exit_code"], exit_code);
    return manifest;
  }
  std::string run() const { return logdir_.path() + "/plugins/profile/r"; }

  static std::string Stem(const std::string& address) {
    std::string stem = address;
    stem[stem.rfind(':')] = '_';
    return stem;
  }

  TemporaryDirectory logdir_;
};

// A worker in a process of its own.
class WorkerProcess {
 public:
  explicit WorkerProcess(std::vector<std::string> arguments)
      : process_(Argv(std::move(arguments))) {
    EXPECT_TRUE(process_.AwaitText("\n"));
    const std::string out = process_.out();
    address_ = out.substr(0, out.find('\n'));
  }
  const std::string& address() const { return address_; }
  Subprocess& process() { return process_; }

 private:
  static std::vector<std::string> Argv(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), FAKE_WORKER_PROGRAM);
    return arguments;
  }
  Subprocess process_;
  std::string address_;
};

}  // namespace jobscope

#endif  // TESTS_CLIENT_CLI_CAPTURE_FIXTURE_H_
