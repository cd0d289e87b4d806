// SPDX-License-Identifier: Apache-2.0
#include "tests/end_to_end/tcp_proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace jobscope {
namespace {

constexpr size_t kMaxWaitingBytes = 4 << 20;

void Reset(int fd) {
  const linger now{1, 0};  // RST, as when the machine in between is gone
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(fd);
}

}  // namespace

TcpProxy::TcpProxy(const std::string& target, Delays delays) : delays_(delays) {
  target_.sin_family = AF_INET;
  target_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  target_.sin_port = htons(static_cast<uint16_t>(std::stoi(target.substr(target.rfind(':') + 1))));
  Listen(0);
  thread_ = std::thread([this] { Serve(); });
}

TcpProxy::~TcpProxy() {
  ended_ = true;
  thread_.join();
  CloseAll();
}

void TcpProxy::Cut() {
  std::unique_lock<std::mutex> lock(mutex_);
  cut_wanted_ = true;
  // By the serving thread: a port that it polls stays taken until the poll returns.
  cut_done_.wait(lock, [this] { return !cut_wanted_; });
}

void TcpProxy::Restore() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (listener_ < 0) Listen(port_);
}

size_t TcpProxy::MaxWaitingBytes() const {
  const uint64_t rate = rate_;
  return rate == 0 ? kMaxWaitingBytes : std::max<size_t>(rate / 2, 4096);
}

size_t TcpProxy::Allowance() {
  const uint64_t rate = rate_;
  if (rate == 0) return SIZE_MAX;
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> passed = now - rate_time_;
  rate_time_ = now;
  // A pause saves up no more than a tenth of a second.
  credit_ = std::min(credit_ + passed.count() * static_cast<double>(rate),
                     static_cast<double>(rate) / 10);
  return static_cast<size_t>(std::max(credit_, 0.0));
}

void TcpProxy::Listen(uint16_t port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 64) != 0) {
    std::perror("TcpProxy cannot listen");
    std::abort();
  }
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
}

void TcpProxy::CloseAll() {
  if (listener_ >= 0) close(listener_);
  listener_ = -1;
  for (const Connection& connection : open_) {
    Reset(connection.there.from);
    Reset(connection.there.to);
  }
  open_.clear();
}

void TcpProxy::Accept() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  const int worker = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(worker, reinterpret_cast<const sockaddr*>(&target_), sizeof target_) != 0) {
    Reset(client);
    close(worker);
    return;
  }
  const int on = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(worker, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ++connections_;
  Connection connection;
  connection.there.from = connection.back.to = client;
  connection.there.to = connection.back.from = worker;
  connection.there.delay = delays_.there;
  connection.back.delay = delays_.back;
  open_.push_back(std::move(connection));
}

bool TcpProxy::Take(Direction* direction) {
  char buffer[65536];
  while (!direction->ended && direction->waiting_bytes < MaxWaitingBytes()) {
    const ssize_t size = recv(direction->from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (size > 0) {
      direction->waiting.push_back(
          {Clock::now() + direction->delay, std::string(buffer, static_cast<size_t>(size))});
      direction->waiting_bytes += static_cast<size_t>(size);
      continue;
    }
    if (size == 0) direction->ended = true;
    return size == 0 || errno == EAGAIN || errno == EINTR;
  }
  return true;
}

bool TcpProxy::Give(Direction* direction, std::atomic<uint64_t>* counter, size_t* allowance) {
  while (!direction->waiting.empty() && direction->waiting.front().due <= Clock::now()) {
    std::string& bytes = direction->waiting.front().bytes;
    const size_t most = allowance == nullptr ? bytes.size() : std::min(bytes.size(), *allowance);
    if (most == 0) return true;
    const ssize_t size = send(direction->to, bytes.data(), most, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (allowance != nullptr && *allowance != SIZE_MAX) {
      *allowance -= static_cast<size_t>(size);
      credit_ -= static_cast<double>(size);
    }
    direction->waiting_bytes -= static_cast<size_t>(size);
    if (counter != nullptr) *counter += static_cast<uint64_t>(size);
    bytes.erase(0, static_cast<size_t>(size));
    if (bytes.empty()) direction->waiting.pop_front();
  }
  return !(direction->ended && direction->waiting.empty());
}

void TcpProxy::Serve() {
  while (!ended_) {
    // While it is stalled, it polls nothing: bytes that it leaves unread would end each poll at
    // once.
    std::vector<pollfd> polled;
    if (!stalled_) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (listener_ >= 0) {
        polled.push_back({listener_, POLLIN, 0});
      }
      for (const Connection& connection : open_) {
        for (const Direction* direction : {&connection.there, &connection.back}) {
          if (!direction->ended && direction->waiting_bytes < MaxWaitingBytes()) {
            polled.push_back({direction->from, POLLIN, 0});
          }
        }
      }
    }
    // Delays are kept to a quarter of a millisecond while bytes wait.
    const timespec pause{0, waits_ ? 250'000 : 5'000'000};
    ppoll(polled.data(), polled.size(), &pause, nullptr);
    std::lock_guard<std::mutex> lock(mutex_);
    waits_ = false;
    if (cut_wanted_) {
      CloseAll();
      cut_wanted_ = false;
      cut_done_.notify_all();
      continue;
    }
    if (stalled_) continue;
    if (listener_ >= 0) Accept();
    // Each connection gets its share, as on a link with fair queues.
    const size_t allowed = Allowance();
    const size_t share =
        allowed == SIZE_MAX ? SIZE_MAX : allowed / std::max<size_t>(open_.size(), 1);
    for (auto it = open_.begin(); it != open_.end();) {
      size_t allowance = share;
      const bool lives = Take(&it->there) && Take(&it->back) &&
                         Give(&it->there, nullptr, nullptr) &&
                         Give(&it->back, &bytes_back_, &allowance);
      waits_ = waits_ || !it->there.waiting.empty() || !it->back.waiting.empty();
      if (lives) {
        ++it;
        continue;
      }
      close(it->there.from);
      close(it->there.to);
      it = open_.erase(it);
    }
  }
}

}  // namespace jobscope
