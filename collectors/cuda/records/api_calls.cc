// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/api_calls.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/xspace/wire/absl_view.h"

namespace jobscope::cuda {
namespace {

using xspace::AbslView;

}  // namespace

std::string ApiName(std::string_view callback_name) {
  std::string name(callback_name);
  const size_t version = name.rfind("_v");
  if (version != std::string::npos && version + 2 < name.size() &&
      name.find_first_not_of("0123456789", version + 2) == std::string::npos &&
      name.size() - version > 4) {  // _v3020; not cuMemAlloc_v2, where v2 belongs to the name
    name.resize(version);
  }
  for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
    if (name.size() > suffix.size() &&
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
      name.resize(name.size() - suffix.size());
    }
  }
  return name;
}

bool IsLaunch(std::string_view api_name) {
  // A host function, queued like a kernel. CUDA 13.2 introduced a second version of both calls.
  if (absl::StartsWith(AbslView(api_name), "cudaLaunchHostFunc") ||
      absl::StartsWith(AbslView(api_name), "cuLaunchHostFunc")) {
    return false;
  }
  return absl::StartsWith(AbslView(api_name), "cudaLaunch") ||
         absl::StartsWith(AbslView(api_name), "cuLaunch") ||
         absl::StartsWith(AbslView(api_name), "cudaGraphLaunch") ||
         absl::StartsWith(AbslView(api_name), "cuGraphLaunch");
}

bool IsWithoutWork(std::string_view api_name) {
  for (const absl::string_view part : {"Query", "Synchronize", "Event", "Get", "Peek", "CtxPush",
                                       "CtxPop", "CtxSet", "SetDevice", "IsCapturing"}) {
    if (absl::StrContains(AbslView(api_name), part)) return true;
  }
  return false;
}

int GraphRecording(std::string_view api_name) {
  const absl::string_view name = AbslView(api_name);
  if (absl::StartsWith(name, "cudaStreamBeginCapture") ||
      absl::StartsWith(name, "cuStreamBeginCapture")) {
    return 1;
  }
  return absl::StartsWith(name, "cudaStreamEndCapture") ||
                 absl::StartsWith(name, "cuStreamEndCapture")
             ? -1
             : 0;
}

const ApiCall& ApiCalls::Of(bool driver, uint32_t id) {
  const uint64_t key = (static_cast<uint64_t>(driver) << 32) | id;
  if (calls_.size() >= kMaxCalls && calls_.count(key) == 0) return others_;
  ApiCall& known = calls_[key];
  if (!known.name.empty()) return known;
  const char* name = nullptr;
  if (api_->cuptiGetCallbackName != nullptr &&
      api_->cuptiGetCallbackName(driver ? kDomainDriverApi : kDomainRuntimeApi, id, &name) ==
          kCuptiSuccess &&
      name != nullptr && name[0] != '\0') {
    known.name = ApiName(name);
  } else {
    known.name = absl::StrCat(driver ? "CUDA driver call " : "CUDA runtime call ", id);
  }
  known.launches = IsLaunch(known.name);
  known.may_have_work = !IsWithoutWork(known.name);
  known.graph_recording = GraphRecording(known.name);
  known.of_graphs = known.name.find("Graph") != std::string::npos;
  return known;
}

}  // namespace jobscope::cuda
