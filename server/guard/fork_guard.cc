// SPDX-License-Identifier: Apache-2.0
#include "server/guard/fork_guard.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/process/fork_pause.h"

namespace jobscope {
namespace {

constexpr size_t kMaxListeners = 8;
// How many descriptors a child without /proc probes: more than any usual soft limit; takes at most
// 60 ms.
constexpr uint64_t kMaxProbedDescriptors = 65536;

struct Listener {
  int family = AF_UNSPEC;  // AF_INET, AF_INET6, AF_UNIX; AF_UNSPEC: the port on every local address
  uint16_t port_be = 0;    // network order
  bool any_host = false;
  std::array<unsigned char, 16> host = {};  // 4 or 16 bytes, network order
  std::array<char, sizeof(sockaddr_un::sun_path)> path = {};
};

// Plain memory, which the child reads as fork() found it: a listener is complete before it is
// guarded.
struct Entry {
  enum Use { kFree, kTaken, kGuarded };
  std::atomic<Use> use{kFree};
  Listener listener;

  bool guarded() const { return use.load(std::memory_order_acquire) == kGuarded; }
};
std::array<Entry, kMaxListeners> entries;
std::atomic<pid_t> guarded_pid{0};  // 0: not installed
std::atomic<bool> forked{false};

pid_t RawGetpid() { return static_cast<pid_t>(syscall(SYS_getpid)); }

bool MatchesInet(const Listener& listener, const sockaddr_in& local) {
  if (local.sin_port != listener.port_be) return false;
  if (listener.any_host) return true;
  return listener.family == AF_INET &&
         memcmp(&local.sin_addr, listener.host.data(), sizeof(local.sin_addr)) == 0;
}

bool MatchesInet6(const Listener& listener, const sockaddr_in6& local) {
  if (local.sin6_port != listener.port_be) return false;
  if (listener.any_host) return true;
  if (listener.family == AF_INET6) {
    return memcmp(&local.sin6_addr, listener.host.data(), sizeof(local.sin6_addr)) == 0;
  }
  // A dual-stack socket reports an IPv4 address in mapped form.
  return listener.family == AF_INET && IN6_IS_ADDR_V4MAPPED(&local.sin6_addr) &&
         memcmp(local.sin6_addr.s6_addr + 12, listener.host.data(), 4) == 0;
}

bool MatchesUnix(const Listener& listener, const sockaddr_un& local, size_t length) {
  if (listener.family != AF_UNIX || length <= offsetof(sockaddr_un, sun_path)) return false;
  const size_t path_length = strnlen(listener.path.data(), listener.path.size());
  return strnlen(local.sun_path, length - offsetof(sockaddr_un, sun_path)) == path_length &&
         memcmp(local.sun_path, listener.path.data(), path_length) == 0;
}

// Returns whether the descriptor is a socket with the local address of one of our listeners. An
// accepted connection has its listener's local address (port and path), so one check finds both.
// Remembered descriptor numbers would not do: gRPC closes and reuses them.
bool IsGuarded(int fd) {
  union {
    sockaddr any;
    sockaddr_in in;
    sockaddr_in6 in6;
    sockaddr_un un;
    sockaddr_storage storage;
  } local;
  memset(&local, 0, sizeof(local));
  socklen_t length = sizeof(local);
  if (syscall(SYS_getsockname, fd, &local, &length) != 0) return false;
  // The application may own a datagram socket on the same number.
  int type = 0;
  socklen_t type_length = sizeof(type);
  if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &type_length) != 0) return false;
  if (type != SOCK_STREAM) return false;
  for (const Entry& entry : entries) {
    if (!entry.guarded()) continue;
    const Listener& listener = entry.listener;
    const bool matches = local.any.sa_family == AF_INET
                             ? listener.family != AF_UNIX && MatchesInet(listener, local.in)
                         : local.any.sa_family == AF_INET6
                             ? listener.family != AF_UNIX && MatchesInet6(listener, local.in6)
                         : local.any.sa_family == AF_UNIX ? MatchesUnix(listener, local.un, length)
                                                          : false;
    if (matches) return true;
  }
  return false;
}

void CloseIfGuarded(int fd) {
  if (IsGuarded(fd)) syscall(SYS_close, fd);
}

struct DirectoryEntry {  // as getdents64 writes it
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[1];
};

