// SPDX-License-Identifier: Apache-2.0
#include "server/attach/program.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace jobscope::attach {
namespace {

Program Described(const char* executable, std::initializer_list<const char*> arguments) {
  std::vector<const char*> argv(arguments);
  argv.push_back(nullptr);
  return DescribeProgram(executable, static_cast<int>(arguments.size()), argv.data());
}

AttachDecision Decided(const char* executable, std::initializer_list<const char*> arguments,
                       const char* wanted = nullptr) {
  return DecideAttach(Described(executable, arguments), wanted);
}

constexpr char kPython[] = "/usr/bin/python3.11";

TEST(ProgramTest, NamesOfAProgram) {
  const Program program = Described("/opt/job/train-1.2", {"train", "--steps=3"});
  EXPECT_STREQ(program.executable, "train-1.2");
  EXPECT_STREQ(program.called_as, "train");
  EXPECT_STREQ(program.script, "");
}

TEST(ProgramTest, ScriptOfAPython) {
  EXPECT_STREQ(Described(kPython, {"python", "/job/train.py", "-m", "x"}).script, "train.py");
  EXPECT_STREQ(Described(kPython, {"python", "-u", "-W", "ignore", "train.py"}).script, "train.py");
  EXPECT_STREQ(Described(kPython, {"python", "-Wignore", "-Xdev", "train.py"}).script, "train.py");
  EXPECT_STREQ(Described(kPython, {"python", "-uX", "dev", "train.py"}).script, "train.py");
  EXPECT_STREQ(
      Described(kPython, {"python", "--check-hash-based-pycs", "never", "train.py"}).script,
      "train.py");
  EXPECT_STREQ(Described(kPython, {"python", "-m", "torch.distributed.run", "train.py"}).script,
               "torch.distributed.run");
  EXPECT_STREQ(Described(kPython, {"python", "-um", "job.train"}).script, "job.train");
  EXPECT_STREQ(Described(kPython, {"python", "-mjob.train"}).script, "job.train");
  EXPECT_STREQ(Described(kPython, {"python", "-c", "pass", "train.py"}).script, "");
  EXPECT_STREQ(Described(kPython, {"python", "-", "train.py"}).script, "");
  EXPECT_STREQ(Described(kPython, {"python"}).script, "");
}

TEST(ProgramTest, ArgumentsThatEndTooEarly) {
  EXPECT_STREQ(Described(kPython, {"python", "-m"}).script, "");
  EXPECT_STREQ(Described(kPython, {"python", "-X"}).script, "");
  EXPECT_STREQ(Described(kPython, {}).script, "");
  EXPECT_STREQ(DescribeProgram(nullptr, 0, nullptr).executable, "");
  EXPECT_EQ(DecideAttach(DescribeProgram(nullptr, 0, nullptr), nullptr), AttachDecision::kWanted);
}

TEST(ProgramTest, LongNamesAreCut) {
  const std::string name(1000, 'x');
  EXPECT_EQ(std::string(Described(name.c_str(), {name.c_str()}).executable), name.substr(0, 255));
}

TEST(ProgramTest, TrainingProgramsAreWanted) {
  EXPECT_EQ(Decided(kPython, {"python3", "train.py"}), AttachDecision::kWanted);
  EXPECT_EQ(Decided("/opt/train_loop", {"./train_loop"}), AttachDecision::kWanted);
  // Names that begin like those of tools.
  for (const char* name : {"pipeline", "cpp_train", "makemore", "nccl_tests", "perf_model",
                           "python3-dbg", "conda_train", "testbed", "catboost", "shampoo",
                           "ch-en-translate", "phoenix", "nixtla_train", "runc_bench", "crunch"}) {
    EXPECT_EQ(Decided(name, {name}), AttachDecision::kWanted) << name;
  }
  for (const char* script :
       {"pipeline.py", "deepspeed_train.py", "runner.py", "ray_train.py", "wandb_sweep.py",
        "accelerate_demo.py", "torchrun.py", "poetry.py", "hatch.py"}) {
    EXPECT_EQ(Decided(kPython, {"python", script}), AttachDecision::kWanted) << script;
  }
}

TEST(ProgramTest, ToolsAreNot) {
  for (const char* name : {"/bin/sh",
                           "/usr/bin/dash",
                           "/bin/bash",
                           "/usr/bin/env",
                           "/usr/bin/make",
                           "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus",
                           "/usr/bin/x86_64-linux-gnu-g++-12",
                           "/usr/bin/ptxas",
                           "/usr/bin/git",
                           "/usr/bin/ssh",
                           "/usr/bin/nvidia-smi",
                           "/usr/bin/true",
                           "/usr/bin/[",
                           "/opt/bin/jobscope",
                           "/usr/bin/perl",
                           "/usr/bin/buildah",
                           "/usr/local/bin/ch-run",
                           "/usr/bin/crun",
                           "/sbin/minijail0",
                           "/nix/store/x/bin/nix",
                           "/usr/bin/nix-user-chroot",
                           "/usr/bin/rootlesskit",
                           "/usr/bin/runc"}) {
    EXPECT_EQ(Decided(name, {name}), AttachDecision::kTool) << name;
  }
  // One file under many names.
  EXPECT_EQ(Decided("/usr/bin/coreutils", {"/usr/bin/sleep", "1"}), AttachDecision::kTool);
}

TEST(ProgramTest, LaunchersAreNot) {
  EXPECT_EQ(Decided(kPython, {"python", "/usr/local/bin/torchrun", "train.py"}),
            AttachDecision::kLauncher);
  EXPECT_EQ(Decided(kPython, {"python", "-m", "torch.distributed.run", "train.py"}),
            AttachDecision::kLauncher);
  EXPECT_EQ(Decided(kPython, {"python", "/opt/bin/accelerate", "launch", "train.py"}),
            AttachDecision::kLauncher);
  EXPECT_EQ(Decided(kPython, {"python", "-m", "deepspeed.launcher.launch"}),
            AttachDecision::kLauncher);
  EXPECT_EQ(Decided(kPython, {"python", "/usr/bin/pipenv", "run", "torchrun"}),
            AttachDecision::kLauncher);
  EXPECT_EQ(Decided("/usr/bin/mpirun.openmpi", {"mpirun"}), AttachDecision::kLauncher);
  EXPECT_EQ(Decided("/usr/bin/srun", {"srun"}), AttachDecision::kLauncher);
}

TEST(ProgramTest, HelpersOfPythonAreNotWhateverIsWanted) {
  const auto helper = [](const char* code) {
    return Decided(kPython, {"python", "-B", "-c", code, "--multiprocessing-fork"}, "python*");
  };
  EXPECT_EQ(helper("from multiprocessing.resource_tracker import main;main(5)"),
            AttachDecision::kHelper);
  EXPECT_EQ(helper("from multiprocessing.forkserver import main; main(4, 7, [], **{})"),
            AttachDecision::kHelper);
  EXPECT_EQ(helper("from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)"),
            AttachDecision::kWanted);
  EXPECT_EQ(
      Decided(kPython, {"python", "/x/torch/_inductor/compile_worker/__main__.py", "--pickler"}),
      AttachDecision::kHelper);
}

TEST(ProgramTest, ListOfPrograms) {
  EXPECT_EQ(Decided("/opt/train", {"train"}, "train"), AttachDecision::kWanted);
  EXPECT_EQ(Decided("/opt/train", {"train"}, "eval, tr*n ,"), AttachDecision::kWanted);
  EXPECT_EQ(Decided("/opt/train-1.2", {"train"}, "train"), AttachDecision::kWanted);  // by argv[0]
  EXPECT_EQ(Decided("/opt/eval", {"eval"}, "train"), AttachDecision::kNotListed);
  EXPECT_EQ(Decided("/bin/bash", {"bash"}, "bash"),
            AttachDecision::kWanted);  // a shell, if it is named
  EXPECT_EQ(Decided(kPython, {"python", "job/train.py"}, "train.py"), AttachDecision::kWanted);
  EXPECT_EQ(Decided(kPython, {"python", "job/eval.py"}, "train.py"), AttachDecision::kNotListed);
  EXPECT_EQ(Decided("/opt/train", {"train"}, ""), AttachDecision::kWanted);
  EXPECT_EQ(Decided("/opt/train", {"train"}, " , "), AttachDecision::kWanted);
}

TEST(ProgramTest, ALauncherMustBeNamedByItsScript) {
  EXPECT_EQ(Decided(kPython, {"python", "/bin/torchrun"}, "python*"), AttachDecision::kLauncher);
  EXPECT_EQ(Decided(kPython, {"python", "/bin/torchrun"}, "torchrun"), AttachDecision::kWanted);
}

TEST(ProgramTest, TakenOut) {
  EXPECT_EQ(Decided(kPython, {"python", "launch.py"}, "!launch.py"), AttachDecision::kNotListed);
  EXPECT_EQ(Decided(kPython, {"python", "train.py"}, "!launch.py"), AttachDecision::kWanted);
  EXPECT_EQ(Decided("/bin/sh", {"sh"}, "!launch.py"), AttachDecision::kTool);
  EXPECT_EQ(Decided(kPython, {"python", "launch.py"}, "python*,!launch.py"),
            AttachDecision::kNotListed);
}

}  // namespace
}  // namespace jobscope::attach
