// SPDX-License-Identifier: Apache-2.0
//
// Provides a TCP proxy on loopback that delays, throttles and cuts connections, and accepts again
// on its port.
#ifndef TESTS_END_TO_END_TCP_PROXY_H_
#define TESTS_END_TO_END_TCP_PROXY_H_

#include <netinet/in.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace jobscope {

// One thread. Bytes wait for their delay in memory; a direction reads no further than 4 MiB ahead
// of what its receiver takes.
class TcpProxy {
 public:
  using Clock = std::chrono::steady_clock;
  struct Delays {
    std::chrono::microseconds there{0};  // client to worker
    std::chrono::microseconds back{0};
  };

  // `target`: "127.0.0.1:PORT".
  explicit TcpProxy(const std::string& target) : TcpProxy(target, Delays{}) {}
  TcpProxy(const std::string& target, Delays delays);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Resets all connections, both directions, and refuses new ones until Restore.
  // Returns when it is done.
  void Cut();
  void Restore();
  // Passes nothing on while `stalled`; connections stay.
  void Stall(bool stalled) { stalled_ = stalled; }
  // From now on all connections together bring the client at most so many bytes per second, behind
  // a queue of at most half a second of them; 0: no limit.
  void LimitRate(uint64_t bytes_per_second) { rate_ = bytes_per_second; }

  uint64_t bytes_back() const { return bytes_back_; }  // passed on to the client so far
  uint64_t connections() const { return connections_; }

 private:
  size_t MaxWaitingBytes() const;
  // Returns how many bytes may go back to the client now.
  size_t Allowance();

  struct Chunk {
    Clock::time_point due;
    std::string bytes;
  };
  struct Direction {
    int from = -1;
    int to = -1;
    std::chrono::microseconds delay{0};
    std::deque<Chunk> waiting;
    size_t waiting_bytes = 0;
    bool ended = false;  // the sender has closed
  };
  struct Connection {
    Direction there, back;
  };

  void Listen(uint16_t port);
  void CloseAll();
  void Accept();
  // False: the connection is over.
  bool Take(Direction* direction);
  // `allowance`: of bytes; null: no limit.
  bool Give(Direction* direction, std::atomic<uint64_t>* counter, size_t* allowance);
  void Serve();

  const Delays delays_;
  sockaddr_in target_{};
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable cut_done_;
  bool cut_wanted_ = false;
  int listener_ = -1;
  std::list<Connection> open_;
  bool waits_ = false;
  std::atomic<uint64_t> rate_{0};
  double credit_ = 0;  // bytes, of the serving thread
  Clock::time_point rate_time_ = Clock::now();
  std::atomic<bool> ended_{false};
  std::atomic<bool> stalled_{false};
  std::atomic<uint64_t> bytes_back_{0};
  std::atomic<uint64_t> connections_{0};
  std::thread thread_;
};

}  // namespace jobscope

#endif  // TESTS_END_TO_END_TCP_PROXY_H_
