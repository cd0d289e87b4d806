// SPDX-License-Identifier: Apache-2.0
//
// Programmatic captures: a process captures itself into a logdir, without a client or a network.
//
//   jobscope::StartCapture("logdir");
//   ...
//   jobscope::CaptureResult result = jobscope::StopCapture();
//
//   { jobscope::ScopedCapture capture("logdir"); ... }
//
//   jobscope::CaptureSteps("logdir", /*first=*/100, /*last=*/110);
//
// Thread-safe. Does not throw. A process runs at most one capture at a time, including captures by
// clients. StartCapture records and writes the same as a client's capture: <host>_<pid>.xplane.pb
// and capture.json in <logdir>/plugins/profile/<run>/, for the same viewers.
#ifndef JOBSCOPE_CAPTURE_H_
#define JOBSCOPE_CAPTURE_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "jobscope/jobscope_c.h"

namespace jobscope {

struct CaptureOptions {
  int host_tracer_level = 2;    // 0 off, 1 user, 2 notable runtime work, 3 verbose
  int device_tracer_level = 1;  // 0 off, 1 on
  int python_tracer_level = 0;  // 0 off, 1 sampled stacks, 2 calls
  // Memory for the trace, in bytes: 1 MiB to 64 GiB; 0: 256 MiB. Events that exceed it are counted
  // as lost.
  uint64_t max_trace_bytes = 0;
  // Lookback in ms, 0 to 3,600,000: also includes the events of this time before the start that the
  // rings still hold.
  uint64_t lookback_ms = 0;
  // Largest file, in bytes: 64 KiB to 1,900 MiB; 0: 256 MiB. A larger trace is split by time into
  // <run>.part<k>.
  uint64_t part_limit_bytes = 0;
  // The frameworks whose own events are recorded: "auto" (all that the process has loaded), "none",
  // or names, "torch,jax". At most 1,024 bytes.
  std::string frameworks = "auto";
  // Also records the shapes of the inputs of PyTorch's operators.
  bool record_shapes = false;
  // Selects the tracer for GPUs: "auto" (JAX or TensorFlow if they use GPUs without PyTorch,
  // otherwise jobscope), "jobscope" or "framework".
  std::string device_tracer = "auto";
};

// The result of a capture. Convertible to bool: true if the call succeeded.
class CaptureResult {
 public:
  bool ok() const { return error_.empty(); }
  explicit operator bool() const { return ok(); }
  const std::string& error() const { return error_; }  // what failed and what to do; empty if ok()
  const std::string& run_directory() const { return run_directory_; }
  uint64_t events() const { return events_; }  // in the files
  // Number of events that were attempted but are not in the files. UINT64_MAX: unknown, because a
  // collector hung and its last events are missing.
  uint64_t lost() const { return lost_; }

 private:
  friend CaptureResult StartCapture(const std::string&, const CaptureOptions&);
  friend CaptureResult StopCapture();
  friend CaptureResult CaptureSteps(const std::string&, int64_t, int64_t, const CaptureOptions&);

  void SetError(int code, const char* text) {
    if (code != JOBSCOPE_OK) error_ = text[0] != '\0' ? text : "the capture failed";
  }

  std::string error_;
  std::string run_directory_;
  uint64_t events_ = 0;
  uint64_t lost_ = 0;
};

namespace capture_detail {
inline jobscope_capture_options ToC(const CaptureOptions& options) {
  jobscope_capture_options c;
  std::memset(&c, 0, sizeof(c));
  c.size = sizeof(c);
  c.host_tracer_level = options.host_tracer_level;
  c.device_tracer_level = options.device_tracer_level;
  c.python_tracer_level = options.python_tracer_level;
  c.max_trace_bytes = options.max_trace_bytes;
  c.lookback_ms = options.lookback_ms;
  c.part_limit_bytes = options.part_limit_bytes;
  c.frameworks = options.frameworks.c_str();  // owned by the caller's object
  c.record_shapes = options.record_shapes ? 1 : 0;
  c.device_tracer = options.device_tracer.c_str();
  return c;
}
}  // namespace capture_detail

// Starts a capture into `logdir`. Creates and checks `logdir` first. Returns when recording has
// begun: after a few milliseconds, or up to 100 ms in the first 100 ms of a process. If the capture
// still runs when the process calls exit() or returns from main, it is ended and written then,
// which blocks the exit for at most 1 s, or 1.5 s if the file system hangs (2 s if that of
// JOBSCOPE_PORT_DIR also does, with a server). ok() is false, and no capture runs, if the logdir
// cannot be written, an option is out of range, or another capture runs.
inline CaptureResult StartCapture(const std::string& logdir, const CaptureOptions& options = {}) {
  CaptureResult result;
  const jobscope_capture_options c = capture_detail::ToC(options);
  char error[1024] = "";
  result.SetError(jobscope_capture_start(logdir.c_str(), &c, error, sizeof(error)), error);
  return result;
}

// Ends the capture of StartCapture or CaptureSteps. Blocks until its files are on disk. If a step
// window is open, ends it early and marks the trace as truncated. ok() is false if no capture was
// started (error() is then that of the failed start), or if the capture failed.
inline CaptureResult StopCapture() {
  CaptureResult result;
  jobscope_capture_result c;
  std::memset(&c, 0, sizeof(c));
  c.size = sizeof(c);
  char error[1024] = "";
  result.SetError(jobscope_capture_stop(&c, error, sizeof(error)), error);
  result.run_directory_ = c.run_directory;
  result.events_ = c.events;
  result.lost_ = c.lost;
  return result;
}

// Captures whole steps into `logdir`, from the first step (JOBSCOPE_STEP) whose number is >=
// `first` to the end of the first whose number is >= `last`. If step `first` has begun already, it
// captures the same number of later steps, also if their numbers restart. Otherwise, in a program
// that numbers the steps of each epoch from 0, a range that spans the end of an epoch (8 to 12 of
// steps 0 to 9) ends only with StopCapture: continue the numbers through all epochs. Returns when
// the capture is armed; the capture then ends and is written without further calls. StopCapture,
// called at any time, returns its result. ok() is false in the cases of StartCapture, if `last` <
// `first`, if `lookback_ms` is set, because only whole steps are recorded, and if the process
// cannot watch for steps.
inline CaptureResult CaptureSteps(const std::string& logdir, int64_t first, int64_t last,
                                  const CaptureOptions& options = {}) {
  CaptureResult result;
  const jobscope_capture_options c = capture_detail::ToC(options);
  char error[1024] = "";
  result.SetError(jobscope_capture_steps(logdir.c_str(), first, last, &c, error, sizeof(error)),
                  error);
  return result;
}

// Captures a block. Stop() ends the capture and returns the result; a further call returns the same
// result, and after a failed start it returns that error. Without Stop(), the destructor stops the
// capture and discards the result.
class ScopedCapture {
 public:
  explicit ScopedCapture(const std::string& logdir, const CaptureOptions& options = {})
      : started_(StartCapture(logdir, options)), result_(started_), running_(started_.ok()) {}
  ~ScopedCapture() {
    if (running_) StopCapture();
  }
  ScopedCapture(const ScopedCapture&) = delete;
  ScopedCapture& operator=(const ScopedCapture&) = delete;

  const CaptureResult& started() const { return started_; }
  CaptureResult Stop() {
    if (running_) result_ = StopCapture();
    running_ = false;
    return result_;
  }

 private:
  CaptureResult started_;
  CaptureResult result_;
  bool running_;
};

}  // namespace jobscope

#endif  // JOBSCOPE_CAPTURE_H_
