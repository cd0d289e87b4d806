// SPDX-License-Identifier: Apache-2.0
//
// The profiler server of a worker: it costs nothing until somebody asks for a capture.
//
//   jobscope::ProfilerServerOptions options;
//   options.address = "127.0.0.1:6009";
//   jobscope::ProfilerServer server = jobscope::ProfilerServer::Start(options);
//   if (!server) std::cerr << server.error() << "\n";   // the job goes on without
//
// One server per process. Nothing here throws (but std::bad_alloc), aborts or exits. Link
// libjobscope.so, or the package's jobscope::server; only the C ABI of jobscope_c.h crosses that
// edge.
#ifndef JOBSCOPE_PROFILER_SERVER_H_
#define JOBSCOPE_PROFILER_SERVER_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "jobscope/jobscope_c.h"

namespace jobscope {

// What is left at its default comes from the environment (JOBSCOPE_LISTEN, JOBSCOPE_INSECURE,
// JOBSCOPE_STORE_MB, JOBSCOPE_TLS_CERT, _KEY, _CA, JOBSCOPE_TOKEN_FILE), else it is the library's
// default.
struct ProfilerServerOptions {
  // host:port, [v6]:port or unix:/path. Port 0 picks one that is free; a suffix "+rank" adds the
  // local rank to the port. At most 1,024 bytes.
  std::string address;
  // Serve an address that other hosts can reach to all of them. Otherwise that needs credentials.
  bool insecure = false;
  // Memory that one capture may take, in bytes, 1 MiB to 1,900 MiB. 0: 256 MiB.
  uint64_t store_bytes = 0;
  // Records per thread, a power of two, 1,024 to 4,194,304 (32 bytes each). 0: 32,768.
  uint32_t ring_records = 0;
  // Memory for the rings of all threads, in bytes. 0: 64 MiB.
  uint64_t rings_cap_bytes = 0;
  // Record steps, input waits and coarse scopes between captures too: for lookback and for step
  // rates.
  bool always_on = true;
  // Credentials, as paths of files (docs/security.md). The worker's certificate chain and its key,
  // PEM: both or none.
  std::string tls_cert;
  std::string tls_key;
  // Callers must present a certificate of a CA in this file.
  std::string tls_ca;
  // Callers must present the token in this file.
  std::string token_file;
};

// A handle to the process's server, or the reason why there is none. Handles share the server: a
// second Start with the same options returns another handle to it, and it ends with the last one
// (of those made by one library or program).
class ProfilerServer {
 public:
  // No server, and no reason either.
  ProfilerServer() = default;

  // Takes a few milliseconds.
  static ProfilerServer Start(const ProfilerServerOptions& options = {});

  ProfilerServer(ProfilerServer&&) = default;
  ProfilerServer& operator=(ProfilerServer&&) = default;

  // The last handle ends the server: a running capture is ended and delivered, for at most 2 s. At
  // the exit of the process there is no need for it: a handle that is never destroyed is fine.
  ~ProfilerServer() = default;

  explicit operator bool() const { return share_ != nullptr; }
  // The address really bound, "127.0.0.1:40123"; empty without a server.
  const std::string& address() const { return address_; }
  // What is wrong, and what to do about it; empty with a server.
  const std::string& error() const { return error_; }
  // JOBSCOPE_OK or JOBSCOPE_E_*.
  int code() const { return code_; }

 private:
  // Never destroyed: handles may be static objects, and those are destroyed in no order worth
  // relying on.
  struct Shared {
    std::mutex mutex;  // held while the server starts or ends
    int handles = 0;
  };
  static Shared& TheShared() {
    static auto* const shared = new Shared;
    return *shared;
  }
  // One handle's share in the server.
  struct Share {
    Share() = default;
    ~Share() {
      std::lock_guard<std::mutex> lock(TheShared().mutex);
      if (--TheShared().handles == 0) jobscope_server_stop();
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
  };

  std::unique_ptr<Share> share_;
  std::string address_;
  std::string error_;
  int code_ = JOBSCOPE_OK;
};

inline ProfilerServer ProfilerServer::Start(const ProfilerServerOptions& options) {
  jobscope_server_options c;
  std::memset(&c, 0, sizeof(c));
  c.size = sizeof(c);
  c.address = options.address.c_str();
  c.insecure = options.insecure ? 1 : 0;
  c.store_bytes = options.store_bytes;
  c.ring_records = options.ring_records;
  c.rings_cap_bytes = options.rings_cap_bytes;
  c.no_always_on = options.always_on ? 0 : 1;
  c.tls_cert = options.tls_cert.c_str();
  c.tls_key = options.tls_key.c_str();
  c.tls_ca = options.tls_ca.c_str();
  c.token_file = options.token_file.c_str();
  char address[1100] = "";
  char error[2048] = "";
  ProfilerServer server;
  Shared& shared = TheShared();
  std::lock_guard<std::mutex> lock(shared.mutex);
  server.code_ = jobscope_server_start(&c, address, sizeof(address), error, sizeof(error));
  if (server.code_ != JOBSCOPE_OK) {
    server.error_ = error;
    return server;
  }
  server.address_ = address;
  server.share_ = std::make_unique<Share>();
  ++shared.handles;
  return server;
}

}  // namespace jobscope

#endif  // JOBSCOPE_PROFILER_SERVER_H_
