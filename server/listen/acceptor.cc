// SPDX-License-Identifier: Apache-2.0
#include "server/listen/acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <new>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/clock/monotonic.h"
#include "common/descriptors/standard_descriptors.h"
#include "common/log/log.h"
#include "common/process/headroom.h"
#include "common/threads/worker_thread.h"
#include "server/listen/acceptor_limits.h"
#include "server/listen/connection_table.h"
#include "server/listen/held_descriptors.h"
#include "server/listen/peer_text.h"

namespace jobscope {
namespace {

using Stage = Connection::Stage;

constexpr int64_t kMinWarningIntervalNs = 60'000'000'000;
constexpr char kMoreMemory[] = "Raise its limit (ulimit -v, ulimit -d)";

int64_t NowNs() { return static_cast<int64_t>(MonotonicNow()); }

}  // namespace

// The acceptor's thread. Once it runs, it owns all descriptors.
class Acceptor::Loop {
 public:
  Loop(std::vector<ListenSocket> listeners, const AcceptorLimits& limits)
      : listeners_(std::move(listeners)), limits_(limits), connections_(limits) {}
  ~Loop() {
    if (wake_fd_ >= 0 && !abandoned_) close(wake_fd_);
  }

  absl::Status Prepare(HandOver hand_over, Admit admit);
  void NoteStarted();
  void Run();
  void End();
  void NoteRequest(absl::string_view peer);

 private:
  void Poll();
  void RunOnce();  // after Poll
  void AwaitRetry();
  bool Ending();
  // Ends without closing anything: the numbers may be the program's.
  void Abandon();
  int TimeoutMs(int64_t now_ns) const;
  void TakeMessages();
  // Handles the events of a connection. Returns false if the connection has ended.
  bool Serve(Connection* connection, short events, int64_t now_ns);
  bool HandOverToGrpc(Connection* connection);
  void AcceptFrom(size_t listener, int64_t now_ns);
  void Pause(int64_t until_ns) { paused_until_ns_ = until_ns; }
  void PauseAndWarn(int64_t now_ns, absl::string_view why) {
    Pause(now_ns + kAcceptRetryNs);
    Warn(why, "Raise the limit on open files (ulimit -n) if that lasts");
  }
  // Logs at most one warning per minute. Does not throw.
  void Warn(absl::string_view why, absl::string_view remedy);

  std::vector<ListenSocket> listeners_;
  const AcceptorLimits limits_;
  HandOver hand_over_;
  Admit admit_;
  int wake_fd_ = -1;
  HeldDescriptors held_;  // the listeners and `wake_fd_`; constant after Prepare
  absl::Notification ended_;

  ConnectionTable connections_;

  // Used by the thread only.
  std::vector<pollfd> polled_;
  int64_t paused_until_ns_ = 0;  // 0: accepts
  int64_t warned_ns_ = 0;
  bool abandoned_ = false;

  absl::Mutex mutex_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;  // a thread will end it
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // the descriptors, at its end
};

absl::Status Acceptor::Loop::Prepare(HandOver hand_over, Admit admit) {
  hand_over_ = std::move(hand_over);
  admit_ = std::move(admit);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("Cannot open a descriptor for the profiler server: ", strerror(errno),
                     ". Raise the limit on open files (ulimit -n)."));
  }
  held_.Add(wake_fd_);
  for (const ListenSocket& listener : listeners_) held_.Add(listener.fd());
  connections_.Reserve();
  polled_.reserve(1 + listeners_.size() + limits_.max_descriptors);
  return absl::OkStatus();
}

void Acceptor::Loop::NoteStarted() {
  const absl::MutexLock lock(&mutex_);
  running_ = true;
}

void Acceptor::Loop::End() {
  {
    const absl::MutexLock lock(&mutex_);
    if (!running_) return;
    ending_ = true;
  }
  // In this order: the thread says that it closes them before it does.
  const bool can_wake = held_.AllOpen();
  {
    const absl::MutexLock lock(&mutex_);
    // A thread that waits for descriptors that the program has closed cannot be woken.
    if (!can_wake && !closing_) return;
  }
  if (can_wake) eventfd_write(wake_fd_, 1);
  ended_.WaitForNotificationWithTimeout(limits_.stop);
}

