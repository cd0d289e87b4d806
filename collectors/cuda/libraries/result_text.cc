// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/libraries/result_text.h"

#include <unistd.h>

#include <array>

namespace jobscope::cuda {
namespace {

constexpr std::string_view kOurs = "report it with this line";
constexpr std::string_view kCounters = "nothing: only hardware counters are affected, not tracing";

constexpr std::array<ResultText, 48> kTexts = {{
    {0, "SUCCESS", "no error", ""},
    {1, "INVALID_PARAMETER", "CUPTI refused an argument of jobscope", kOurs},
    {2, "INVALID_DEVICE", "this GPU is not supported by this libcupti",
     "use a libcupti of CUDA 12 for Volta and older GPUs, a newer one for newer GPUs"},
    {3, "INVALID_CONTEXT", "CUPTI does not know the CUDA context", kOurs},
    {4, "INVALID_EVENT_DOMAIN_ID", "CUPTI refused an event domain", kOurs},
    {5, "INVALID_EVENT_ID", "CUPTI refused an event", kOurs},
    {6, "INVALID_EVENT_NAME", "CUPTI refused the name of an event", kOurs},
    {7, "INVALID_OPERATION", "CUPTI refused the order of calls", kOurs},
    {8, "OUT_OF_MEMORY", "there was not enough memory for trace buffers",
     "free some GPU or host memory, or lower JOBSCOPE_CUDA_BUFFER_MB"},
    {9, "HARDWARE", "the GPU reported a hardware error", "look for Xid lines in dmesg"},
    {10, "PARAMETER_SIZE_NOT_SUFFICIENT", "CUPTI needs a larger buffer than jobscope gave it",
     kOurs},
    {11, "API_NOT_IMPLEMENTED", "this libcupti does not implement the call",
     "use a newer libcupti"},
    {12, "MAX_LIMIT_REACHED", "a limit of CUPTI was reached, in old versions the one subscriber",
     "stop the other profiler of this process"},
    {13, "NOT_READY", "CUPTI was not ready", "capture again"},
    {14, "NOT_COMPATIBLE",
     "another use of CUPTI in this process excludes ours (for example subscribers of both API "
     "generations)",
     "stop the other profiler of this process"},
    {15, "NOT_INITIALIZED",
     "CUPTI could not initialise: the driver is older than this libcupti requires",
     "use a libcupti of the driver's CUDA version or older, or update the driver"},
    {16, "INVALID_METRIC_ID", "CUPTI refused a metric", kOurs},
    {17, "INVALID_METRIC_NAME", "CUPTI refused the name of a metric", kOurs},
    {18, "QUEUE_EMPTY", "CUPTI found a queue empty", kOurs},
    {19, "INVALID_HANDLE", "CUPTI refused a handle of jobscope", kOurs},
    {20, "INVALID_STREAM", "CUPTI does not know the stream", kOurs},
    {21, "INVALID_KIND", "this libcupti does not know the kind of record", "use a newer libcupti"},
    {22, "INVALID_EVENT_VALUE", "CUPTI refused the value of an event", kOurs},
    {23, "DISABLED", "CUPTI is disabled in this process",
     "look for another tool, or for an environment variable that disables CUPTI"},
    {24, "INVALID_MODULE", "CUPTI does not know the module", kOurs},
    {25, "INVALID_METRIC_VALUE", "CUPTI refused the value of a metric", kOurs},
    {26, "HARDWARE_BUSY", "the GPU's counters are held by someone else, often DCGM",
     "run `dcgmi profiling pause`"},
    {27, "NOT_SUPPORTED", "this is not supported on this system", "use a newer libcupti or driver"},
    {28, "UM_PROFILING_NOT_SUPPORTED", "unified memory cannot be traced on this system", ""},
    {29, "UM_PROFILING_NOT_SUPPORTED_ON_DEVICE", "unified memory cannot be traced on this GPU", ""},
    {30, "UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES",
     "unified memory cannot be traced on GPUs without peer access", ""},
    {31, "UM_PROFILING_NOT_SUPPORTED_WITH_MPS", "unified memory cannot be traced under MPS", ""},
    {32, "CDP_TRACING_NOT_SUPPORTED", "kernels launched by kernels cannot be traced", ""},
    {33, "VIRTUALIZED_DEVICE_NOT_SUPPORTED", "this virtual GPU cannot be profiled",
     "enable profiling for the virtual GPU on the hypervisor"},
    {34, "CUDA_COMPILER_NOT_COMPATIBLE", "the CUDA compiler of this process does not fit CUPTI",
     "use a libcupti of the same CUDA version"},
    {35, "INSUFFICIENT_PRIVILEGES", "the driver lets only administrators profile",
     "set the module parameter NVreg_RestrictProfilingToAdminUsers=0, or give the process "
     "CAP_SYS_ADMIN; RmProfilingAdminOnly in /proc/driver/nvidia/params says what is set"},
    {36, "OLD_PROFILER_API_INITIALIZED", "CUPTI's older profiler API is in use", kCounters},
    {37, "OPENACC_UNDEFINED_ROUTINE", "the OpenACC runtime lacks a routine", kOurs},
    {38, "LEGACY_PROFILER_NOT_SUPPORTED", "CUPTI's older profiler API is not supported here",
     kCounters},
    {39, "MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "this process is already being profiled",
     "a tool that was attached from outside (nsys, ncu, compute-sanitizer) stays to the end of the "
     "process: start the program without it; a framework's profiler unsubscribes when its "
     "recording ends: capture again then"},
    {40, "VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES", "this virtual GPU may not be profiled",
     "enable profiling for the virtual GPU on the host"},
    {41, "CONFIDENTIAL_COMPUTING_NOT_SUPPORTED",
     "the GPU is in confidential-computing mode, which excludes profiling",
     "use a GPU without it, or its developer mode"},
    {42, "CMP_DEVICE_NOT_SUPPORTED", "mining GPUs cannot be profiled", ""},
    {43, "MIG_DEVICE_NOT_SUPPORTED", "this use of a MIG instance cannot be profiled",
     "use a libcupti and a driver that support MIG, or a whole GPU"},
    {44, "SLI_DEVICE_NOT_SUPPORTED", "GPUs in SLI cannot be profiled", "switch SLI off"},
    {45, "WSL_DEVICE_NOT_SUPPORTED", "this GPU cannot be profiled under WSL",
     "use a newer driver, or Linux itself"},
    {46, "INVALID_CHIP_NAME", "CUPTI does not know the GPU's chip", "use a newer libcupti"},
    {999, "UNKNOWN", "CUPTI failed without a reason",
     "set NVIDIA's CUPTI log on and capture again; a device that was lost leaves Xid lines in "
     "dmesg"},
}};

}  // namespace

const ResultText* FindResultText(CuptiResult result) {
  for (const ResultText& text : kTexts) {
    if (text.result == result) return &text;
  }
  return nullptr;
}

std::string DriverVersionText(int version) {
  std::string text = std::to_string(version / 1000);
  return text.append(".").append(std::to_string(version % 1000 / 10));
}

std::string FailureText(CuptiResult result, const FailureContext& context) {
  const ResultText* const known = FindResultText(result);
  std::string text(known == nullptr ? "CUPTI failed" : known->text);
  if (result == kCuptiMultipleSubscribers && !context.old_owner.empty()) {
    text.append(" by ").append(context.old_owner);
  }
  if (known != nullptr && !known->remedy.empty()) text.append("; ").append(known->remedy);
  text.append(" (").append(context.call).append(": ").append(std::to_string(result));
  if (known != nullptr) text.append(" ").append(known->name);
  if (context.cupti_version != 0) {
    text.append(", CUPTI ").append(CuptiVersionText(context.cupti_version));
  }
  if (context.driver_version != 0) {
    text.append(", driver for CUDA ").append(DriverVersionText(context.driver_version));
  }
  text.append(", pid ").append(std::to_string(getpid()));
  if (!context.own_message.empty()) text.append(", CUPTI says: ").append(context.own_message);
  return text.append(")");
}

}  // namespace jobscope::cuda
