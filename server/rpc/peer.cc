// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/peer.h"

#include <grpc/grpc_security_constants.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/clock/monotonic.h"
#include "common/text/foreign_text.h"
#include "server/limits.h"

namespace jobscope {
namespace {

constexpr size_t kMaxCertificateNameBytes = 100;

absl::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

// Returns the caller's first certificate name; empty if it has shown no certificate.
std::string CertificateName(const grpc::AuthContext& context) {
  for (const char* property : {GRPC_X509_CN_PROPERTY_NAME, GRPC_X509_SAN_PROPERTY_NAME}) {
    for (const grpc::string_ref& value : context.FindPropertyValues(property)) {
      if (!value.empty()) return Printable(View(value), kMaxCertificateNameBytes);
    }
  }
  return {};
}

}  // namespace

std::string ReadablePeer(absl::string_view grpc_peer) {
  for (absl::string_view scheme : {"ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&grpc_peer, scheme)) break;
  }
  return Printable(absl::StrReplaceAll(grpc_peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}}),
                   limits::kMaxHostNameBytes);
}

std::string PeerOf(const grpc::ServerContextBase& context) {
  std::string peer = ReadablePeer(context.peer());
  const auto authenticated = context.auth_context();
  const std::string name =
      authenticated == nullptr ? std::string() : CertificateName(*authenticated);
  if (!name.empty()) absl::StrAppend(&peer, " (", name, ")");
  return peer;
}

absl::Time DeadlineOf(const grpc::ServerContextBase& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return SteadyNow() + (absl::FromChrono(deadline) - absl::Now());
}

}  // namespace jobscope
