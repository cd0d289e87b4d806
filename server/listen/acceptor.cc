// SPDX-License-Identifier: Apache-2.0
#include "server/listen/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <iterator>
#include <new>
#include <set>
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
#include "server/listen/held_descriptors.h"
#include "server/listen/peer_text.h"

namespace jobscope {
namespace {

// Interval at which the acceptor retries when nothing can be accepted.
constexpr int64_t kRetryNs = 250'000'000;
// Maximum number of closed connections that gRPC has not released, and the interval of retries.
// gRPC releases them within a millisecond, unless its threads wait for a processor: without the
// limit, 1,000 callers then took all descriptors of the process.
constexpr size_t kMaxClosing = 8;
constexpr int64_t kClosingRetryNs = 1'000'000;
constexpr size_t kUnknownQueue = 1'000;
constexpr int64_t kMinWarningIntervalNs = 60'000'000'000;
constexpr char kMoreMemory[] = "Raise its limit (ulimit -v, ulimit -d)";

int64_t NowNs() { return static_cast<int64_t>(MonotonicNow()); }

enum class Stage {
  kSilent,  // `own_fd` is the only descriptor
  kGiven,   // gRPC has `grpc_fd`; `own_fd` detects when that is closed, and can end it
  kProven,  // a request arrived, or cannot be attributed: only gRPC has it
  kClosed,  // ended, and gRPC had not noticed when it was last looked at
};

struct Connection {
  Stage stage = Stage::kSilent;
  size_t listener = 0;
  int own_fd = -1;
  int grpc_fd = -1;
  ino_t inode = 0;  // of the socket: tells whether `grpc_fd` is still its number
  int64_t accepted_ns = 0;
  std::string peer;

