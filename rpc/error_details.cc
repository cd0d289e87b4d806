// SPDX-License-Identifier: Apache-2.0
#include "rpc/error_details.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"
#include "common/text/utf8.h"
#include "jobscope/v1/error_details.pb.h"

namespace jobscope {
namespace {

constexpr char kErrorInfoType[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kDomain[] = "jobscope";

}  // namespace

std::string ErrorDetails(const absl::Status& status) {
  const absl::optional<absl::Cord> reason = status.GetPayload(kReasonPayload);
  if (!reason.has_value()) return {};
  v1::ErrorInfo info;
  info.set_reason(std::string(*reason));
  info.set_domain(kDomain);
  v1::RpcStatus details;
  details.set_code(static_cast<int32_t>(status.code()));
  // Bytes that are no UTF-8 would make the whole unreadable.
  const std::string message(status.message());
  details.set_message(CleanUtf8(message, message.size()));
  v1::RpcStatus::Detail* const detail = details.add_details();
  detail->set_type_url(kErrorInfoType);
  detail->set_value(info.SerializeAsString());
  return details.SerializeAsString();
}

bool HasReason(const grpc::Status& status, ErrorReason reason) {
  v1::RpcStatus details;
  if (!details.ParseFromString(status.error_details())) return false;
  for (const v1::RpcStatus::Detail& detail : details.details()) {
    v1::ErrorInfo info;
    if (detail.type_url() == kErrorInfoType && info.ParseFromString(detail.value()) &&
        info.domain() == kDomain && info.reason() == Name(reason)) {
      return true;
    }
  }
  return false;
}

}  // namespace jobscope
