// SPDX-License-Identifier: Apache-2.0
//
// Provides servers that answer every call with more data than a client can use.
#ifndef TESTS_END_TO_END_HOSTILE_WORKERS_H_
#define TESTS_END_TO_END_HOSTILE_WORKERS_H_

#include <arpa/inet.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace jobscope {

// Answers each call with one message of `bytes` (whole MiB), as it is.
class OversizedWorker {
 public:
  explicit OversizedWorker(size_t bytes) : service_(bytes) {
    int port = 0;
    server_ = grpc::ServerBuilder()
                  .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
                  .SetMaxSendMessageSize(-1)
                  .RegisterCallbackGenericService(&service_)
                  .BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~OversizedWorker() { server_->Shutdown(std::chrono::system_clock::now()); }
  const std::string& address() const { return address_; }

 private:
  class Answer : public grpc::ServerGenericBidiReactor {
   public:
    explicit Answer(const grpc::ByteBuffer& message) : message_(message) { StartRead(&request_); }
    void OnReadDone(bool) override {
      StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    grpc::ByteBuffer request_;
    const grpc::ByteBuffer message_;
  };
  class Service : public grpc::CallbackGenericService {
   public:
    explicit Service(size_t bytes) {
      // One block again and again: the peak of this process is where that of its children begins.
      static const char block[kBlockBytes] = {};
      const std::vector<grpc::Slice> slices(
          bytes / kBlockBytes, grpc::Slice(block, kBlockBytes, grpc::Slice::STATIC_SLICE));
      message_ = grpc::ByteBuffer(slices.data(), slices.size());
    }
    grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
      return new Answer(message_);
    }

   private:
    static constexpr size_t kBlockBytes = size_t{1} << 20;
    grpc::ByteBuffer message_;
  };

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// Answers each call with a message that is small on the wire and inflates to `bytes`, whether or
// not the caller takes compressed ones (gRPC's own server asks). At most 48 MiB: what is sent fits
// the window of a new connection. One connection at a time.
class CompressingWorker {
 public:
  explicit CompressingWorker(size_t bytes) : message_(Compressed(bytes)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0) std::abort();
    if (listen(listener_, 8) != 0) std::abort();
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { Serve(); });
  }
  ~CompressingWorker() {
    ended_ = true;
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  const std::string& address() const { return address_; }

 private:
  static constexpr size_t kBlockBytes = size_t{1} << 20;

  static std::string Compressed(size_t bytes) {
    const std::string zeros(kBlockBytes, '\0');
    std::string packed(bytes / 100 + 1024, '\0');
    z_stream stream = {};
    deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);  // +16: gzip
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    for (size_t done = 0; done < bytes; done += kBlockBytes) {
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
      stream.avail_in = static_cast<uInt>(kBlockBytes);
      if (deflate(&stream, Z_NO_FLUSH) != Z_OK) std::abort();
    }
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    const auto size = static_cast<uint32_t>(packed.size());
    std::string message(1, '\1');  // compressed
    for (const int shift : {24, 16, 8, 0}) message += static_cast<char>(size >> shift);
    return message + packed;
  }

  static std::string Frame(int type, int flags, uint32_t stream, const std::string& payload) {
    std::string frame;
    for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift);
    frame += static_cast<char>(type);
    frame += static_cast<char>(flags);
    for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
    return frame + payload;
  }
  // HPACK: a header that is not indexed.
  static std::string Header(const std::string& name, const std::string& value) {
    return std::string(1, '\0') + static_cast<char>(name.size()) + name +
           static_cast<char>(value.size()) + value;
  }

  void Serve() {
    while (!ended_) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      Talk(fd);
      close(fd);
    }
  }

  void Talk(int fd) const {
    const auto say = [fd](const std::string& bytes) {
      (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    };
    std::string received;
    bool greeted = false;
    char buffer[4096];
    while (!ended_) {
      pollfd polled = {fd, POLLIN, 0};
      if (poll(&polled, 1, 50) == 0) continue;
      const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
      if (got <= 0) return;
      received.append(buffer, static_cast<size_t>(got));
      constexpr size_t kPrefaceBytes = 24;
      if (!greeted && received.size() >= kPrefaceBytes) {
        received.erase(0, kPrefaceBytes);
        say(Frame(4, 0, 0, ""));  // SETTINGS
        greeted = true;
      }
      while (greeted && received.size() >= 9) {
        const auto byte = [&received](size_t at) { return static_cast<uint8_t>(received[at]); };
        const size_t size = size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2);
        if (received.size() < 9 + size) break;
        const int type = byte(3);
        const int flags = byte(4);
        const uint32_t stream = uint32_t{byte(7)} << 8 | byte(8);
        const std::string payload = received.substr(9, size);
        received.erase(0, 9 + size);
        if (type == 4 && flags == 0) say(Frame(4, 1, 0, ""));       // SETTINGS: acknowledged
        if (type == 6 && flags == 0) say(Frame(6, 1, 0, payload));  // PING: answered
        if (type != 0 || (flags & 1) == 0) continue;                // the end of a request
        say(Frame(1, 4, stream,
                  "\x88" + Header("content-type", "application/grpc") +  // :status 200
                      Header("grpc-encoding", "gzip")));
        for (size_t at = 0; at < message_.size(); at += 16384) {
          say(Frame(0, 0, stream, message_.substr(at, 16384)));
        }
        say(Frame(1, 5, stream, Header("grpc-status", "0")));
      }
    }
  }

  const std::string message_;
  std::string address_;
  int listener_ = -1;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace jobscope

#endif  // TESTS_END_TO_END_HOSTILE_WORKERS_H_
