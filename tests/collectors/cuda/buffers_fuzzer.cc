// SPDX-License-Identifier: Apache-2.0
//
// Whole buffers of any bytes, given back to a session of the collector by the fake libcupti, which
// knows kinds of any size: no byte beyond a buffer is read, each record counts once, and the trace
// can be read. The input is {version, options}, then what happens, one byte each with its
// operands. In buffers, small times are relative to the begin of the session, and pointers are
// numbers of texts.
#include <gtest/gtest.h>
#if __has_include(<sanitizer/asan_interface.h>)  // a compiler's; clang-tidy of PyPI comes without
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/record.h"
#include "tests/collectors/cuda/collector_fixture.h"
#include "tests/collectors/cuda/moved_record.h"
#include "tests/fuzz_input.h"

namespace jobscope {
namespace {

using cuda::BufferPool;

constexpr uint32_t kVersions[] = {13, 14, 17, 18, 20, 21, 22, 24, 26, 28, 130001, 140000};
constexpr uint64_t kPoolBuffers = 4;
constexpr int kMaxActions = 64;
// Times below, before or after, are relative to the begin: 18 minutes.
constexpr int64_t kNearNs = int64_t{1} << 40;
constexpr uint32_t kFatalError = 1;

// The buffers that are full and not read yet: what follows their records belongs to nobody.
class BeyondRecords {
 public:
  ~BeyondRecords() { Unpoison(); }
  // One that is shared by several threads is given back several times.
  void Add(uint8_t* buffer, size_t valid) { valid_[buffer] = std::max(valid_[buffer], valid); }
  void Clear() { valid_.clear(); }
  void Poison() const {
    for (const auto& [buffer, valid] : valid_) {
      ASAN_POISON_MEMORY_REGION(buffer + valid, BufferPool::kBufferBytes - valid);
    }
  }
  // While the fake writes to buffers.
  void Unpoison() const {
    for (const auto& [buffer, valid] : valid_) {
      ASAN_UNPOISON_MEMORY_REGION(buffer, BufferPool::kBufferBytes);
    }
  }

 private:
  std::map<uint8_t*, size_t> valid_;
};

class Session {
 public:
  explicit Session(FuzzInput* input) : input_(*input) {
    options_.cupti_library = UseVersion(kVersions[input_.Take<uint8_t>() % std::size(kVersions)]);
    (void)BufferPool::Get().TakeCounts();
    options_.buffer_bytes = kPoolBuffers * BufferPool::kBufferBytes;
    const auto choice = input_.Take<uint8_t>();
    options_.unified_memory = (choice & 2) != 0;
    gives_details_ = (choice & 4) != 0;
    ends_early_ = (choice & 8) != 0;
    // A call that returns must not be taken for one that hangs.
    options_.limits.begin = options_.limits.end = options_.limits.detach = absl::Seconds(60);
    options_.limits.stop = options_.limits.flush_hangs = absl::Seconds(60);
    options_.limits.work_in_flight = absl::ZeroDuration();
    options_.limits.flush_every = absl::Hours(1);
    options_.limits.hold = (choice & 16) != 0 ? absl::ZeroDuration() : absl::Seconds(2);
    options_.steps = [this] { return steps_; };
    collector_ = std::make_unique<CudaCollector>(kMonotonic, options_);
    driver_ = std::make_unique<SessionDriver>(collector_.get(), kMonotonic,
                                              (choice & 32) != 0 ? 1 << 20 : 64 << 20);
  }

