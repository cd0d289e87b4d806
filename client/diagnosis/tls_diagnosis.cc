// SPDX-License-Identifier: Apache-2.0
#include "client/diagnosis/tls_diagnosis.h"

#include <openssl/ssl.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/diagnosis/tls_handshake.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// The worker closed the connection after it saw our certificate, or that we have none.
std::string OfOurCertificate(const HandshakeFindings& findings,
                             const ClientCredentials& credentials) {
  if (!credentials.has_certificate()) {
    return "the worker requires a client certificate (mutual TLS): give --tls_cert and --tls_key";
  }
  std::string text = "the worker does not accept our certificate (--tls_cert)";
  if (!findings.presented_issuer.empty()) {
    absl::StrAppend(&text, ", signed by ", findings.presented_issuer);
  }
  if (findings.alert.has_value()) {
    absl::StrAppend(&text, ": ", SSL_alert_desc_string_long(*findings.alert));
  }
  if (!findings.accepted.empty()) {
    absl::StrAppend(&text, "; it accepts those of ", absl::StrJoin(findings.accepted, ", "));
  }
  return text;
}

std::string Meaning(const HandshakeFindings& findings, const ClientCredentials* credentials) {
  const bool tls = credentials != nullptr && credentials->tls();
  if (!tls) {
    return findings.spoke_tls ? "the worker speaks TLS, and this client does not: give --tls_ca "
                                "(JOBSCOPE_TLS_CA), the CA that signed its certificate"
                              : "";
  }
  if (findings.spoke && !findings.spoke_tls) {
    return "the worker does not speak TLS: start it with JOBSCOPE_TLS_CERT and JOBSCOPE_TLS_KEY, "
           "or call it with --tls_ca=none";
  }
  std::vector<std::string> causes = findings.complaints;
  if (!findings.went_on && findings.wants_certificate &&
      (findings.closed || findings.alert.has_value())) {
    causes.push_back(OfOurCertificate(findings, *credentials));
  } else if (findings.complete && !findings.spoke_http2) {
    causes.emplace_back("something speaks TLS at this address, but not gRPC");
  } else if (!findings.complete && findings.alert.has_value()) {
    causes.push_back(absl::StrCat("the worker refuses the TLS handshake: ",
                                  SSL_alert_desc_string_long(*findings.alert)));
  }
  return absl::StrJoin(causes, "; ");
}

}  // namespace

std::string DiagnoseConnection(const Endpoint& endpoint, const ClientCredentials* credentials,
                               absl::Duration timeout) {
  const std::optional<HandshakeFindings> findings =
      TryHandshake(endpoint, credentials, SteadyNow() + timeout);
  return findings.has_value() ? Meaning(*findings, credentials) : "";
}

}  // namespace jobscope
