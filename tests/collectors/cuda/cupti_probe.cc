// SPDX-License-Identifier: Apache-2.0
//
// What the loader finds in a process of its own, and whether the library it found walks records as
// our parser reads them.
//
//   cupti_probe [--map FILE]... [--library FILE] [--driver VERSION] [--walk] [--fail]
//
// --map opens a library first, as an application would have. Prints "loaded VERSION PATH" and, with
// --walk, "walked RECORDS"; exit 1 with the reason where that fails. --fail makes calls fail, and
// prints CUPTI's reports of them.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/libraries/loader.h"
#include "collectors/cuda/records/record.h"
#include "collectors/cuda/records/record_walk.h"
#include "collectors/cuda/tracing/tracing.h"
#include "common/threads/detached_caller.h"
#include "tests/collectors/cuda/record_builder.h"

namespace jobscope::cuda {
namespace {

// Returns how far apart the library has two records of this kind; 0: it does not know it.
size_t StrideOf(const CuptiApi& api, uint32_t kind) {
  std::vector<uint64_t> words(1024, kind);  // a record of that kind at every place
  auto* const data = reinterpret_cast<uint8_t*>(words.data());
  const size_t bytes = words.size() * sizeof(words[0]);
  uint8_t* record = nullptr;
  if (api.cuptiActivityGetNextRecord(data, bytes, &record) != kCuptiSuccess) return 0;
  const uint8_t* const first = record;
  if (api.cuptiActivityGetNextRecord(data, bytes, &record) != kCuptiSuccess) return 0;
  return static_cast<size_t>(record - first);
}

// False: some kind's record is shorter than we take it to be, or longer in a release that we know
// and that has its version's number for itself.
bool CompareStrides(const CuptiApi& api) {
  bool good = true;
  for (const uint32_t kind :
       {kKindMemcpy, kKindMemset, kKindKernel, kKindDriver, kKindRuntime, kKindConcurrentKernel,
        kKindOverhead, kKindMemcpyPeer, kKindUnifiedMemory, kKindSynchronization, kKindMemory}) {
    const size_t ours = RecordBytes(kind, api.version);
    const size_t stride = StrideOf(api, kind);
    const bool may_be_longer = api.version == kCupti11_8 || api.version > kCupti13_0_1;
    if (ours == stride || (ours < stride && may_be_longer)) continue;
    std::printf("kind %u: %zu bytes, not %zu\n", kind, stride, ours);
    good = false;
  }
  return good;
}

// The number of records; -1: one of them is not what it was.
int Walk(const CuptiApi& api) {
  std::vector<Activity> expected;
  Bytes buffer;
  for (const Activity& activity : OneOfEach()) {
    const Bytes record = Encode(activity, api.version);
    // 12.0 and 12.1 append to what 11.8 has, under the same number.
    uint32_t kind = 0;
    std::memcpy(&kind, record.data(), std::min(record.size(), sizeof(kind)));
    if (record.empty() || record.size() != StrideOf(api, kind)) continue;
    expected.push_back(activity);
    buffer.insert(buffer.end(), record.begin(), record.end());
  }
  std::vector<uint64_t> aligned((buffer.size() + 7) / 8);
  std::memcpy(aligned.data(), buffer.data(), buffer.size());
  auto* const data = reinterpret_cast<uint8_t*>(aligned.data());

  uint8_t* record = nullptr;
  for (size_t i = 0; i < expected.size(); ++i) {
    const CuptiResult result = api.cuptiActivityGetNextRecord(data, buffer.size(), &record);
    if (result != kCuptiSuccess) {
      std::printf("record %zu: result %d\n", i, result);
      return -1;
    }
    Activity activity;
    const auto left = static_cast<size_t>(data + buffer.size() - record);
    if (ParseRecord(record, left, api.version, &activity) != ParseResult::kOk ||
        activity.type != expected[i].type || activity.start_ns != expected[i].start_ns) {
      std::printf("record %zu is not what it was\n", i);
      return -1;
    }
  }
  if (api.cuptiActivityGetNextRecord(data, buffer.size(), &record) != kCuptiMaxLimitReached) {
    std::printf("no end\n");
    return -1;
  }
  // A cut record is the end, and so is one of which only the kind is left.
  record = nullptr;
  size_t whole = 0;
  while (api.cuptiActivityGetNextRecord(data, buffer.size() - 8, &record) == kCuptiSuccess) ++whole;
  if (whole != expected.size() - 1) {
    std::printf("%zu of %zu records before a cut one\n", whole, expected.size());
    return -1;
  }
  // Zeros behind the last record are what CUPTI had reserved: an end.
  std::vector<uint64_t> zeros = aligned;
  zeros.resize(zeros.size() + 64);
  RecordWalk walk(&api, reinterpret_cast<const uint8_t*>(zeros.data()),
                  zeros.size() * sizeof(zeros[0]));
  whole = 0;
  while (walk.Next()) ++whole;
  if (whole != expected.size() || walk.unreadable()) {
    std::printf("%zu of %zu records before zeros\n", whole, expected.size());
    return -1;
  }
  // What callbacks are called, by number.
  const char* name = nullptr;
  if (api.cuptiGetCallbackName == nullptr ||
      api.cuptiGetCallbackName(kDomainRuntimeApi, 211, &name) != kCuptiSuccess ||
      std::string(name).find("cudaLaunchKernel") != 0) {
    std::printf("call 211 is not cudaLaunchKernel\n");
    return -1;
  }
  return static_cast<int>(expected.size());
}

// What a failed call leaves behind: a message, and nothing else. False: it wrote elsewhere.
bool Fail(const CuptiApi& api) {
  constexpr uint64_t kGuard = 0x5ca1ab1e'0ddba11;
  struct {
    uint64_t before = kGuard;
    const char* message = nullptr;
    uint64_t after = kGuard;
  } guarded;
  constexpr uint32_t kNoKind = 9999;
  const CuptiResult enabled = api.cuptiActivityEnable(kNoKind);
  if (enabled == kCuptiSuccess) {
    std::printf("kind %u was enabled\n", kNoKind);
    return false;
  }
  if (api.cuptiGetErrorMessage != nullptr) {
    constexpr CuptiResult kLastResult = 46;
    for (CuptiResult result = 0; result <= kLastResult; ++result) {
      guarded.message = nullptr;
      if (api.cuptiGetErrorMessage(result, &guarded.message) == kCuptiSuccess &&
          guarded.message != nullptr) {
        std::printf("message of %d: %s\n", result, guarded.message);
      }
    }
  }
  // A session's calls: without a driver the first one fails.
  Tracing tracing(&api, {}, std::make_shared<DetachedCaller>("cupti_probe"));
  const absl::Status status = tracing.Begin(absl::Seconds(20));
  std::printf("session: %s\n", std::string(status.message()).c_str());
  if (status.ok()) (void)tracing.End(/*all_came=*/false, absl::Seconds(20));
  return guarded.before == kGuard && guarded.after == kGuard;
}

int Main(int argc, char** argv) {
  LoadOptions options;
  bool walk = false;
  bool fail = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--walk") {
      walk = true;
      continue;
    }
    if (flag == "--fail") {
      fail = true;
      continue;
    }
    if (i + 1 == argc) return 2;
    const std::string value = argv[++i];
    if (flag == "--map" && dlopen(value.c_str(), RTLD_NOW) == nullptr) {
      std::printf("%s\n", dlerror());
      return 2;
    }
    if (flag == "--library") options.library = value;
    if (flag == "--driver") options.driver_version = std::atoi(value.c_str());
  }
  const auto api = LoadCupti(options);
  if (!api.ok()) {
    std::printf("not loaded: %s\n", std::string(api.status().message()).c_str());
    return 1;
  }
  std::printf("loaded %u %s\n", (*api)->version, (*api)->path.c_str());
  if (*LoadCupti(options) != *api) return 1;
  if (fail && !Fail(**api)) return 1;
  if (!walk) return 0;
  const int records = CompareStrides(**api) ? Walk(**api) : -1;
  if (records < 0) return 1;
  std::printf("walked %d\n", records);
  return 0;
}

}  // namespace
}  // namespace jobscope::cuda

int main(int argc, char** argv) { return jobscope::cuda::Main(argc, argv); }
