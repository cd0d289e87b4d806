// SPDX-License-Identifier: Apache-2.0
//
// A libcupti that writes down what the real one returns: all functions are the real one's, which
// this library is linked to; only cuptiActivityRegisterCallbacks is ours, and puts a writer before
// the caller's completion callback.
//
//   JOBSCOPE_CUPTI_LIBRARY=libcupti_recorder.so   what the worker loads
//   CUPTI_RECORDED_LIBRARY=…/libcupti.so.13       the real one, by the path that is loaded
//   CUPTI_RECORDING=FILE                          appended to, in the format of recording.h
//   CUPTI_RECORDING_ORIGIN=TEXT                   which GPU and driver
//
// A tool for making fixtures: it locks and writes on CUPTI's threads, so no times are taken with
// it.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/record.h"
#include "tests/collectors/cuda/recordings/recording.h"

namespace {

using jobscope::cuda::Activity;
using jobscope::cuda::BufferCompleted;
using jobscope::cuda::BufferRequested;
using jobscope::cuda::CuptiResult;
using jobscope::cuda::kCuptiUnknown;
using jobscope::cuda::ParseResult;
using jobscope::cuda::recording_detail::Append;
using jobscope::cuda::recording_detail::AppendBlock;

constexpr size_t kMaxName = 4096;

struct Real {
  CuptiResult (*register_callbacks)(BufferRequested, BufferCompleted) = nullptr;
  CuptiResult (*next_record)(uint8_t*, size_t, uint8_t**) = nullptr;
  CuptiResult (*version)(uint32_t*) = nullptr;
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  void* const found = dlsym(library, name);
  std::memcpy(function, &found, sizeof(found));
}

const Real& TheReal() {
  static const Real real = [] {
    Real functions;
    const char* const path = std::getenv("CUPTI_RECORDED_LIBRARY");
    // We are linked to it, so it is loaded.
    void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) {
      std::fprintf(stderr, "cupti_recorder: CUPTI_RECORDED_LIBRARY names no loaded library\n");
      return functions;
    }
    Find(library, "cuptiActivityRegisterCallbacks", &functions.register_callbacks);
    Find(library, "cuptiActivityGetNextRecord", &functions.next_record);
    Find(library, "cuptiGetVersion", &functions.version);
    return functions;
  }();
  return real;
}

class Writer {
 public:
  static Writer& Get() {
    static auto* const writer = new Writer;
    return *writer;
  }

  void SetCompleted(BufferCompleted completed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    completed_ = completed;
    if (file_ != nullptr) return;
    const char* const path = std::getenv("CUPTI_RECORDING");
    file_ = path == nullptr ? nullptr : std::fopen(path, "wbe");
    if (file_ == nullptr || TheReal().version(&version_) != 0) return;
    jobscope::cuda::Recording empty;
    empty.version = version_;
    const char* const origin = std::getenv("CUPTI_RECORDING_ORIGIN");
    empty.origin = origin == nullptr ? "unknown" : origin;
    Write(FormatRecording(empty));
  }

  void OnCompleted(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
    BufferCompleted completed = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      completed = completed_;
      if (file_ != nullptr && buffer != nullptr && valid > 0) Record(buffer, valid);
    }
    if (completed != nullptr) completed(context, stream, buffer, size, valid);
  }

 private:
  void Write(const std::string& bytes) const {
    (void)std::fwrite(bytes.data(), 1, bytes.size(), file_);
    (void)std::fflush(file_);
  }

  void Record(uint8_t* buffer, size_t valid) {
    std::string out;
    uint8_t* record = nullptr;
    while (TheReal().next_record(buffer, valid, &record) == 0) {
      Activity activity;
      const auto left = static_cast<size_t>(buffer + valid - record);
      if (ParseRecord(record, left, version_, &activity) != ParseResult::kOk) continue;
      if (activity.name == nullptr) continue;
      const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(activity.name));
      std::string& known = written_[address];
      const std::string name(activity.name, strnlen(activity.name, kMaxName));
      if (known == name) continue;
      known = name;
      std::string payload;
      Append<uint64_t>(address, &payload);
      AppendBlock(jobscope::cuda::kString, payload + name, &out);
    }
    AppendBlock(jobscope::cuda::kBuffer, {reinterpret_cast<const char*>(buffer), valid}, &out);
    Write(out);
  }

  std::mutex mutex_;
  BufferCompleted completed_ = nullptr;
  std::FILE* file_ = nullptr;
  uint32_t version_ = 0;
  std::map<uint64_t, std::string> written_;
};

void OnCompleted(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  Writer::Get().OnCompleted(context, stream, buffer, size, valid);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) CuptiResult cuptiActivityRegisterCallbacks(
    BufferRequested requested, BufferCompleted completed) {
  if (TheReal().register_callbacks == nullptr) return kCuptiUnknown;
  Writer::Get().SetCompleted(completed);
  return TheReal().register_callbacks(requested, &OnCompleted);
}
