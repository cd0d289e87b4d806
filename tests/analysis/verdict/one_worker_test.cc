// SPDX-License-Identifier: Apache-2.0
//
// Tests which class of time bounds a single worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OneWorkerTest : public RunFixture {};

TEST_F(OneWorkerTest, WaitsForItsInput) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Input(begin_ms, begin_ms + 6);
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("forward", begin_ms + 6, begin_ms + 9);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "bound");
  EXPECT_EQ(report["verdict"]["class"], "input");
  EXPECT_NEAR(report["verdict"]["gain"].get<double>(), 0.6, 0.001);
  EXPECT_NEAR(report["workers"][0]["classes_ms"]["host"].get<double>(), 3, 0.001);
  EXPECT_NEAR(report["workers"][0]["classes_ms"]["unexplained"].get<double>(), 1, 0.001);
  EXPECT_FALSE(report["workers"][0]["classes_ms"].contains("device_compute"));
}

// PyTorch runs the backward pass of a GPU on its own thread, for which the step's thread waits.
TEST_F(OneWorkerTest, TheBackwardPassOnItsThreadIsHostWork) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("forward", begin_ms, begin_ms + 2);
    trace.Event("AddmmBackward0", begin_ms + 2, begin_ms + 9, {}, {}, "/host:CPU", 2);
    trace.Event("cudaLaunchKernel", begin_ms + 3, begin_ms + 4, {}, {}, "/host:CPU", 2);
    trace.Kernel("gemm", begin_ms + 4, begin_ms + 5);
  }
  trace.NameLine("/host:CPU", 2, "pt_autograd_0/2");
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  const json& classes = report["workers"][0]["classes_ms"];
  EXPECT_NEAR(classes["device_compute"].get<double>(), 1, 0.001);
  EXPECT_NEAR(classes["launch"].get<double>(), 1, 0.001);
  EXPECT_NEAR(classes["host"].get<double>(), 7, 0.001);
  EXPECT_NEAR(classes["unexplained"].get<double>(), 1, 0.001);
  EXPECT_EQ(report["verdict"]["class"], "host");
  EXPECT_THAT(report["verdict"]["why"].dump(), HasSubstr("AddmmBackward0 6.00 ms per step"));
}

TEST_F(OneWorkerTest, AnyOtherThreadExplainsNothing) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("forward", begin_ms, begin_ms + 2);
    trace.Event("write_log", begin_ms + 2, begin_ms + 9, {}, {}, "/host:CPU", 2);
  }
  trace.NameLine("/host:CPU", 2, "logger/2");
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_NEAR(report["workers"][0]["classes_ms"]["host"].get<double>(), 2, 0.001);
  EXPECT_NEAR(report["workers"][0]["classes_ms"]["unexplained"].get<double>(), 8, 0.001);
}

// What is nested within a compilation, as Python's tracers record it, belongs to it.
TEST_F(OneWorkerTest, RecompilationIsNamedWithItsFunction) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("PjitFunction(update)", begin_ms, begin_ms + 9);
    trace.Event("$pxla.py:1209 compile", begin_ms, begin_ms + 8);
    trace.Event("trace_to_jaxpr", begin_ms, begin_ms + 1);
    trace.Event("backend_compile_and_load", begin_ms + 2, begin_ms + 8);
    trace.Event("$compiler.py:292 backend_compile_and_load", begin_ms + 2, begin_ms + 8);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "compilation");
  EXPECT_NEAR(verdict["class_ms"].get<double>(), 7, 0.001);
  EXPECT_EQ(verdict["names"][0], "backend_compile_and_load of PjitFunction(update)");
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("6.00 ms per step, 20 times"));
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("jax.log_compiles"));
}

TEST_F(OneWorkerTest, RetracingOfTensorFlowIsACompilation) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    trace.Step(step, step * 10, step * 10 + 10);
    trace.Event("update", step * 10, step * 10 + 9);
    trace.Event("tf.function-graph_building", step * 10, step * 10 + 6);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "compilation");
  EXPECT_EQ(verdict["names"][0], "tf.function-graph_building of update");
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("reduce_retracing"));
}

// A program compiles when it starts: that bounds none of the steps that follow.
TEST_F(OneWorkerTest, ACompilationAtTheStartIsNoBound) {
  TraceFile trace;
  trace.Step(0, 0, 10050);
  trace.Event("backend_compile_and_load", 0, 10000);
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = 10000 + step * 50;
    if (step > 0) trace.Step(step, begin_ms, begin_ms + 50);
    trace.Input(begin_ms, begin_ms + 20);
    trace.Event("forward", begin_ms + 20, begin_ms + 50);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "bound") << verdict;
  EXPECT_EQ(verdict["class"], "input") << verdict;
  EXPECT_NEAR(verdict["step_ms"].get<double>(), 50, 0.001);
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.4, 0.001);
  EXPECT_EQ(verdict["why"].back(),
            "not counted: compilation, 10.0 s in 1 of 40 steps; capture later, or longer");
  EXPECT_THAT(verdict["advice"].get<std::string>(), Not(HasSubstr("recompilation")));
}

