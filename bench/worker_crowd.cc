// SPDX-License-Identifier: Apache-2.0
//
// Serves many workers in one process, for tests and benches of scale: real servers on separate
// ports, each with its own session manager, over a collector that generates events at a given rate
// and steps by the clock.
//
//   worker_crowd --count=250 [--events_per_second=1000] [--step_ms=10]
//
// Prints one address per line, then an empty line, and serves until SIGTERM.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "common/process/identity.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/segment.h"
#include "server/grpc_server/grpc_server.h"
#include "server/listen/listen_address.h"
#include "server/services/step_source.h"
#include "server/session/session_manager.h"

namespace jobscope::bench {
namespace {

constexpr int64_t kPsPerSecond = 1'000'000'000'000;

// Generates events as if a thread had recorded them at a constant rate: at each drain, all that
// have become due.
class RateCollector : public Collector {
 public:
  explicit RateCollector(double events_per_second) : events_per_second_(events_per_second) {}

  std::string_view name() const override { return "crowd"; }
  CollectorReport Describe() const override { return {}; }

  absl::Status Arm(const ArmRequest& request) override {
    plane_ = request.names->Plane("/host:CPU", 0);
    const int64_t line = request.names->Line(plane_, 1, "crowd");
    event_ = request.names->Event(plane_, "work");
    segment_ = std::make_unique<xspace::SegmentBuilder>(request.sink, plane_, line, 1);
    made_ = 0;
    return absl::OkStatus();
  }
  absl::Status Start(const StartRequest& request) override {
    start_ = request;
    start_ps_ = request.map.ToPs(request.start_ticks);
    return absl::OkStatus();
  }
  absl::Duration Drain() override {
    // Uses the machine's clock: the map's current time need not be exact to the tick.
    MakeUntil(start_.map.ToPs(start_.map.FromUnixNs(absl::GetCurrentTimeNanos())));
    return absl::Milliseconds(100);
  }
  absl::Status Stop(uint64_t end_ticks) override {
    if (segment_ == nullptr) return absl::OkStatus();
    MakeUntil(start_.map.ToPs(end_ticks));
    segment_->Flush();
    return absl::OkStatus();
  }
  CollectorReport Report() override {
    CollectorReport report;
    if (segment_ == nullptr) return report;
    report.attempted = made_;
    report.events = segment_->appended_events();
    if (segment_->refused_events() > 0) {
      report.lost_by_cause[LossCause::kStoreFull] = segment_->refused_events();
    }
    segment_.reset();
    return report;
  }

 private:
  void MakeUntil(int64_t now_ps) {
    const double elapsed = static_cast<double>(now_ps - start_ps_) / kPsPerSecond;
    const auto due = static_cast<int64_t>(elapsed * events_per_second_);
    const auto period_ps = static_cast<int64_t>(kPsPerSecond / events_per_second_);
    for (; made_ < due; ++made_) {
      xspace::SegmentEvent event;
      event.start_ps = start_ps_ + made_ * period_ps;
      event.duration_ps = period_ps / 2;
      event.metadata_id = event_;
      segment_->Add(event);
    }
  }

  const double events_per_second_;
  xspace::PlaneKey plane_ = 0;
  uint64_t event_ = 0;
  std::unique_ptr<xspace::SegmentBuilder> segment_;
  StartRequest start_;
  int64_t start_ps_ = 0;
  int64_t made_ = 0;
};

StepHistory StepsAt(absl::Time begun, double step_ms) {
  StepHistory history;
  if (step_ms <= 0) return history;
  const absl::Duration length = absl::Milliseconds(step_ms);
  const absl::Duration elapsed = absl::Now() - begun;
  const auto current = static_cast<int64_t>(elapsed / length);
  history.count = static_cast<uint64_t>(current) + 1;
  history.current = StepTiming{current, elapsed - static_cast<double>(current) * length, {}};
  for (int64_t step = std::max<int64_t>(0, current - 16); step < current; ++step) {
    history.recent.push_back({step, length, elapsed - static_cast<double>(step + 1) * length});
  }
  return history;
}

struct CrowdWorker {
  std::unique_ptr<RateCollector> collector;
  std::unique_ptr<GrpcServer> server;
};

absl::Status StartWorker(int number, double events_per_second, double step_ms,
                         CrowdWorker* worker) {
  worker->collector = std::make_unique<RateCollector>(events_per_second);
  SessionManager::Dependencies dependencies;
  dependencies.collectors = {worker->collector.get()};
  v1::Identity identity = ProcessIdentity().Read();
  identity.set_rank(number);
  identity.set_has_rank(true);
  dependencies.identity = [identity] { return identity; };
  GrpcServerOptions options;
  absl::StatusOr<ListenAddress> address = ParseListenAddress("127.0.0.1:0", std::nullopt);
  if (!address.ok()) return address.status();
  options.address = *std::move(address);
  options.identity = dependencies.identity;
  options.sessions = std::make_shared<SessionManager>(std::move(dependencies));
  options.set_recording = [](std::optional<int>) {};
  options.steps = [begun = absl::Now(), step_ms] { return StepsAt(begun, step_ms); };
  absl::StatusOr<std::unique_ptr<GrpcServer>> server = GrpcServer::Start(std::move(options));
  if (!server.ok()) return server.status();
  worker->server = *std::move(server);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  int count = 100;
  double events_per_second = 1000;
  double step_ms = 0;
  CLI::App app("Serves many small workers from one process.", "worker_crowd");
  app.add_option("--count", count, "workers, each on a port of its own")
      ->check(CLI::Range(1, 5000));
  app.add_option("--events_per_second", events_per_second, "of each worker, during a capture")
      ->check(CLI::Range(1.0, 1e6));
  app.add_option("--step_ms", step_ms, "length of a step as Describe reports it; 0: no steps")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);

  // As in a worker (server/process/worker_runtime.cc).
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  std::vector<CrowdWorker> workers(static_cast<size_t>(count));
  for (size_t i = 0; i < workers.size(); ++i) {
    const absl::Status status =
        StartWorker(static_cast<int>(i), events_per_second, step_ms, &workers[i]);
    if (!status.ok()) {
      std::fprintf(stderr, "worker_crowd: worker %zu: %s\n", i, status.ToString().c_str());
      return 1;
    }
    std::printf("%s\n", workers[i].server->address().c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  // Everything lives until the process exits: a thousand graceful shutdowns would take too long.
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace
}  // namespace jobscope::bench

int main(int argc, char** argv) {
  try {
    return jobscope::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "worker_crowd: %s\n", error.what());
    return 1;
  }
}
