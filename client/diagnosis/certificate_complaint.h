// SPDX-License-Identifier: Apache-2.0
//
// Says what is wrong with a worker's certificate, and what to do about it.
#ifndef CLIENT_DIAGNOSIS_CERTIFICATE_COMPLAINT_H_
#define CLIENT_DIAGNOSIS_CERTIFICATE_COMPLAINT_H_

#include <openssl/x509.h>

#include <string>

namespace jobscope {

// Returns the common name, or all of the name if it has none, printable and quoted.
std::string QuotedName(const X509_NAME* name);

// Returns one line for an error of OpenSSL's verification (X509_V_ERR_*). `depth`: 0 for the
// worker's own certificate, else one of its CAs. `dialed_name`: the name that it must have.
// `authorities`: where the CAs come from that this side accepts.
std::string CertificateComplaint(int error, const X509* certificate, int depth,
                                 const std::string& dialed_name, const std::string& authorities);

}  // namespace jobscope

#endif  // CLIENT_DIAGNOSIS_CERTIFICATE_COMPLAINT_H_