// A lock, a socket: nothing is recorded of it but that the thread neither ran nor wanted to. Of
// every other step not even that.
TEST_F(OneWorkerTest, SleepsForWhoKnowsWhat) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    trace.Step(step, step * 10, step * 10 + 10,
               step % 2 == 0 ? Stats{{"cpu_ns", 2'000'000}, {"run_delay_ns", 1'000'000}}
                             : Stats{{"cpu_ns", -1}, {"run_delay_ns", -1}});
    trace.Event("forward", step * 10, step * 10 + 3);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["class"], "unexplained");
  EXPECT_NEAR(report["verdict"]["asleep_ms"].get<double>(), 7, 0.001);
  EXPECT_NEAR(report["workers"][0]["asleep_ms"].get<double>(), 7, 0.001);
  EXPECT_THAT(report["verdict"]["why"].dump(), HasSubstr("sleeps for 7.00 ms per step"));
  EXPECT_THAT(report["verdict"]["advice"].get<std::string>(), HasSubstr("--python_tracer_level=1"));
}

// Python was sampled: the report neither advises to sample it nor calls a function the cause.
TEST_F(OneWorkerTest, SleepsInAPythonFunction) {
  TraceFile trace;
  trace.NameLine("/host:CPU", 1, "MainThread/4711");
  trace.NameLine("/host:CPU", 2, "MainThread/4711 (python samples)");
  for (int step = 0; step < 20; ++step) {
    trace.Step(step, step * 10, step * 10 + 10, {{"cpu_ns", 1'000'000}, {"run_delay_ns", 0}});
  }
  trace.Event("$un.py:3 wait_for_lock", 0, 200, {{"samples", 20}}, {}, "/host:CPU", 2);
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["class"], "unexplained");
  EXPECT_NEAR(report["verdict"]["asleep_ms"].get<double>(), 9, 0.001);
  EXPECT_THAT(report["verdict"]["advice"].get<std::string>(),
              AllOf(HasSubstr("$file.py:line function"), Not(HasSubstr("python_tracer_level"))));
  EXPECT_EQ(report["operators"][0]["name"], "$un.py:3 wait_for_lock");
}

TEST_F(OneWorkerTest, ComputesInAPythonFunction) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) trace.Step(step, step * 10, step * 10 + 10);
  trace.Event("$un.py:9 decode", 0, 200, {{"samples", 20}}, {}, "/host:CPU", 2);
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "unexplained");
  EXPECT_THAT(verdict["advice"].get<std::string>(),
              AllOf(HasSubstr("$file.py:line function"), Not(HasSubstr("python_tracer_level"))));
}

TEST_F(OneWorkerTest, KeepsItsDeviceBusy) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Input(begin_ms, begin_ms + 6);  // hidden behind the device
    trace.Kernel("gemm", begin_ms, begin_ms + 8);
    trace.Kernel("MemcpyHtoD", begin_ms + 2, begin_ms + 9, 8);
    trace.Kernel("gemm_on_another_stream", begin_ms + 3, begin_ms + 4, 9);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["class"], "device_compute") << report["verdict"];
  const json& classes = report["workers"][0]["classes_ms"];
  EXPECT_NEAR(classes["device_compute"].get<double>(), 8, 0.001);
  EXPECT_NEAR(classes["device_copy"].get<double>(), 1, 0.001);
  EXPECT_NEAR(classes["input"].get<double>(), 0, 0.001);
  EXPECT_EQ(report["kernels"][0]["name"], "gemm");
  EXPECT_EQ(report["kernels"][0]["count"], 20);
}

// The device is idle for more than half of the step, and no class has its threshold.
TEST_F(OneWorkerTest, WithoutABoundTheDeviceIsNotCalledWellUsed) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Kernel("gemm", begin_ms, begin_ms + 4.5);
    trace.Event("forward", begin_ms + 4.5, begin_ms + 6.4);
    trace.Event("cudaLaunchKernel", begin_ms + 6.4, begin_ms + 8.2);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "balanced") << verdict;
  EXPECT_EQ(verdict["workers"], json({"w0"}));
  EXPECT_EQ(verdict["class"], "device_compute");
  EXPECT_EQ(verdict["text"],
            "rank 0 (node0): balanced, no class of time stands out; device compute takes 45 % of "
            "10.0 ms per step");
  EXPECT_EQ(verdict["why"].back(), "then host work 1.90 ms per step, 19 % of 10.0 ms");
  EXPECT_EQ(verdict.value("next_class", ""), "host");
  EXPECT_EQ(verdict.value("next_class_ms", 0.0), 1.9);
  EXPECT_EQ(verdict["advice"],
            "host work: fewer and larger operations, compiled functions, less Python in the loop");
}

