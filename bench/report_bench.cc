// SPDX-License-Identifier: Apache-2.0
//
// Measures `jobscope report`: reading traces event by event, and reducing digests. Budgets:
// docs/report.md, Costs.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/digest/digest_builder.h"
#include "analysis/digest/digest_worker.h"
#include "analysis/output/report_json.h"
#include "analysis/trace/run_files.h"
#include "analysis/verdict/reduce.h"
#include "common/xspace/wire/fields.h"
#include "common/xspace/wire/wire.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope::analysis {
namespace {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;

constexpr int64_t kPsPerUs = 1'000'000;

XEvent* Add(tensorflow::profiler::XLine* line, int64_t name, int64_t begin_ps, int64_t length_ps) {
  XEvent* event = line->add_events();
  event->set_metadata_id(name);
  event->set_offset_ps(begin_ps);
  event->set_duration_ps(length_ps);
  return event;
}

void Name(XPlane* plane, int64_t id, const std::string& name) {
  auto& metadata = (*plane->mutable_event_metadata())[id];
  metadata.set_id(id);
  metadata.set_name(name);
}

void NameStat(XPlane* plane, int64_t id, const std::string& name) {
  auto& metadata = (*plane->mutable_stat_metadata())[id];
  metadata.set_id(id);
  metadata.set_name(name);
}

// Returns the trace of one worker: `threads` threads of nested events, 500 names, a third with a
// stat; steps of 20 ms with an input wait and a collective on the first thread.
std::string HostTrace(int64_t events, int64_t threads) {
  XSpace space;
  XPlane* plane = space.add_planes();
  plane->set_name("/host:CPU");
  constexpr int64_t kRoot = 1, kStep = 2, kArgument = 3;
  NameStat(plane, kRoot, "_r");
  NameStat(plane, kStep, "step_num");
  NameStat(plane, kArgument, "batch");
  for (int64_t i = 1; i <= 500; ++i) Name(plane, i, "operator_" + std::to_string(i));
  Name(plane, 501, "train");
  Name(plane, 502, "IteratorGetNext next_batch");
  constexpr int64_t kFanout = 4;
  for (int64_t t = 0; t < threads; ++t) {
    auto* line = plane->add_lines();
    line->set_id(t + 1);
    line->set_name("thread/" + std::to_string(t + 1));
    const int64_t per_thread = events / threads;
    const int64_t spacing_ps = 2'000'000 * kPsPerUs / per_thread;
    int64_t step = 0;
    for (int64_t i = 0; i < per_thread; ++i) {
      const int64_t begin_ps = i * spacing_ps;
      if (t == 0 && begin_ps >= step * 20'000 * kPsPerUs) {
        XEvent* root = Add(line, 501, begin_ps, 20'000 * kPsPerUs - spacing_ps);
        auto* mark = root->add_stats();
        mark->set_metadata_id(kRoot);
        mark->set_int64_value(1);
        auto* number = root->add_stats();
        number->set_metadata_id(kStep);
        number->set_int64_value(step++);
        Add(line, 502, begin_ps, spacing_ps / 2);
        continue;
      }
      const bool parent = i % (kFanout + 1) == 0;
      XEvent* event =
          Add(line, i * 7 % 500 + 1, begin_ps, parent ? spacing_ps * kFanout : spacing_ps / 2);
      if (i % 3 == 0) {
        auto* stat = event->add_stats();
        stat->set_metadata_id(kArgument);
        stat->set_int64_value(i);
      }
    }
  }
  return space.SerializeAsString();
}

// Returns a trace with kernels on four streams, each with three stats, and their launches in steps
// of one thread.
std::string DeviceTrace(int64_t kernels) {
  XSpace space;
  XPlane* host = space.add_planes();
  host->set_name("/host:CPU");
  NameStat(host, 1, "_r");
  NameStat(host, 2, "step_num");
  NameStat(host, 3, "correlation_id");
  Name(host, 1, "train");
  for (int64_t i = 2; i < 102; ++i) Name(host, i, "Launch kernel_" + std::to_string(i));
  XPlane* device = space.add_planes();
  device->set_name("/device:GPU:0");
  NameStat(device, 1, "correlation_id");
  NameStat(device, 2, "kernel_details");
  NameStat(device, 3, "regs:32 grid:128,1,1 block:256,1,1 occ_pct:75");
  for (int64_t i = 1; i < 102; ++i) Name(device, i, "kernel_" + std::to_string(i));
  auto* thread = host->add_lines();
  thread->set_id(1);
  const int64_t spacing_ps = 2'000'000 * kPsPerUs / kernels;
  int64_t step = 0;
  for (int64_t i = 0; i < kernels; ++i) {
    if (i * spacing_ps >= step * 20'000 * kPsPerUs) {
      XEvent* root = Add(thread, 1, i * spacing_ps, 20'000 * kPsPerUs - spacing_ps);
      for (const auto& [id, value] : {std::pair<int64_t, int64_t>{1, 1}, {2, step}}) {
        auto* stat = root->add_stats();
        stat->set_metadata_id(id);
        stat->set_int64_value(value);
      }
      ++step;
    }
    auto* stat = Add(thread, i % 100 + 2, i * spacing_ps, spacing_ps / 3)->add_stats();
    stat->set_metadata_id(3);
    stat->set_uint64_value(static_cast<uint64_t>(i));
  }
  for (int64_t s = 0; s < 4; ++s) {
    auto* stream = device->add_lines();
    stream->set_id(s + 7);
    for (int64_t i = s; i < kernels; i += 4) {
      XEvent* kernel = Add(stream, i % 100 + 1, i * spacing_ps + spacing_ps / 2, spacing_ps * 3);
      auto* correlation = kernel->add_stats();
      correlation->set_metadata_id(1);
      correlation->set_uint64_value(static_cast<uint64_t>(i));
      auto* details = kernel->add_stats();
      details->set_metadata_id(2);
      details->set_ref_value(3);
    }
  }
  return space.SerializeAsString();
}

// What `jobscope report` does with one worker: both passes over its mapped file.
void ReadTrace(benchmark::State* state, const std::string& trace, int64_t events) {
  std::string path = (std::filesystem::temp_directory_path() / "report_bench-XXXXXX").string();
  close(mkstemp(path.data()));
  std::ofstream(path, std::ios::binary) << trace;
  RunWorker worker;
  worker.name = "w";
  worker.aligned = true;
  worker.clock_uncertainty_ns = 20'000;
  worker.files = {path};
  size_t digest_bytes = 0;
  for (auto _ : *state) {
    const absl::StatusOr<v1::Digest> digest = DigestWorker(worker);
    if (!digest.ok()) state->SkipWithError(digest.status().ToString().c_str());
    digest_bytes = digest.ok() ? digest->ByteSizeLong() : 0;
  }
  std::filesystem::remove(path);
  state->SetItemsProcessed(static_cast<int64_t>(state->iterations()) * events);
  state->SetBytesProcessed(static_cast<int64_t>(state->iterations()) *
                           static_cast<int64_t>(trace.size()));
  state->counters["digest_KiB"] = static_cast<double>(digest_bytes) / 1024;
}

void BM_ReadHost(benchmark::State& state) {
  const std::string trace = HostTrace(state.range(0), 8);
  ReadTrace(&state, trace, state.range(0));
}
BENCHMARK(BM_ReadHost)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void BM_ReadDevice(benchmark::State& state) {
  const std::string trace = DeviceTrace(state.range(0));
  ReadTrace(&state, trace, 2 * state.range(0));
}
BENCHMARK(BM_ReadDevice)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

// Reduces ranks in step: 100 steps with five collectives each; one rank is slow.
void BM_Reduce(benchmark::State& state) {
  Digests digests;
  digests.workers.resize(static_cast<size_t>(state.range(0)));
  for (size_t w = 0; w < digests.workers.size(); ++w) {
    v1::Digest& digest = digests.workers[w];
    digest.set_schema(kDigestSchema);
    digest.set_name("w" + std::to_string(w));
    digest.set_rank(static_cast<int64_t>(w));
    digest.set_host("node" + std::to_string(w / 8));
    digest.set_aligned(true);
    digest.set_clock_uncertainty_ns(20'000);
    v1::DigestSteps* steps = digest.mutable_steps();
    v1::DigestCollectives* collectives = digest.mutable_collectives();
    collectives->add_texts("nccl:all_reduce");
    collectives->add_texts("0");
    auto* host = steps->add_classes();
    host->set_class_(static_cast<uint32_t>(Index(StepClass::kHost)));
    int64_t before_ns = 0;
    for (int64_t s = 0; s < 100; ++s) {
      const int64_t own_ns = w == 77 % digests.workers.size()
                                 ? 15'000'000
                                 : 10'000'000 + static_cast<int64_t>((w * 31 + s * 17) % 97) * 1000;
      steps->add_number(s == 0 ? 0 : 1);
      steps->add_begin_ns(0);
      steps->add_length_ns(20'000'000);
      steps->add_account_ns(20'000'000);
      steps->add_top_name(0);
      steps->add_top_self_ns(0);
      host->add_ns(static_cast<uint64_t>(own_ns));
      steps->add_blocked_ns(static_cast<uint64_t>(20'000'000 - own_ns));
      for (int64_t c = 0; c < 5; ++c) {
        const int64_t begin_ns = s * 20'000'000 + own_ns + c;
        collectives->add_name(0);
        collectives->add_group(2);
        collectives->add_sequence(s * 5 + c + 1);
        collectives->add_begin_ns(begin_ns - before_ns);
        before_ns = begin_ns;
        collectives->add_length_ns(static_cast<uint64_t>(20'000'000 - own_ns - c));
        collectives->add_step(static_cast<uint32_t>(s + 1));
        collectives->add_bytes(4097);
        collectives->add_members(0);
        collectives->add_blocked(c == 0 ? 1 : 0);
        if (c != 0) continue;
        collectives->add_blocked_begin_ns(0);
        collectives->add_blocked_length_ns(static_cast<uint64_t>(20'000'000 - own_ns));
      }
    }
    for (int i = 0; i < 200; ++i) {
      auto* name = digest.add_operators();
      name->set_name("operator_" + std::to_string(i));
      name->set_class_(static_cast<uint32_t>(Index(StepClass::kHost)));
      name->set_count(100);
      name->set_total_ns(1'000'000);
      name->set_self_ns(500'000);
      name->set_step_self_ns(500'000);
    }
  }
  size_t bytes = 0;
  for (auto _ : state) bytes = ReportJson(Reduce(digests)).size();
  state.counters["json_KiB"] = static_cast<double>(bytes) / 1024;
}
BENCHMARK(BM_Reduce)->Arg(8)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace jobscope::analysis

BENCHMARK_MAIN();
