// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_server/grpc_log.h"

#include <dlfcn.h>
#include <grpc/support/log.h>
#include <grpcpp/version_info.h>

#include <mutex>
#include <string>
#include <string_view>

#include "common/log/log.h"

namespace jobscope {

#if GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 67
void TakeOverGrpcLog() {}  // it logs by Abseil
#else
namespace {

// Called by gRPC on any of its threads.
void OnGrpcMessage(gpr_log_func_args* args) {
  if (args->severity < GPR_LOG_SEVERITY_ERROR || args->message == nullptr) return;
  constexpr std::string_view kAssertion = "assertion failed";
  const std::string_view message(args->message);
  // The process ends right after this message: withholding it would hide the cause.
  const bool fatal = message.substr(0, kAssertion.size()) == kAssertion;
  const LogLevel level = fatal ? LogLevel::kError : LogLevel::kDebug;
  if (GetLogLevel() > level) return;
  const std::string_view path(args->file == nullptr ? "" : args->file);
  const size_t slash = path.rfind('/');
  std::string text = "gRPC: ";
  text.append(message).append(" (");
  text.append(slash == std::string_view::npos ? path : path.substr(slash + 1));
  text.append(":").append(std::to_string(args->line)).append(")");
  Log(level, text);
}

// Returns whether gRPC is part of the same library (or program) as this code.
bool GrpcIsOurs() {
  Dl_info ours = {};
  Dl_info grpc = {};
  return dladdr(reinterpret_cast<void*>(&OnGrpcMessage), &ours) != 0 &&
         dladdr(reinterpret_cast<void*>(&gpr_set_log_function), &grpc) != 0 &&
         ours.dli_fbase == grpc.dli_fbase;
}

}  // namespace

void TakeOverGrpcLog() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!GrpcIsOurs()) return;
    gpr_set_log_function(&OnGrpcMessage);
    // Set before gRPC starts, this overrides GRPC_VERBOSITY, and messages below it are not even
    // formatted.
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  });
}
#endif

}  // namespace jobscope
