// SPDX-License-Identifier: Apache-2.0
//
// Provides callers that do not speak gRPC.
#ifndef TESTS_SERVER_SOCKETS_H_
#define TESTS_SERVER_SOCKETS_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace jobscope {

// A connection to "127.0.0.1:PORT". Movable.
class RawConnection {
 public:
  explicit RawConnection(const std::string& address, const std::string& first_bytes = "")
      : RawConnection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), address, first_bytes) {}
  // Takes ownership of `fd`, a socket.
  RawConnection(int fd, const std::string& address, const std::string& first_bytes) : fd_(fd) {
    sockaddr_in target = {};
    target.sin_family = AF_INET;
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    target.sin_port =
        htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&target), sizeof(target)), 0)
        << strerror(errno);
    Send(first_bytes);
  }
  ~RawConnection() {
    if (fd_ >= 0) close(fd_);
  }
  RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawConnection& operator=(RawConnection&&) = delete;

  int fd() const { return fd_; }
  void Send(const std::string& bytes) const {
    if (!bytes.empty()) (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Returns whether the other side has closed it; what it says before that is dropped.
  bool closed() const {
    char buffer[4096];
    ssize_t got = 0;
    do {
      got = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
    } while (got > 0);
    return got == 0 || (errno != EAGAIN && errno != EINTR);
  }

 private:
  int fd_;
};

// How HTTP/2 begins, without the settings that must follow.
inline const char kHttp2Preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// A settings frame that sets nothing.
inline const std::string kHttp2Settings("\0\0\0\4\0\0\0\0\0", 9);
// A TLS record of a handshake that promises 512 bytes.
inline const std::string kTlsBeginning("\x16\x03\x01\x02\x00\x01", 6);

}  // namespace jobscope

#endif  // TESTS_SERVER_SOCKETS_H_
