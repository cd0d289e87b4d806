// SPDX-License-Identifier: Apache-2.0
#include "server/security/stranger_credentials.h"

#include <grpc/grpc.h>

#include <utility>

namespace jobscope {
namespace {

void Refuse(void* reason, grpc_auth_context* /*context*/, const grpc_metadata* /*headers*/,
            size_t /*count*/, grpc_process_auth_metadata_done_cb done, void* user_data) {
  done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_PERMISSION_DENIED,
       static_cast<const std::string*>(reason)->c_str());
}

void Destroy(void* reason) { delete static_cast<std::string*>(reason); }

}  // namespace

StrangerCredentials::StrangerCredentials(std::string reason)
    : CCredentials(grpc_insecure_server_credentials_create()) {
  grpc_server_credentials_set_auth_metadata_processor(
      c_creds(), {&Refuse, &Destroy, new std::string(std::move(reason))});
}

}  // namespace jobscope
