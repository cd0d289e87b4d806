// SPDX-License-Identifier: Apache-2.0
#include "common/run/outcome.h"

namespace jobscope {

const char* Name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return "ok";
    case Outcome::kTruncated:
      return "truncated";
    case Outcome::kEmpty:
      return "empty";
    case Outcome::kDuplicate:
      return "duplicate";
    case Outcome::kUnreachable:
      return "unreachable";
    case Outcome::kTimeout:
      return "timeout";
    case Outcome::kBusy:
      return "busy";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kDied:
      return "died";
    case Outcome::kFailed:
      return "failed";
  }
  return "failed";
}

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kConnect:
      return "connect";
    case Phase::kDescribe:
      return "describe";
    case Phase::kArm:
      return "arm";
    case Phase::kRecord:
      return "record";
    case Phase::kTransfer:
      return "transfer";
    case Phase::kWrite:
      return "write";
    case Phase::kDone:
      return "done";
  }
  return "done";
}

const char* Name(Protocol protocol) {
  return protocol == Protocol::kNative ? "native" : "tensorflow";
}

bool IsDelivery(Outcome outcome) {
  return outcome == Outcome::kOk || outcome == Outcome::kTruncated || outcome == Outcome::kEmpty;
}

}  // namespace jobscope
