// SPDX-License-Identifier: Apache-2.0
#include "rpc/server_ended.h"

#include "absl/strings/cord.h"
#include "absl/types/optional.h"
#include "jobscope/v1/error_details.pb.h"

namespace jobscope {
namespace {

constexpr char kTypeUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kDomain[] = "jobscope";
constexpr char kReason[] = "SERVER_ENDED";

bool HasReason(const std::string& details) {
  v1::RpcStatus status;
  if (!status.ParseFromString(details)) return false;
  for (const v1::RpcStatus::Detail& detail : status.details()) {
    v1::ErrorInfo info;
    if (detail.type_url() == kTypeUrl && info.ParseFromString(detail.value()) &&
        info.domain() == kDomain && info.reason() == kReason) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::Status ServerEnded() {
  absl::Status status = absl::UnavailableError(kServerEndedText);
  v1::ErrorInfo info;
  info.set_reason(kReason);
  info.set_domain(kDomain);
  status.SetPayload(kTypeUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

std::string ErrorDetails(const absl::Status& status) {
  const absl::optional<absl::Cord> info = status.GetPayload(kTypeUrl);
  if (!info.has_value()) return {};
  v1::RpcStatus details;
  details.set_code(static_cast<int32_t>(status.code()));
  details.set_message(std::string(status.message()));
  v1::RpcStatus::Detail* const detail = details.add_details();
  detail->set_type_url(kTypeUrl);
  detail->set_value(std::string(*info));
  return details.SerializeAsString();
}

bool IsServerEnded(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (HasReason(status.error_details()) || status.error_message() == kServerEndedText);
}

}  // namespace jobscope
