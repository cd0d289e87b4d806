// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_server/listeners.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/process/fork_pause.h"
#include "server/listen/port_holder.h"

namespace jobscope {
namespace {

constexpr absl::Duration kHolderTimeout = absl::Milliseconds(500);

absl::Status Taken(const BindTarget& target, const absl::Status& status) {
  return absl::AlreadyExistsError(absl::StrCat(
      status.message(), ", by ", DescribePortHolder(target, kHolderTimeout), ": choose another ",
      absl::StartsWith(target.text, "unix:") ? "path"
                                             : "port, or port 0 for any that is free, or "
                                               "\"host:port+rank\" for several workers on one "
                                               "host"));
}

// Opens the listener such that a child forked from here on closes it.
absl::StatusOr<ListenSocket> OpenUnforked(const BindTarget& target,
                                          const ListenSocketOptions& options,
                                          std::vector<ListenerGuard>* guards) {
  const ForkPause pause;
  absl::StatusOr<ListenSocket> socket = ListenSocket::Open(target, options);
  if (socket.ok()) guards->emplace_back(socket->target().text);
  return socket;
}

}  // namespace

absl::StatusOr<std::vector<ListenSocket>> OpenListeners(const std::vector<BindTarget>& targets,
                                                        bool first_only,
                                                        const ListenSocketOptions& options,
                                                        std::vector<ListenerGuard>* guards) {
  std::vector<ListenSocket> listeners;
  absl::Status first_error;
  for (const BindTarget& target : targets) {
    absl::StatusOr<ListenSocket> listener = OpenUnforked(target, options, guards);
    if (listener.ok()) {
      listeners.push_back(*std::move(listener));
      if (first_only) break;
    } else if (absl::IsAlreadyExists(listener.status())) {
      listeners.clear();
      guards->clear();
      return Taken(target, listener.status());
    } else {
      first_error.Update(listener.status());
    }
  }
  if (listeners.empty()) return first_error;
  return listeners;
}

}  // namespace jobscope
