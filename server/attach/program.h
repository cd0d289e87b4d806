// SPDX-License-Identifier: Apache-2.0
//
// Classifies the current process: a training program, or one of the many others that inherit its
// environment. Uses only the C library.
#ifndef SERVER_ATTACH_PROGRAM_H_
#define SERVER_ATTACH_PROGRAM_H_

namespace jobscope::attach {

struct Program {
  char executable[256];  // base name of the running file: "python3.11"
  char called_as[256];   // base name of argv[0]: "python"
  // For a Python interpreter: the script's base name ("train.py") or the module's name
  // ("torch.distributed.run"); "" for code on the command line, and for other programs.
  char script[256];
  // A process that a library keeps beside the training process: multiprocessing's resource tracker
  // and fork server, PyTorch's compile workers.
  bool helper;
};

// `executable_path`: the target of /proc/self/exe. Both may be absent (null, 0).
Program DescribeProgram(const char* executable_path, int argc, const char* const* argv);

enum class AttachDecision {
  kWanted,
  kTool,      // a shell, a compiler, a command: see the list in program.cc
  kLauncher,  // starts the training processes: torchrun, accelerate, mpirun, ...
  kHelper,
  kNotListed,  // not among the names that the user gave
};

// Decides whether to attach. `wanted` names the programs to attach to (JOBSCOPE_PROGRAMS):
// comma-separated fnmatch patterns, "python*,train"; "!pattern" excludes programs. A program is
// wanted if a pattern matches its executable, its argv[0] or its script. With null, "" or only "!"
// patterns, all but tools and launchers are wanted. Helpers are never wanted; a launcher that is a
// Python script only if its script is named.
AttachDecision DecideAttach(const Program& program, const char* wanted);

// Returns the reason as text: "is a shell, a compiler or another tool", ...
const char* Reason(AttachDecision decision);

}  // namespace jobscope::attach

#endif  // SERVER_ATTACH_PROGRAM_H_
