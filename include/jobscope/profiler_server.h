// SPDX-License-Identifier: Apache-2.0
//
// Runs the profiler server of a worker.
//
//   jobscope::ProfilerServerOptions options;
//   options.address = "127.0.0.1:6009";
//   jobscope::ProfilerServer server = jobscope::ProfilerServer::Start(options);
//   if (!server) std::cerr << server.error() << "\n";   // the job goes on without
//
// A process has at most one server. Nothing here throws (except std::bad_alloc), aborts or exits.
// Link libjobscope.so, or the package's jobscope::server; only the C ABI of jobscope_c.h crosses
// that boundary.
#ifndef JOBSCOPE_PROFILER_SERVER_H_
#define JOBSCOPE_PROFILER_SERVER_H_

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "jobscope/jobscope_c.h"

namespace jobscope {

// Options with a default value come from the environment (JOBSCOPE_LISTEN, JOBSCOPE_INSECURE,
// JOBSCOPE_STORE_MB, JOBSCOPE_TLS_CERT, _KEY, _CA, _ALLOWED_NAMES, JOBSCOPE_TOKEN_FILE,
// JOBSCOPE_ALLOW_USERS, JOBSCOPE_MAX_DURATION_MS, _TRACE_MB, _CAPTURES_PER_MINUTE, _LEVELS,
// JOBSCOPE_ALLOW_CLOSE), else from the library.
struct ProfilerServerOptions {
  // host:port, [v6]:port or unix:/path, at most 1,024 bytes. With port 0 the kernel chooses a free
  // one; a suffix "+rank" adds the local rank to the port.
  std::string address;
  // Requires no credentials on an address that other hosts can reach, and on every address,
  // loopback and Unix sockets included, accepts all users of the host. Configured credentials are
  // still required. If false, JOBSCOPE_INSECURE decides.
  bool insecure = false;
  // Memory limit of one capture, in bytes, 1 MiB to 1,900 MiB. 0: JOBSCOPE_STORE_MB, else 256
  // MiB.
  uint64_t store_bytes = 0;
  // Records per thread, a power of two, 1,024 to 4,194,304 (32 bytes each). 0: 32,768.
  uint32_t ring_records = 0;
  // Memory limit of the rings of all threads, in bytes, at least one ring and 4,096 bytes. 0: 64
  // MiB.
  uint64_t rings_cap_bytes = 0;
  // Also records steps, input waits and coarse scopes between captures, for lookback and step
  // rates.
  bool always_on = true;
  // Paths of credential files, at most 4,096 bytes each (docs/security.md). The worker's
  // certificate chain and its key, PEM: both or none.
  std::string tls_cert;
  std::string tls_key;
  // Callers must present a certificate of a CA in this file.
  std::string tls_ca;
  // Callers must present the token in this file.
  std::string token_file;
  // Names, separated by commas, one of which the caller's certificate must contain; requires
  // tls_ca.
  std::string tls_allowed_names;
  // Users of this host that may call a loopback address or Unix socket without a token or
  // certificate, in addition to the process's user and root: user ids, "1001,1002", or "any".
  std::string allow_users;
  // Ceilings on what clients may request (docs/security.md).
  // Length of a capture, 1 to 3,600,000 ms; 0: 3,600,000.
  uint64_t max_duration_ms = 0;
  // Events of one trace, in bytes, 1 MiB to 1 PiB; 0: none.
  uint64_t max_trace_bytes = 0;
  // Captures per minute; 0: none.
  uint32_t max_captures_per_minute = 0;
  // Host, device and Python level; empty: "3/1/1", so Python level 2 is refused.
  std::string max_levels;
  // Callers may close the server (`capture stop --server`). Handles do not change; a further Start
  // opens a server again.
  bool allow_close = false;
};

// A handle to the process's server, or the reason why there is none. Handles share the server: a
// further Start with the same options returns another handle to it. The destructor of the last
// handle (of those made by one library or program) stops the server.
class ProfilerServer {
 public:
  // No server, and no error.
  ProfilerServer() = default;

  // Starts the server. Blocks for a few milliseconds; longer if a name server or a file system is
  // slow, or another thread starts or stops the server: as jobscope_server_start. On failure the
  // handle is false, with code() and error(). Thread-safe. A child that is forked meanwhile may
  // call it: it fails there with JOBSCOPE_E_FORKED.
  static ProfilerServer Start(const ProfilerServerOptions& options = {});

  ProfilerServer(ProfilerServer&&) = default;
  ProfilerServer& operator=(ProfilerServer&&) = default;

  // The last handle stops the server: ends and delivers a running capture. Blocks for at most
  // 2.8 s, as jobscope_server_stop. A handle need not be destroyed at the exit of the process, and
  // does nothing in a forked child.
  ~ProfilerServer() = default;

  explicit operator bool() const { return share_ != nullptr; }
  // The bound address, "127.0.0.1:40123"; empty without a server.
  const std::string& address() const { return address_; }
  // The failure and its remedy; empty with a server.
  const std::string& error() const { return error_; }
  // JOBSCOPE_OK or JOBSCOPE_E_*.
  int code() const { return code_; }

 private:
  // The state that the handles of one process share. A forked child makes its own: in the copy that
  // it inherits, the mutex may be locked by a thread that only the parent has. Never destroyed:
  // handles may be static objects, which are destroyed in no reliable order.
  struct Shared {
    explicit Shared(Shared* of_parent) : inherited(of_parent) {}
    const pid_t pid = getpid();
    Shared* const inherited;  // unused; keeps it reachable for leak checkers
    std::mutex mutex;         // held while the server starts or stops
    int handles = 0;
  };
  static Shared& TheShared() {
    // Initialised before the program runs: a first use would lock, and a child could inherit that.
    static std::atomic<Shared*> current{nullptr};
    Shared* shared = current.load();
    while (shared == nullptr || shared->pid != getpid()) {
      auto fresh = std::make_unique<Shared>(shared);
      if (current.compare_exchange_strong(shared, fresh.get())) shared = fresh.release();
    }
    return *shared;
  }
  // One handle's share in the server. Does nothing in a child that inherits it.
  struct Share {
    explicit Share(Shared* of_process) : shared(of_process) { ++shared->handles; }
    ~Share() {
      if (shared->pid != getpid()) return;
      std::lock_guard<std::mutex> lock(shared->mutex);
      if (--shared->handles == 0) jobscope_server_stop();
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    Shared* const shared;
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
  c.tls_allowed_names = options.tls_allowed_names.c_str();
  c.allow_users = options.allow_users.c_str();
  c.max_duration_ms = options.max_duration_ms;
  c.max_trace_bytes = options.max_trace_bytes;
  c.max_captures_per_minute = options.max_captures_per_minute;
  c.max_levels = options.max_levels.c_str();
  c.allow_close = options.allow_close ? 1 : 0;
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
  server.share_ = std::make_unique<Share>(&shared);
  return server;
}

}  // namespace jobscope

#endif  // JOBSCOPE_PROFILER_SERVER_H_
