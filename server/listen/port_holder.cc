// SPDX-License-Identifier: Apache-2.0
#include "server/listen/port_holder.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/text/foreign_text.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "rpc/arguments.h"
#include "rpc/deadline.h"
#include "tensorflow/profiler_service.grpc.pb.h"

namespace jobscope {
namespace {

// Largest reply: the program that holds the port may send anything.
constexpr int kMaxReplyBytes = 64 << 10;
// Text of a stock server's answer to Monitor. A gRPC server without the service answers with the
// same code and another text, or none.
constexpr absl::string_view kStockMonitorText = "unimplemented.";

// Returns the address at which a wildcard listener answers.
std::string DialText(absl::string_view bound) {
  return absl::StrReplaceAll(bound, {{"0.0.0.0:", "127.0.0.1:"}, {"[::]:", "[::1]:"}});
}

std::string DescribeWorker(const v1::Identity& identity) {
  std::string text = absl::StrCat("a jobscope worker (pid ", identity.pid());
  if (identity.has_rank()) absl::StrAppend(&text, ", rank ", identity.rank());
  if (!identity.executable().empty()) {
    absl::StrAppend(&text, ", ", Printable(identity.executable(), 100));
  }
  return text + ")";
}

}  // namespace

std::string DescribePortHolder(const BindTarget& target, absl::Duration timeout) {
  const gpr_timespec deadline = DeadlineIn(timeout);
  const auto channel =
      grpc::CreateCustomChannel(DialText(target.text), grpc::InsecureChannelCredentials(),
                                MakeChannelArguments(kMaxReplyBytes));
  v1::DescribeResponse description;
  grpc::ClientContext describe_context;
  describe_context.set_deadline(deadline);
  const grpc::Status described = v1::Profiler::NewStub(channel)->Describe(
      &describe_context, v1::DescribeRequest(), &description);
  if (described.ok()) return DescribeWorker(description.identity());
  if (described.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return "a gRPC server that requires credentials";
  }
  if (described.error_code() == grpc::StatusCode::PERMISSION_DENIED) {  // by its UserCheck
    return "a gRPC server that does not accept this user";
  }
  if (described.error_code() != grpc::StatusCode::UNIMPLEMENTED) return "another program";

  tensorflow::MonitorResponse monitored;
  grpc::ClientContext monitor_context;
  monitor_context.set_deadline(deadline);
  const grpc::Status status = tensorflow::ProfilerService::NewStub(channel)->Monitor(
      &monitor_context, tensorflow::MonitorRequest(), &monitored);
  const bool stock = status.ok() || status.error_message() == kStockMonitorText;
  return stock ? "a TensorFlow or JAX profiler server" : "another gRPC server";
}

}  // namespace jobscope