  // A silent connection will need its second descriptor. Closed ones have a bound of their own.
  size_t descriptors() const {
    if (stage == Stage::kClosed) return 0;
    return stage == Stage::kProven ? 1 : 2;
  }
};

// Number of connections that the kernel has established and the server has not accepted. If the
// kernel does not say (unix sockets), a number that counts as a long queue.
size_t QueueLength(int listener_fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(listener_fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return kUnknownQueue;
  return info.tcpi_unacked;  // for a listener: the length of its accept queue
}

ino_t InodeOf(int fd) {
  struct stat info = {};
  return fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

}  // namespace

// The acceptor's thread. Once it runs, it owns all descriptors.
class Acceptor::Loop {
 public:
  Loop(std::vector<ListenSocket> listeners, const AcceptorLimits& limits)
      : listeners_(std::move(listeners)), limits_(limits) {}
  ~Loop() {
    if (wake_fd_ >= 0 && !abandoned_) close(wake_fd_);
  }

  absl::Status Prepare(HandOver hand_over, Admit admit);
  void Run();
  void End();
  void NoteRequest(absl::string_view peer);

 private:
  void Poll();
  void RunOnce();  // after Poll
  void AwaitRetry();
  // Ends without closing anything: the numbers may be the program's.
  void Abandon();
  int TimeoutMs(int64_t now_ns) const;
  void TakeMessages();
  // Handles the events of a connection. Returns false if the connection has ended.
  bool Serve(Connection* connection, short events, int64_t now_ns);
  bool Give(Connection* connection);
  void AcceptFrom(size_t listener, int64_t now_ns);
  // Returns whether there is room for one more connection. Closes the oldest one that may be
  // closed, and pauses accepting while there is no room.
  bool MakeRoom(int listener_fd, int64_t now_ns);
  bool HasRoom() const;
  size_t CountClosing() const;
  void ForgetEnded();
  void Close(Connection* connection);
  // Closes it; it remains in the list for as long as gRPC has it.
  std::vector<Connection>::iterator End(std::vector<Connection>::iterator connection);
  void Pause(int64_t until_ns) { paused_until_ns_ = until_ns; }
  void PauseAndWarn(int64_t now_ns, absl::string_view why) {
    Pause(now_ns + kRetryNs);
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

  // Used by the thread only.
  std::vector<pollfd> polled_;
  std::vector<Connection> connections_;  // oldest first
  int64_t paused_until_ns_ = 0;          // 0: accepts
  size_t waiting_ = 0;                   // the longest queue since it was last empty
  int64_t warned_ns_ = 0;
  bool abandoned_ = false;

  absl::Mutex mutex_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // the descriptors, at its end
  // Peers of given ones. An insertion without memory leaves a set as it was, Abseil's not.
  std::set<std::string, std::less<>> unproven_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> proven_ ABSL_GUARDED_BY(mutex_);  // not seen by the thread yet
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
  connections_.reserve(limits_.max_descriptors + kMaxClosing);
  polled_.reserve(1 + listeners_.size() + limits_.max_descriptors);
  const absl::MutexLock lock(&mutex_);
  running_ = true;
  return absl::OkStatus();
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
  {
    const absl::MutexLock lock(&mutex_);
    const auto found = unproven_.find(peer);
    if (found == unproven_.end()) return;
    proven_.push_back(std::move(unproven_.extract(found).value()));
  }
  if (held_.AllOpen()) eventfd_write(wake_fd_, 1);
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
  const auto ending = [this] {
    const absl::MutexLock lock(&mutex_);
    return ending_;
  };
  while (!ending()) {
    try {
      Poll();
      if (!held_.AllOpen()) return Abandon();
      RunOnce();
    } catch (const std::bad_alloc&) {
      Pause(NowNs() + kRetryNs);
      Warn("the process has no memory left", kMoreMemory);
      AwaitRetry();  // a connection with data to read would end the next poll at once
    }
  }
  if (!held_.AllOpen()) return Abandon();
  {
    const absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  for (Connection& connection : connections_) Close(&connection);
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
      connection = End(connection);
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
  for (const Connection& connection : connections_) {
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

// Blocks until kRetryNs have passed, or TakeMessages has something to do.
void Acceptor::Loop::AwaitRetry() {
  if (poll(polled_.data(), 1, kRetryNs / 1'000'000) >= 0 || errno == EINTR) return;
  polled_[0].revents = 0;  // not even one descriptor can be polled
  const timespec retry = {0, kRetryNs};
  nanosleep(&retry, nullptr);
}

int Acceptor::Loop::TimeoutMs(int64_t now_ns) const {
  int64_t next_ns = paused_until_ns_ == 0 ? INT64_MAX : paused_until_ns_;
  for (const Connection& connection : connections_) {
    if (connection.stage != Stage::kSilent) continue;
    next_ns = std::min(next_ns, connection.accepted_ns + absl::ToInt64Nanoseconds(limits_.silence));
  }
  if (next_ns == INT64_MAX) return -1;
  return static_cast<int>(std::clamp<int64_t>((next_ns - now_ns) / 1'000'000 + 1, 0, INT_MAX));
}

void Acceptor::Loop::TakeMessages() {
  eventfd_t ignored = 0;
  if (polled_[0].revents != 0) eventfd_read(wake_fd_, &ignored);
  std::vector<std::string> proven;
  {
    const absl::MutexLock lock(&mutex_);
    proven.swap(proven_);
  }
  for (const std::string& peer : proven) {
    for (Connection& connection : connections_) {
      if (connection.stage != Stage::kGiven || connection.peer != peer) continue;
      connection.stage = Stage::kProven;
      paused_until_ns_ = 0;  // there may be room
    }
  }
}

bool Acceptor::Loop::Serve(Connection* connection, short events, int64_t now_ns) {
  switch (connection->stage) {
    case Stage::kSilent:
      if (events != 0) return Give(connection);
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

bool Acceptor::Loop::Give(Connection* connection) {
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
  {
    const absl::MutexLock lock(&mutex_);
    if (ending_) return false;  // gRPC may have shut down
    if (admitted && !connection->peer.empty()) unproven_.insert(connection->peer);
  }
  connection->inode = InodeOf(connection->own_fd);
  if (connection->peer.empty() && admitted) {  // its requests cannot be attributed
    connection->grpc_fd = std::exchange(connection->own_fd, -1);
    connection->stage = Stage::kProven;
  } else {
    connection->stage = Stage::kGiven;
    connection->grpc_fd = fcntl(connection->own_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (connection->grpc_fd < 0) return false;
  }
  hand_over_(connection->listener, listeners_[connection->listener].fd(), connection->grpc_fd,
             admitted);
  return true;
}

void Acceptor::Loop::AcceptFrom(size_t listener, int64_t now_ns) {
  const int listener_fd = listeners_[listener].fd();
  if (!MakeRoom(listener_fd, now_ns)) return;
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
  connections_.emplace_back();  // capacity is reserved
  Connection& connection = connections_.back();
  connection.own_fd = fd;
  connection.listener = listener;
  connection.accepted_ns = now_ns;
  connection.peer = PeerText(peer);
}

bool Acceptor::Loop::HasRoom() const {
  size_t descriptors = 2;  // for the new one
  for (const Connection& connection : connections_) descriptors += connection.descriptors();
  return descriptors <= limits_.max_descriptors;
}

size_t Acceptor::Loop::CountClosing() const {
  return static_cast<size_t>(std::count_if(
      connections_.begin(), connections_.end(),
      [](const Connection& connection) { return connection.stage == Stage::kClosed; }));
}

// gRPC does not report when it closes a connection.
void Acceptor::Loop::ForgetEnded() {
  const auto ended = std::stable_partition(connections_.begin(), connections_.end(),
                                           [](const Connection& connection) {
                                             return connection.stage == Stage::kSilent ||
                                                    InodeOf(connection.grpc_fd) == connection.inode;
                                           });
  std::for_each(ended, connections_.end(), [this](Connection& connection) { Close(&connection); });
  connections_.erase(ended, connections_.end());
}

bool Acceptor::Loop::MakeRoom(int listener_fd, int64_t now_ns) {
  if (CountClosing() >= kMaxClosing) {
    ForgetEnded();
    if (CountClosing() >= kMaxClosing) {
      Pause(now_ns + kClosingRetryNs);
      return false;
    }
  }
  if (HasRoom()) {
    waiting_ = 0;
    return true;
  }
  ForgetEnded();
  if (HasRoom()) return true;
  const auto oldest = [this](Stage stage) {
    return std::find_if(
        connections_.begin(), connections_.end(),
        [stage](const Connection& connection) { return connection.stage == stage; });
  };
  auto victim = oldest(Stage::kSilent);
  if (victim == connections_.end()) victim = oldest(Stage::kGiven);
  if (victim == connections_.end()) {
    Pause(now_ns + kRetryNs);
    return false;
  }
  waiting_ = std::max({waiting_, QueueLength(listener_fd), size_t{1}});
  const auto places = static_cast<int64_t>(limits_.max_descriptors / 2);
  const int64_t min_age_ns = absl::ToInt64Nanoseconds(
      std::min(limits_.min_age, limits_.max_wait * places / static_cast<int64_t>(waiting_)));
  if (now_ns < victim->accepted_ns + min_age_ns) {
    Pause(victim->accepted_ns + min_age_ns);
    return false;
  }
  shutdown(victim->own_fd, SHUT_RDWR);  // also acts on gRPC's descriptor: it is the same socket
  End(victim);
  return HasRoom();
}

void Acceptor::Loop::Close(Connection* connection) {
  if (connection->own_fd >= 0) close(std::exchange(connection->own_fd, -1));
  if (connection->stage != Stage::kGiven) return;
  const absl::MutexLock lock(&mutex_);
  unproven_.erase(connection->peer);
}

std::vector<Connection>::iterator Acceptor::Loop::End(
    std::vector<Connection>::iterator connection) {
  Close(&*connection);
  if (connection->stage != Stage::kGiven || connection->grpc_fd < 0 ||
      InodeOf(connection->grpc_fd) != connection->inode) {
    return connections_.erase(connection);
  }
  connection->stage = Stage::kClosed;
  return std::next(connection);
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
  return StartWorkerThread("jobscope-accept", [loop = loop_] { loop->Run(); });
}

void Acceptor::Stop() { loop_->End(); }

void Acceptor::NoteRequest(absl::string_view peer) { loop_->NoteRequest(peer); }

}  // namespace jobscope