// A device that waits for Python is what a fix gains, however far the step is from half host work.
TEST_F(OneWorkerTest, WorksOnTheHostWhileItsDeviceIsIdle) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("aten::linear", begin_ms, begin_ms + 9);
    trace.Event("cudaLaunchKernel", begin_ms + 3, begin_ms + 4);
    trace.Kernel("gemm", begin_ms + 4, begin_ms + 9);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "bound") << verdict;
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_NEAR(verdict["class_ms"].get<double>(), 3, 0.001);
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.3, 0.001);
  EXPECT_NEAR(verdict["device_idle_ms"].get<double>(), 5, 0.001);
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("host-bound"));
  EXPECT_THAT(verdict["why"].dump(),
              HasSubstr("the device is idle for 5.00 ms of 10.0 ms per step"));
  EXPECT_THAT(verdict["advice"].get<std::string>(),
              AllOf(HasSubstr("CUDA graphs"), HasSubstr("without it: 7.00 ms (-30 %")));
}

// Faster Python is no remedy for a wait.
TEST_F(OneWorkerTest, SleepsInAScopeWhileItsDeviceIsIdle) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10, {{"cpu_ns", 500'000}, {"run_delay_ns", 0}});
    trace.Event("fetch_weights", begin_ms, begin_ms + 4);
    trace.Event("train", begin_ms + 4, begin_ms + 10);
    trace.Kernel("gemm", begin_ms + 4, begin_ms + 10);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "host") << verdict;
  ASSERT_TRUE(verdict.contains("asleep_ms")) << verdict;
  EXPECT_NEAR(verdict["asleep_ms"].get<double>(), 3.5, 0.001);
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("find what it waits for"));
}

TEST_F(OneWorkerTest, LaunchesWhileItsDeviceIsIdle) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("aten::linear", begin_ms, begin_ms + 7);
    trace.Event("cudaLaunchKernel", begin_ms, begin_ms + 5);
    trace.Kernel("gemm", begin_ms + 4, begin_ms + 6);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "launch") << verdict;
  EXPECT_NEAR(verdict["class_ms"].get<double>(), 4, 0.001);
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.4, 0.001);
  EXPECT_NEAR(verdict["device_idle_ms"].get<double>(), 8, 0.001);
  EXPECT_EQ(verdict["names"], json({"cudaLaunchKernel"}));
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("launch-bound"));
}

TEST_F(OneWorkerTest, CopiesToItsDevice) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Kernel("MemcpyHtoD", begin_ms, begin_ms + 5, 8);
    trace.Kernel("gemm", begin_ms + 4, begin_ms + 8);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "device_copy") << verdict;
  EXPECT_NEAR(verdict["class_ms"].get<double>(), 4, 0.001);  // the rest is under the kernel
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.4, 0.001);
  EXPECT_EQ(verdict["names"], json({"MemcpyHtoD"}));
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("copy-bound, device copies take 40 %"));
}

TEST_F(OneWorkerTest, NoStepsIsAnAnswer) {
  TraceFile trace;
  trace.Event("forward", 0, 10);
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "undecidable");
  EXPECT_EQ(report["operators"][0]["name"], "forward");
  EXPECT_FALSE(report["workers"][0].contains("mean_ms"));
}

// A job that hangs in a step, or whose steps take longer than the recording.
TEST_F(OneWorkerTest, AStepThatDoesNotEndIsNotAnAbsentMark) {
  TraceFile trace;
  trace.Event("train", 0, 500, {{"clipped_step", 7}, {"truncated", 1}});
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable");
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("no step lies within the recording"));
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("capture longer"));
}

TEST_F(OneWorkerTest, StepsOfOtherThreadsAreReported) {
  TraceFile trace;
  for (int step = 0; step < 12; ++step) {
    trace.Event("train", step * 10, step * 10 + 10, {{"_r", 1}, {"step_num", step}}, {},
                "/host:CPU", step + 1);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  EXPECT_THAT(ReportOfRun()["warnings"].dump(),
              HasSubstr("11 steps of other threads are not counted"));
}

TEST_F(OneWorkerTest, SelfTimeIsExclusive) {
  TraceFile trace;
  for (int step = 0; step < 10; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("outer", begin_ms + 1, begin_ms + 9);
    trace.Event("inner", begin_ms + 2, begin_ms + 5);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  for (const json& row : report["operators"]) {
    if (row["name"] == "outer") {
      EXPECT_NEAR(row["self_ms"].get<double>(), 50, 0.001);
      EXPECT_NEAR(row["total_ms"].get<double>(), 80, 0.001);
      EXPECT_EQ(row["count"], 10);
    }
  }
}

TEST_F(OneWorkerTest, StepsThatTakeNoTimeHaveNoBound) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) trace.Step(step, 10, 10);
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict["why_undecidable"].get<std::string>(), HasSubstr("take no time"));
}

}  // namespace
}  // namespace jobscope::analysis
