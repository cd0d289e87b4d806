// SPDX-License-Identifier: Apache-2.0
//
// Credentials of the client, from flags and files of tests/certificates.h.
#ifndef TESTS_CLIENT_CREDENTIAL_FLAGS_H_
#define TESTS_CLIENT_CREDENTIAL_FLAGS_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/rpc/credentials.h"
#include "tests/certificates.h"

namespace jobscope {

// Returns the path of one of the test's certificates.
inline std::string Cert(const std::string& name) { return Certificates::Get().Path(name); }

using Environment = std::map<std::string, std::string>;

inline absl::StatusOr<std::shared_ptr<const ClientCredentials>> Load(
    const CredentialFlags& flags, const Environment& environment = {}) {
  return ClientCredentials::Load(flags, [&environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

// Returns flags for TLS: with a certificate of one's own, unless `own` is empty.
inline CredentialFlags Tls(const std::string& own = "", const std::string& authorities = "ca") {
  CredentialFlags flags;
  flags.tls_ca = Cert(authorities + ".crt");
  if (!own.empty()) {
    flags.tls_cert = Cert(own + ".crt");
    flags.tls_key = Cert(own + ".key");
  }
  return flags;
}

}  // namespace jobscope

#endif  // TESTS_CLIENT_CREDENTIAL_FLAGS_H_
