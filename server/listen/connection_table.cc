// SPDX-License-Identifier: Apache-2.0
#include "server/listen/connection_table.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/listen/acceptor_limits.h"

namespace jobscope {
namespace {

using Stage = Connection::Stage;

// Maximum number of closed connections that gRPC has not released, and the interval of retries.
// gRPC releases them within a millisecond, unless its threads wait for a processor: without the
// limit, 1,000 callers then took all descriptors of the process.
constexpr size_t kMaxClosing = 8;
constexpr int64_t kClosingRetryNs = 1'000'000;
constexpr size_t kUnknownQueue = 1'000;

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

// A silent connection will need its second descriptor. Closed ones have a bound of their own.
size_t DescriptorsOf(const Connection& connection) {
  if (connection.stage == Stage::kClosed) return 0;
  return connection.stage == Stage::kProven ? 1 : 2;
}

}  // namespace

void ConnectionTable::Reserve() { connections_.reserve(limits_.max_descriptors + kMaxClosing); }

Connection& ConnectionTable::Add(int fd, size_t listener, int64_t accepted_ns) {
  Connection& connection = connections_.emplace_back();
  connection.own_fd = fd;
  connection.listener = listener;
  connection.accepted_ns = accepted_ns;
  return connection;
}

bool ConnectionTable::HasRoom() const {
  size_t descriptors = 2;  // for the new one
  for (const Connection& connection : connections_) descriptors += DescriptorsOf(connection);
  return descriptors <= limits_.max_descriptors;
}

size_t ConnectionTable::CountClosing() const {
  return static_cast<size_t>(std::count_if(
      connections_.begin(), connections_.end(),
      [](const Connection& connection) { return connection.stage == Stage::kClosed; }));
}

// gRPC does not report when it closes a connection.
void ConnectionTable::ForgetEnded() {
  const auto ended = std::stable_partition(connections_.begin(), connections_.end(),
                                           [](const Connection& connection) {
                                             return connection.stage == Stage::kSilent ||
                                                    InodeOf(connection.grpc_fd) == connection.inode;
                                           });
  std::for_each(ended, connections_.end(), [this](Connection& connection) { Close(&connection); });
  connections_.erase(ended, connections_.end());
}

int64_t ConnectionTable::MakeRoom(int listener_fd, int64_t now_ns) {
  if (CountClosing() >= kMaxClosing) {
    ForgetEnded();
    if (CountClosing() >= kMaxClosing) return now_ns + kClosingRetryNs;
  }
  if (HasRoom()) {
    waiting_ = 0;
    return 0;
  }
  ForgetEnded();
  if (HasRoom()) return 0;
  const auto oldest = [this](Stage stage) {
    return std::find_if(
        connections_.begin(), connections_.end(),
        [stage](const Connection& connection) { return connection.stage == stage; });
  };
  auto victim = oldest(Stage::kSilent);
  if (victim == connections_.end()) victim = oldest(Stage::kGiven);
  if (victim == connections_.end()) return now_ns + kAcceptRetryNs;
  waiting_ = std::max({waiting_, QueueLength(listener_fd), size_t{1}});
  const auto places = static_cast<int64_t>(limits_.max_descriptors / 2);
  const int64_t min_age_ns = absl::ToInt64Nanoseconds(
      std::min(limits_.min_age, limits_.max_wait * places / static_cast<int64_t>(waiting_)));
  if (now_ns < victim->accepted_ns + min_age_ns) return victim->accepted_ns + min_age_ns;
  shutdown(victim->own_fd, SHUT_RDWR);  // also acts on gRPC's descriptor: it is the same socket
  End(victim);
  return HasRoom() ? 0 : now_ns;
}

bool ConnectionTable::Give(Connection* connection, bool admitted) {
  if (admitted && !connection->peer.empty()) {
    const absl::MutexLock lock(&mutex_);
    unproven_.insert(connection->peer);
  }
  connection->inode = InodeOf(connection->own_fd);
  if (connection->peer.empty() && admitted) {
    connection->grpc_fd = std::exchange(connection->own_fd, -1);
    connection->stage = Stage::kProven;
    return true;
  }
  connection->stage = Stage::kGiven;
  connection->grpc_fd = fcntl(connection->own_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return connection->grpc_fd >= 0;
}

void ConnectionTable::Close(Connection* connection) {
  if (connection->own_fd >= 0) close(std::exchange(connection->own_fd, -1));
  if (connection->stage != Stage::kGiven) return;
  const absl::MutexLock lock(&mutex_);
  unproven_.erase(connection->peer);
}

ConnectionTable::Iterator ConnectionTable::End(Iterator connection) {
  Close(&*connection);
  if (connection->stage != Stage::kGiven || connection->grpc_fd < 0 ||
      InodeOf(connection->grpc_fd) != connection->inode) {
    return connections_.erase(connection);
  }
  connection->stage = Stage::kClosed;
  return std::next(connection);
}

void ConnectionTable::CloseAll() {
  for (Connection& connection : connections_) Close(&connection);
}

bool ConnectionTable::NoteRequest(absl::string_view peer) {
  const absl::MutexLock lock(&mutex_);
  const auto found = unproven_.find(peer);
  if (found == unproven_.end()) return false;
  proven_.push_back(std::move(unproven_.extract(found).value()));
  return true;
}

bool ConnectionTable::TakeProven() {
  std::vector<std::string> proven;
  {
    const absl::MutexLock lock(&mutex_);
    proven.swap(proven_);
  }
  bool any = false;
  for (const std::string& peer : proven) {
    for (Connection& connection : connections_) {
      if (connection.stage != Stage::kGiven || connection.peer != peer) continue;
      connection.stage = Stage::kProven;
      any = true;
    }
  }
  return any;
}

}  // namespace jobscope
