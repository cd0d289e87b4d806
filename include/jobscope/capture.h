// SPDX-License-Identifier: Apache-2.0
//
// Programmatic captures: this process captures itself into a logdir, without a client and without a
// network.
//
//   jobscope::StartCapture("logdir");
//   ...
//   jobscope::CaptureResult result = jobscope::StopCapture();
//
//   { jobscope::ScopedCapture capture("logdir"); ... }
//
//   jobscope::CaptureSteps("logdir", /*first=*/100, /*last=*/110);
//
// One capture at a time per process, whoever asked for it. Nothing here throws. All functions may
// be called from any thread. What StartCapture records is what a client's capture would: the same
// session, and the same files in <logdir>/plugins/profile/<run>/, <host>_<pid>.xplane.pb and
// capture.json, to be opened in the same viewers.
#ifndef JOBSCOPE_CAPTURE_H_
#define JOBSCOPE_CAPTURE_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "jobscope/jobscope_c.h"

namespace jobscope {

struct CaptureOptions {
  int host_tracer_level = 2;    // 0..3
  int device_tracer_level = 1;  // 0..1
  int python_tracer_level = 0;  // 0..2
  // Held in memory, 1 MiB..64 GiB; 0: 256 MiB. Over it, events are lost and counted.
  uint64_t max_trace_bytes = 0;
  // Events from before the start that the rings still hold, up to an hour.
  uint64_t lookback_ms = 0;
  // 64 KiB..1.9 GiB; 0: 256 MiB. A larger trace is cut by time into <run>.part<k>.
  uint64_t part_limit_bytes = 0;
  // Whose own events: "auto", "none", or names, "torch,jax".
  std::string frameworks = "auto";
  // Of the inputs of PyTorch's operators.
  bool record_shapes = false;
  // Who traces GPUs: "auto" (JAX or TensorFlow where they use GPUs without PyTorch, else jobscope),
  // "jobscope", "framework".
  std::string device_tracer = "auto";
};

// What became of a capture. Convertible to bool: it is on disk.
class CaptureResult {
 public:
  bool ok() const { return error_.empty(); }
  explicit operator bool() const { return ok(); }
  const std::string& error() const { return error_; }  // says what to do
  const std::string& run_directory() const { return run_directory_; }
  uint64_t events() const { return events_; }  // in the files
  // Attempted, and not in the files; UINT64_MAX: not known, because a collector hung, and the end
  // of its events is missing.
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
  c.frameworks = options.frameworks.c_str();  // of the caller's object
  c.record_shapes = options.record_shapes ? 1 : 0;
  c.device_tracer = options.device_tracer.c_str();
  return c;
}
}  // namespace capture_detail

// Begins to record. The logdir is made and checked first; recording has begun when this returns (a
// few milliseconds; up to 100 ms in the first 100 ms of a process). A capture that still runs when
// the process exits, by exit() or return from main, is ended then, and written for at most 1 s.
// ok() is false, and nothing runs, when the logdir cannot be written, an option is out of range, or
// another capture runs.
inline CaptureResult StartCapture(const std::string& logdir, const CaptureOptions& options = {}) {
  CaptureResult result;
  const jobscope_capture_options c = capture_detail::ToC(options);
  char error[1024] = "";
  result.SetError(jobscope_capture_start(logdir.c_str(), &c, error, sizeof(error)), error);
  return result;
}

// Ends the capture of StartCapture or CaptureSteps, and blocks until its files are on disk. A step
// window that is still open is ended early: its trace is then marked truncated.
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

// Captures whole steps, from the first step (JOBSCOPE_STEP) whose number is >= first to the end of
// the first whose number is >= last. Returns once armed; the capture ends and is written by itself.
// StopCapture, called any time, tells how it went.
inline CaptureResult CaptureSteps(const std::string& logdir, int64_t first, int64_t last,
                                  const CaptureOptions& options = {}) {
  CaptureResult result;
  const jobscope_capture_options c = capture_detail::ToC(options);
  char error[1024] = "";
  result.SetError(jobscope_capture_steps(logdir.c_str(), first, last, &c, error, sizeof(error)),
                  error);
  return result;
}

// Captures a block. Look at result() of Stop(), or let the destructor stop and drop it.
class ScopedCapture {
 public:
  explicit ScopedCapture(const std::string& logdir, const CaptureOptions& options = {})
      : started_(StartCapture(logdir, options)), running_(started_.ok()) {}
  ~ScopedCapture() {
    if (running_) StopCapture();
  }
  ScopedCapture(const ScopedCapture&) = delete;
  ScopedCapture& operator=(const ScopedCapture&) = delete;

  const CaptureResult& started() const { return started_; }
  CaptureResult Stop() {
    running_ = false;
    return StopCapture();
  }

 private:
  CaptureResult started_;
  bool running_;
};

}  // namespace jobscope

#endif  // JOBSCOPE_CAPTURE_H_
