// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of an NVTX call while jobscope is attached: off and on, by message, by
// registered string, with a payload. The baselines, from the same run, are a call of an empty
// function and two reads of the tick counter.
//
//   bin/nvtx_bench [--benchmark_repetitions=5 --benchmark_min_time=0.2]
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "collectors/host/recorder/reader_abi.h"
#include "collectors/nvtx/handler.h"
#include "jobscope/detail/ticks.h"
#include "tests/collectors/nvtx/nvtx_unit.h"

namespace {

namespace abi = jobscope::nvtx::abi;
using jobscope::nvtx_test::Registered;
using Program = jobscope::nvtx_test::Unit<0>;

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

void SetOn(const benchmark::State&) {
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, JOBSCOPE_BIT_LEVEL1);
}
void SetOff(const benchmark::State&) { Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, 0); }

__attribute__((noinline)) int Nothing(const char* message) {
  benchmark::DoNotOptimize(message);
  return 0;
}

void TwoCallsOfNothing(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(Nothing("a"));
    benchmark::DoNotOptimize(Nothing("b"));
  }
}
BENCHMARK(TwoCallsOfNothing);

void TwoTickReads(benchmark::State& state) {
  const bool uses_tsc = Reader()->uses_tsc != 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(jobscope::detail::ReadTicks(uses_tsc));
    benchmark::DoNotOptimize(jobscope::detail::ReadTicks(uses_tsc));
  }
}
BENCHMARK(TwoTickReads);

void PushPop(benchmark::State& state) {
  for (auto _ : state) {
    Program::Push("forward");
    Program::Pop();
  }
}
BENCHMARK(PushPop)->Name("PushPopIdle")->Setup(SetOff);
BENCHMARK(PushPop)->Setup(SetOn)->Teardown(SetOff);
BENCHMARK(PushPop)->Name("PushPopTwoThreads")->Threads(2)->Setup(SetOn)->Teardown(SetOff);

// Recording is off, but the thread has a recorded range open.
void PushPopTracked(benchmark::State& state) {
  SetOn(state);
  Program::Push("open");
  SetOff(state);
  for (auto _ : state) {
    Program::Push("forward");
    Program::Pop();
  }
  Program::Pop();
}
BENCHMARK(PushPopTracked);

void PushPopLongMessage(benchmark::State& state) {
  const std::string message(100, 'x');
  for (auto _ : state) {
    Program::Push(message.c_str());
    Program::Pop();
  }
}
BENCHMARK(PushPopLongMessage)->Setup(SetOn)->Teardown(SetOff);

void PushPopWide(benchmark::State& state) {
  for (auto _ : state) {
    Program::Push(L"forward");
    Program::Pop();
  }
}
BENCHMARK(PushPopWide)->Setup(SetOn)->Teardown(SetOff);

// Like the PyPI package: domain, registered message, colour, category, payload.
void DomainPushPopRegistered(benchmark::State& state) {
  const void* const domain = Program::CreateDomain("bench");
  Program::NameCategory(domain, 1, "category");
  abi::EventAttributes attributes = Registered(Program::Register(domain, "forward"));
  attributes.category = 1;
  attributes.color_type = abi::kColorArgb;
  attributes.color = 0xff;
  attributes.payload_type = abi::kPayloadInt64;
  for (auto _ : state) {
    ++attributes.payload.int64_value;
    Program::Push(domain, &attributes);
    Program::Pop(domain);
  }
}
BENCHMARK(DomainPushPopRegistered)->Name("DomainPushPopRegisteredIdle")->Setup(SetOff);
BENCHMARK(DomainPushPopRegistered)->Setup(SetOn)->Teardown(SetOff);

void Mark(benchmark::State& state) {
  for (auto _ : state) Program::Mark("mark");
}
BENCHMARK(Mark)->Setup(SetOn)->Teardown(SetOff);

void StartEnd(benchmark::State& state) {
  for (auto _ : state) Program::End(Program::Start("request"));
}
BENCHMARK(StartEnd)->Setup(SetOn)->Teardown(SetOff);

// A new name at each call: the first 4,096 get a place in the dictionary, the others become
// arguments. Runs last, because the dictionary stays full.
void PushPopNewName(benchmark::State& state) {
  char name[32];
  uint64_t number = 0;
  for (auto _ : state) {
    snprintf(name, sizeof(name), "iteration %llu", static_cast<unsigned long long>(++number));
    Program::Push(name);
    Program::Pop();
  }
}
BENCHMARK(PushPopNewName)->Setup(SetOn)->Teardown(SetOff);

}  // namespace

int main(int argc, char** argv) {
  if (!Program::Attach([](void* table) {
        return jobscope::nvtx::Attach(jobscope_trace_writer(), table) ? 1 : 0;
      })) {
    return 1;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