void Acceptor::Loop::NoteRequest(absl::string_view peer) {
  if (!connections_.NoteRequest(peer)) return;
  if (held_.AllOpen()) eventfd_write(wake_fd_, 1);
}

bool Acceptor::Loop::Ending() {
  const absl::MutexLock lock(&mutex_);
  return ending_;
}

void Acceptor::Loop::Abandon() {
  Log(LogLevel::kWarning,
      "the profiler server accepts no connection any more: the program has closed its descriptors "
      "(closefrom, close_range). Close only those that the program has opened, or start the server "
      "after that");
  abandoned_ = true;
  for (ListenSocket& listener : listeners_) listener.Abandon();
  ended_.Notify();
}

void Acceptor::Loop::Run() {
  while (!Ending()) {
    try {
      Poll();
      if (!held_.AllOpen()) return Abandon();
      RunOnce();
    } catch (const std::bad_alloc&) {
      Pause(NowNs() + kAcceptRetryNs);
      Warn("the process has no memory left", kMoreMemory);
      AwaitRetry();  // a connection with data to read would end the next poll at once
    }
  }
  if (!held_.AllOpen()) return Abandon();
  {
    const absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  connections_.CloseAll();
  listeners_.clear();
  ended_.Notify();
}

void Acceptor::Loop::RunOnce() {
  TakeMessages();
  const int64_t now_ns = NowNs();
  if (now_ns >= paused_until_ns_) paused_until_ns_ = 0;
  const pollfd* polled = polled_.data() + 1 + listeners_.size();
  for (auto connection = connections_.begin(); connection != connections_.end();) {
    const short events = connection->own_fd >= 0 ? (polled++)->revents : short{0};
    if (Serve(&*connection, events, now_ns)) {
      ++connection;
    } else {
      connection = connections_.End(connection);
      paused_until_ns_ = 0;  // there may be room
    }
  }
  for (size_t i = 0; i < listeners_.size(); ++i) {
    // One connection at a time: accepted ones can send meanwhile.
    if (polled_[1 + i].revents != 0) AcceptFrom(i, now_ns);
  }
}

void Acceptor::Loop::Poll() {
  polled_.clear();
  polled_.push_back({wake_fd_, POLLIN, 0});
  for (const ListenSocket& listener : listeners_) {
    polled_.push_back({paused_until_ns_ != 0 ? -1 : listener.fd(), POLLIN, 0});
  }
  for (const Connection& connection : connections_.all()) {
    if (connection.own_fd < 0) continue;
    const bool silent = connection.stage == Stage::kSilent;
    polled_.push_back({connection.own_fd, silent ? short{POLLIN} : short{0}, 0});
  }
  if (poll(polled_.data(), polled_.size(), TimeoutMs(NowNs())) >= 0) return;
  const int error = errno;
  for (pollfd& polled : polled_) polled.revents = 0;
  // EINVAL: the job has lowered its limit on open files below the number of polled descriptors.
  if (error != EINTR) AwaitRetry();
}

// Blocks until kAcceptRetryNs have passed, or TakeMessages has something to do.
void Acceptor::Loop::AwaitRetry() {
  if (poll(polled_.data(), 1, kAcceptRetryNs / 1'000'000) >= 0 || errno == EINTR) return;
  polled_[0].revents = 0;  // not even one descriptor can be polled
  const timespec retry = {0, kAcceptRetryNs};
  nanosleep(&retry, nullptr);
}

int Acceptor::Loop::TimeoutMs(int64_t now_ns) const {
  int64_t next_ns = paused_until_ns_ == 0 ? INT64_MAX : paused_until_ns_;
  for (const Connection& connection : connections_.all()) {
    if (connection.stage != Stage::kSilent) continue;
    next_ns = std::min(next_ns, connection.accepted_ns + absl::ToInt64Nanoseconds(limits_.silence));
  }
  if (next_ns == INT64_MAX) return -1;
  return static_cast<int>(std::clamp<int64_t>((next_ns - now_ns) / 1'000'000 + 1, 0, INT_MAX));
}

void Acceptor::Loop::TakeMessages() {
  eventfd_t ignored = 0;
  if (polled_[0].revents != 0) eventfd_read(wake_fd_, &ignored);
  if (connections_.TakeProven()) paused_until_ns_ = 0;  // there may be room
}

bool Acceptor::Loop::Serve(Connection* connection, short events, int64_t now_ns) {
  switch (connection->stage) {
    case Stage::kSilent:
      if (events != 0) return HandOverToGrpc(connection);
      return now_ns < connection->accepted_ns + absl::ToInt64Nanoseconds(limits_.silence);
    case Stage::kGiven:
      return events == 0;  // otherwise gRPC, or the peer, has closed it
    case Stage::kProven:
      if (connection->own_fd >= 0) close(std::exchange(connection->own_fd, -1));
      return true;
    case Stage::kClosed:
      return true;
  }
  return true;
}

bool Acceptor::Loop::HandOverToGrpc(Connection* connection) {
  char byte = 0;
  const ssize_t peeked = recv(connection->own_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (peeked < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (peeked <= 0) return false;  // closed without sending anything
  if (!HasMemory(limits_.free_bytes)) {
    Warn("the process has almost no memory left", kMoreMemory);
    return false;
  }
  const bool admitted =
      !admit_ || admit_(connection->listener, connection->own_fd, connection->peer);
  if (Ending()) return false;  // gRPC may have shut down
  if (!connections_.Give(connection, admitted)) return false;
  hand_over_(connection->listener, listeners_[connection->listener].fd(), connection->grpc_fd,
             admitted);
  return true;
}

void Acceptor::Loop::AcceptFrom(size_t listener, int64_t now_ns) {
  const int listener_fd = listeners_[listener].fd();
  const int64_t retry_ns = connections_.MakeRoom(listener_fd, now_ns);
  if (retry_ns != 0) return Pause(retry_ns);
  // Plus two for the connection itself, and one that AboveStandard gives back.
  const size_t wanted = limits_.free_descriptors + 3;
  if (FreeDescriptors(wanted) < wanted) {
    return PauseAndWarn(now_ns, "the process has almost no file descriptors left");
  }
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  const int fd = AboveStandard(accept4(listener_fd, reinterpret_cast<sockaddr*>(&peer), &size,
                                       SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd < 0) {
    // The peer has disconnected, or an error that the network reported for it.
    constexpr std::array<int, 10> kPassing = {EAGAIN,      EINTR,      ECONNABORTED, EPROTO,
                                              ENETDOWN,    EPERM,      EHOSTDOWN,    EHOSTUNREACH,
                                              ENETUNREACH, ENOPROTOOPT};
    if (std::find(kPassing.begin(), kPassing.end(), errno) != kPassing.end()) return;
    return PauseAndWarn(now_ns, strerror(errno));
  }
  Connection& connection = connections_.Add(fd, listener, now_ns);
  connection.peer = PeerText(peer);
}

void Acceptor::Loop::Warn(absl::string_view why, absl::string_view remedy) {
  const int64_t now_ns = NowNs();
  if (warned_ns_ != 0 && now_ns < warned_ns_ + kMinWarningIntervalNs) return;
  try {
    Log(LogLevel::kWarning,
        absl::StrCat("the profiler server accepts no connection for now: ", why, ". ", remedy));
    warned_ns_ = now_ns;
  } catch (const std::bad_alloc&) {
    // A later call warns.
  }
}

Acceptor::Acceptor(std::vector<ListenSocket> listeners, const AcceptorLimits& limits)
    : loop_(std::make_shared<Loop>(std::move(listeners), limits)) {}

Acceptor::~Acceptor() { Stop(); }

absl::Status Acceptor::Start(HandOver hand_over, Admit admit) {
  absl::Status status = loop_->Prepare(std::move(hand_over), std::move(admit));
  if (!status.ok()) return status;
  status = StartWorkerThread("jobscope-accept", [loop = loop_] { loop->Run(); });
  if (status.ok()) loop_->NoteStarted();
  return status;
}

void Acceptor::Stop() { loop_->End(); }

void Acceptor::NoteRequest(absl::string_view peer) { loop_->NoteRequest(peer); }

}  // namespace jobscope
