// SPDX-License-Identifier: Apache-2.0
#include "client/diagnosis/certificate_complaint.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>

#include <cstddef>
#include <ctime>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

constexpr size_t kMaxHostNames = 8;

std::string CommonName(const X509_NAME* name) {
  char text[128] = "";
  const int size = X509_NAME_get_text_by_NID(name, NID_commonName, text, sizeof(text));
  if (size > 0) return text;
  X509_NAME_oneline(name, text, sizeof(text));
  return text;
}

// Returns the host names of a certificate.
std::vector<std::string> HostNames(const X509* certificate) {
  std::vector<std::string> names;
  auto* const list = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; list != nullptr && i < sk_GENERAL_NAME_num(list); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(list, i);
    if (names.size() == kMaxHostNames) {
      names.emplace_back("...");
      break;
    }
    if (name->type == GEN_DNS) {
      names.push_back(
          Printable({reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                     static_cast<size_t>(ASN1_STRING_length(name->d.dNSName))}));
    } else if (name->type == GEN_IPADD) {
      const int size = ASN1_STRING_length(name->d.iPAddress);
      char text[INET6_ADDRSTRLEN] = "?";
      if (size == 4 || size == 16) {
        inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), text,
                  sizeof(text));
      }
      names.emplace_back(text);
    }
  }
  GENERAL_NAMES_free(list);
  if (names.empty()) names.push_back(Printable(CommonName(X509_get_subject_name(certificate))));
  return names;
}

std::string Date(const ASN1_TIME* time) {
  std::tm parts = {};
  char text[64] = "?";
  if (ASN1_TIME_to_tm(time, &parts) == 1) {
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  }
  return text;
}

}  // namespace

std::string QuotedName(const X509_NAME* name) {
  return absl::StrCat("\"", Printable(CommonName(name)), "\"");
}

std::string CertificateComplaint(int error, const X509* certificate, int depth,
                                 const std::string& dialed_name, const std::string& authorities) {
  const std::string what =
      depth == 0
          ? "the worker's certificate"
          : absl::StrCat("the CA certificate ", QuotedName(X509_get_subject_name(certificate)));
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::StrCat(what, " has expired, at ", Date(X509_get0_notAfter(certificate)),
                          ": renew it");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat(
          what, " is not valid before ", Date(X509_get0_notBefore(certificate)),
          ", and this machine's clock says ",
          absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::Now(), absl::UTCTimeZone()));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return absl::StrCat("the worker's certificate is for ",
                          absl::StrJoin(HostNames(certificate), ", "), ", not for ",
                          Printable(dialed_name),
                          ": dial it by such a name, or give --tls_server_name");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return absl::StrCat(what, " is signed by ", QuotedName(X509_get_issuer_name(certificate)),
                          ", a CA that is not in ", authorities, ": give the workers' CA");
    case X509_V_ERR_INVALID_PURPOSE:
      return absl::StrCat(what,
                          " is not meant for a server: its extendedKeyUsage must hold "
                          "serverAuth");
    default:
      return absl::StrCat(what, " is invalid: ", X509_verify_cert_error_string(error));
  }
}

}  // namespace jobscope
