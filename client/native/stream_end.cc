// SPDX-License-Identifier: Apache-2.0
#include "client/native/stream_end.h"

#include "rpc/arguments.h"

namespace jobscope {

bool IsRefusal(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::UNIMPLEMENTED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return IsTooLarge(status);
    default:
      return false;
  }
}

}  // namespace jobscope