  void Run() {
    Require(driver_->Arm().ok());
    begin_ns_ = cuda::RealtimeNs();
    begin_ticks_ = driver_->Now();
    for (int i = 0; i < kMaxActions && !input_.empty(); ++i) Act(input_.Take<uint8_t>());
    Start();
    beyond_.Poison();
    // A second later: what happened shortly after the begin lies within the window.
    driver_->StopAt(driver_->Now() + (ends_early_ ? 0 : 1'000'000'000));
    beyond_.Unpoison();
    driver_->ExpectIdentity();
    for (const ReadEvent& event : driver_->events_read()) {
      Require(event.start_ps >= 0);
      const auto allocated = event.ints.find("bytes_allocated");
      Require(allocated == event.ints.end() || allocated->second >= 0);
    }
  }

 private:
  void Act(uint8_t action) {
    switch (action % 8) {
      case 0:
      case 1:
        return Deliver();
      case 2:
        return Start();
      case 3:
        return Drain();
      case 4:
        return SetRecordBytes();
      case 5:
        names_.push_back(input_.TakeBytes8());
        return;
      case 6: {
        const uint64_t begin = begin_ticks_ + input_.Take<uint32_t>();
        steps_.push_back({input_.Take<int64_t>(), begin, begin + input_.Take<uint32_t>()});
        return;
      }
      default:
        gpu().AddDropped(input_.Take<uint8_t>());
        // The details of records that nobody may read any more are lost.
        if (input_.TakeBool() && !gives_details_) gpu().ReportState(kFatalError, 2, "fatal");
    }
  }

  void Start() {
    if (started_) return;
    started_ = true;
    Require(driver_->Start().ok());
  }

  void Drain() {
    if (!started_) return;
    beyond_.Poison();
    while (driver_->Drain() == absl::ZeroDuration()) continue;
    beyond_.Unpoison();
    beyond_.Clear();
    undrained_ = 0;
  }

  // Before any buffer that it holds for. A record that is shorter than ours would have pointers of
  // another one.
  void SetRecordBytes() {
    if (undrained_ != 0) return;
    const uint32_t kind = input_.Take<uint8_t>();
    const size_t more = input_.Take<uint16_t>();
    const size_t least = cuda::RecordBytes(kind, gpu().version());
    gpu().SetRecordBytes(kind, more == 0 ? 0 : std::max(least, sizeof(kind)) + more - 1);
  }

  void Deliver() {
    std::string bytes = input_.TakeBytes16();
    // When all are in use, what their records own may get lost.
    if (gives_details_ && undrained_ == kPoolBuffers) Drain();
    if (gives_details_ && undrained_ == kPoolBuffers) return;
    auto* const buffer = static_cast<uint8_t*>(gpu().Take());
    if (buffer == nullptr) return;
    ++undrained_;
    auto* const data = reinterpret_cast<uint8_t*>(bytes.data());
    Adapt(data, bytes.size());
    gpu().Return(buffer, data, bytes.size());
    beyond_.Add(buffer, bytes.size());
  }

  // Puts each record that will be found into this process and this time.
  void Adapt(uint8_t* data, size_t size) {
    uint8_t* record = nullptr;
    while (gpu().NextRecord(data, size, &record) == cuda::kCuptiSuccess) {
      const auto left = static_cast<size_t>(data + size - record);
      cuda::Activity activity;
      if (cuda::ParseRecord(record, left, gpu().version(), &activity) != cuda::ParseResult::kOk) {
        continue;
      }
      cuda::RecordPointers pointers;
      const auto name = reinterpret_cast<uintptr_t>(activity.name) & 0xff;
      if (name < names_.size()) pointers.name = names_[name].c_str();
      if (activity.details != nullptr && gives_details_ && started_) {
        pointers.details = std::malloc(8);
      }
      const auto move_time = [this](uint64_t ns) {
        const auto offset = static_cast<int64_t>(ns);
        return offset > -kNearNs && offset < kNearNs ? begin_ns_ + ns : ns;
      };
      cuda::MoveRecord(activity, gpu().version(), move_time, pointers, record);
    }
  }

  FuzzInput& input_;
  CudaCollectorOptions options_;
  bool gives_details_ = false;
  bool ends_early_ = false;
  bool started_ = false;
  uint64_t undrained_ = 0;
  uint64_t begin_ns_ = 0;
  uint64_t begin_ticks_ = 0;
  std::vector<cuda::StepSpan> steps_;
  // Others are missing. A deque: records of buffers that are not read yet point to them.
  std::deque<std::string> names_ = {kAdd, "", "_Z", "a\xff\n", std::string(70'000, 'n')};
  std::unique_ptr<CudaCollector> collector_;
  std::unique_ptr<SessionDriver> driver_;
  BeyondRecords beyond_;
};

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  GTEST_FLAG_SET(break_on_failure, true);  // an expectation of SessionDriver
  jobscope::FuzzInput input(data, size);
  jobscope::Session(&input).Run();
  return 0;
}
