// SPDX-License-Identifier: Apache-2.0
//
// An EventWriter with what it needs, and the trace that it has written.
#ifndef TESTS_COLLECTORS_CUDA_EVENTS_WRITER_RIG_H_
#define TESTS_COLLECTORS_CUDA_EVENTS_WRITER_RIG_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collectors/cuda/events/event_writer.h"
#include "collectors/cuda/held_activities.h"
#include "common/xspace/assemble/assembler.h"
#include "common/xspace/segment/store.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope::cuda {

struct WriterRig {
  explicit WriterRig(const CuptiApi& cupti = {}) : api(cupti) {
    window.end_ticks = UINT64_MAX;
    window.map = TickMap().WithZero(0);
  }

  xspace::Store store{16 << 20};
  xspace::Names names{&store};
  const CuptiApi api;
  ApiCalls calls{&api};
  KernelNames kernels;
  ThreadNames threads;
  Window window;
  EventWriter writer{&store, &names, &calls, &kernels, &threads, &window};
  const StepTimeline steps{nullptr};
  SessionAccount account;
  HeldActivities held{&window, &steps, &calls, &writer, &account};
};

// An activity of 10 ticks; an allocation where it is one of memory.
inline TimedActivity At(ActivityType type, uint64_t begin) {
  TimedActivity timed;
  timed.activity.type = type;
  timed.activity.sub_kind = 1;
  timed.activity.thread = 77;
  timed.start_ticks = begin;
  timed.end_ticks = begin + 10;
  return timed;
}

// Assembles the trace of what lines have flushed.
inline tensorflow::profiler::XSpace SpaceOf(const xspace::Store& store) {
  struct StringSink : xspace::ByteSink {
    absl::Status Write(std::string_view bytes, bool /*stable*/) override {
      text.append(bytes);
      return absl::OkStatus();
    }
    std::string text;
  };
  const std::vector<xspace::ItemView> items = store.Items();
  auto assembler = xspace::Assembler::Create(items, {});
  EXPECT_TRUE(assembler.ok()) << assembler.status();
  StringSink sink;
  EXPECT_TRUE(assembler->Write(0, &sink).ok());
  tensorflow::profiler::XSpace space;
  EXPECT_TRUE(space.ParseFromString(sink.text));
  return space;
}

}  // namespace jobscope::cuda

#endif  // TESTS_COLLECTORS_CUDA_EVENTS_WRITER_RIG_H_