int ParseDescriptor(const char* name) {
  int fd = 0;
  if (*name == '\0') return -1;
  for (; *name != '\0'; ++name) {
    if (*name < '0' || *name > '9') return -1;
    fd = fd * 10 + (*name - '0');
  }
  return fd;
}

// Closes what /proc/self/fd lists. The kernel lists it by number and continues from a number, so
// entries may be closed during the scan.
bool CloseByProc() {
  const int directory = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory < 0) return false;
  alignas(DirectoryEntry) char buffer[4096];
  long got = 0;
  while ((got = syscall(SYS_getdents64, directory, buffer, sizeof(buffer))) > 0) {
    for (long at = 0; at < got;) {
      DirectoryEntry entry;
      memcpy(&entry, buffer + at, offsetof(DirectoryEntry, name));
      const int fd = ParseDescriptor(buffer + at + offsetof(DirectoryEntry, name));
      if (fd >= 0 && fd != directory) CloseIfGuarded(fd);
      at += entry.length;
    }
  }
  syscall(SYS_close, directory);
  return got == 0;
}

void CloseByProbing() {
  rlimit limit = {};
  if (syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit) != 0) {
    limit.rlim_cur = kMaxProbedDescriptors;
  }
  const uint64_t end = std::min<uint64_t>(limit.rlim_cur, kMaxProbedDescriptors);
  for (uint64_t fd = 0; fd < end; ++fd) CloseIfGuarded(static_cast<int>(fd));
}

// Runs in the child before fork() returns there. Another thread of the parent may have held any
// lock at that instant, so: system calls only, made directly (close() and others may be
// interposed), no allocation, no stdio.
void OnForkInChild() {
  const int saved_errno = errno;
  forked.store(true, std::memory_order_relaxed);
  if (std::any_of(entries.begin(), entries.end(), [](const Entry& e) { return e.guarded(); })) {
    if (!CloseByProc()) CloseByProbing();
    for (Entry& entry : entries) entry.use.store(Entry::kFree, std::memory_order_relaxed);
  }
  errno = saved_errno;
}

bool ParseListener(std::string_view text, Listener* listener) {
  constexpr std::string_view kUnix = "unix:";
  if (text.substr(0, kUnix.size()) == kUnix) {
    const std::string_view path = text.substr(kUnix.size());
    if (path.empty() || path.size() >= listener->path.size()) return false;
    listener->family = AF_UNIX;
    std::copy(path.begin(), path.end(), listener->path.begin());
    return true;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view port_text = text.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] =
      std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc() || end != port_text.data() + port_text.size() || port == 0) return false;
  listener->port_be = htons(port);

  std::string host(text.substr(0, colon));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (inet_pton(AF_INET, host.c_str(), listener->host.data()) == 1) {
    listener->family = AF_INET;
  } else if (inet_pton(AF_INET6, host.c_str(), listener->host.data()) == 1) {
    listener->family = AF_INET6;
  }
  // A wildcard listener accepts on every address; no other listener can then hold the port on any
  // of them.
  listener->any_host = std::all_of(listener->host.begin(), listener->host.end(),
                                   [](unsigned char byte) { return byte == 0; });
  return true;
}

}  // namespace

void LeaveServerInChild() {
  if (InForkedChild()) OnForkInChild();
}

void InstallForkGuard() {
  pid_t not_installed = 0;
  if (!guarded_pid.compare_exchange_strong(not_installed, RawGetpid())) return;
  // Fails only if memory runs out; fork() then leaves the sockets open in children, but
  // InForkedChild() still works.
  InstallForkPause();
  pthread_atfork(nullptr, nullptr, &OnForkInChild);
}

ListenerGuard::ListenerGuard(std::string_view bound_address) {
  Listener listener;
  if (!ParseListener(bound_address, &listener)) return;
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry::Use use = Entry::kFree;
    if (!entries[i].use.compare_exchange_strong(use, Entry::kTaken)) continue;
    entries[i].listener = listener;
    entries[i].use.store(Entry::kGuarded, std::memory_order_release);
    index_ = static_cast<int>(i);
    return;
  }
}

ListenerGuard::~ListenerGuard() {
  if (held()) entries[static_cast<size_t>(index_)].use.store(Entry::kFree);
}

bool InForkedChild() {
  if (forked.load(std::memory_order_relaxed)) return true;
  const pid_t pid = guarded_pid.load(std::memory_order_relaxed);
  return pid != 0 && pid != RawGetpid();
}

}  // namespace jobscope
