// SPDX-License-Identifier: Apache-2.0
//
// Refuses the requests of accepted connections with a reason.
#ifndef SERVER_SECURITY_STRANGER_CREDENTIALS_H_
#define SERVER_SECURITY_STRANGER_CREDENTIALS_H_

#include <string>

#include "server/security/c_credentials.h"

namespace jobscope {

// Plain HTTP/2. Every request, of every service, whether the method exists or not, ends with
// PERMISSION_DENIED and `reason` once its headers have arrived.
class StrangerCredentials final : public CCredentials {
 public:
  explicit StrangerCredentials(std::string reason);
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_STRANGER_CREDENTIALS_H_
