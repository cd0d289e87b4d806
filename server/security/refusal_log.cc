// SPDX-License-Identifier: Apache-2.0
#include "server/security/refusal_log.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/log/log.h"
#include "common/text/foreign_text.h"
#include "server/security/audit.h"

namespace jobscope {
namespace {
constexpr double kBurstLines = 10;
constexpr double kLinesPerSecond = 1;
constexpr size_t kMaxTextBytes = 100;
}  // namespace

RefusalLog::RefusalLog(std::function<void(const std::string&)> write) : write_(std::move(write)) {}

void RefusalLog::AddAt(const Refusal& refusal, absl::Time now) {
  if (write_ == nullptr && GetLogLevel() > LogLevel::kInfo) return;
  uint64_t left_out = 0;
  {
    const absl::MutexLock lock(&mutex_);
    // A clock that was set back neither adds lines nor removes any.
    const double passed_s = std::max(0.0, absl::ToDoubleSeconds(now - filled_));
    lines_left_ = std::min(kBurstLines, lines_left_ + passed_s * kLinesPerSecond);
    filled_ = now;
    if (lines_left_ < 1) {
      ++left_out_;
      return;
    }
    lines_left_ -= 1;
    std::swap(left_out, left_out_);
  }
  const std::string method = Printable(absl::StripPrefix(refusal.path, "/"), kMaxTextBytes);
  // gRPC tells the caller's address only to a method, which this request does not reach.
  const std::string peer = refusal.name.empty() ? "a caller without credentials"
                                                : absl::StrCat("certificate ", refusal.name);
  const std::string agent =
      absl::StrCat("user agent ", Printable(refusal.user_agent, kMaxTextBytes));
  const std::string outcome =
      left_out == 0 ? "" : absl::StrCat("and ", left_out, " more refused since the last line");
  const std::string line =
      AuditLine({method, peer, refusal.user_agent.empty() ? "" : agent, absl::ZeroDuration(),
                 absl::UnauthenticatedError(refusal.reason), outcome});
  if (write_ != nullptr) {
    write_(line);
  } else {
    Log(LogLevel::kInfo, line);
  }
}

}  // namespace jobscope
