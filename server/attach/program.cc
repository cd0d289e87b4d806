// SPDX-License-Identifier: Apache-2.0
#include "server/attach/program.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

namespace jobscope::attach {
namespace {

// Programs found around training jobs that run for long or start others, but do not train.
// Short-lived programs need not be listed: the thread that starts the server waits longer than they
// run (attach.cc).
constexpr char kTools[] =
    // shells, and commands that start, watch or outlive others
    "sh,ash,bash,rbash,dash,busybox,csh,fish,ksh*,mksh,tcsh,zsh,env,chroot,chrt,bwrap,dumb-init,"
    "expect,flock,gosu,ionice,nice,nohup,nsenter,numactl,parallel,runuser,s6-*,screen,script,"
    "setpriv,setsid,stdbuf,su,su-exec,sudo,taskset,tee,time,timeout,tini,tmux*,unbuffer,unshare,"
    "watch,xargs,"
    // coreutils and their neighbours
    "[,awk,base64,basename,bzip2,cat,chgrp,chmod,chown,cmp,comm,cp,cut,date,dd,df,diff,diff3,"
    "dirname,du,echo,egrep,expr,false,fgrep,file,find,free,gawk,getconf,getent,grep,gzip,head,"
    "hostname,htop,id,install,ip,kill,killall,less,ln,locale,ls,lsb_release,lsblk,lscpu,lsof,lspci,"
    "mawk,md5sum,mkdir,mkfifo,mktemp,more,mount,mv,nproc,openssl,patch,pgrep,pidof,pkill,printenv,"
    "printf,ps,pwd,readlink,realpath,rm,rmdir,sed,seq,sha*sum,shuf,sleep,sort,split,stat,stty,sync,"
    "sysctl,tail,tar,test,top,touch,tr,true,tty,umount,uname,uniq,unzip,uptime,wc,which,which.*,"
    "whoami,xz,yes,zip,zstd,"
    // compilers and build tools
    "addr2line,ar,as,bazel*,c++,c++-*,c++filt,c89,c99,cargo,cc,cc1*,ccache,cicc,clang,clang-*,"
    "clang++*,cmake,collect2,cpack,cpp,cpp-*,ctest,cudafe++,cuobjdump,distcc,fatbinary,g++,g++-*,"
    "gcc,gcc-*,gmake,hipcc,ld,ld.*,ldconfig*,ldd,lld,lld-*,llvm-*,lto1,lto-wrapper,m4,make,meson,"
    "ninja,nm,nvcc,nvdisasm,nvlink,objcopy,objdump,perl,perl5*,pkg-config,pkgconf,ptxas,ranlib,"
    "readelf,rustc,sccache,strip,tclsh*,*-linux-gnu-*,"
    // debuggers and profilers
    "capture,compute-sanitizer,cuda-gdb*,gdb*,jobscope,lldb*,ltrace,ncu*,nsys*,perf,strace,"
    "valgrind*,"
    // GPUs, network, other machines
    "curl,dcgm*,git*,ibstat*,ibv_*,nc,nc.*,ncat,netstat,nvidia-*,nvtop,ping,redis-*,rocm-smi,"
    "rocminfo,rsync,scp,sftp*,ss,ssh*,wget,"
    // containers and package managers; some create a user namespace, which the kernel refuses to a
    // process with a second thread
    "apptainer*,apt,apt-*,buildah*,ch-checkns,ch-run,ch-ssh,conda,conmon,crun,docker*,dpkg*,"
    "enroot*,firejail,mamba,micromamba,minijail0,nix,nix-*,nsjail,pip,pip3*,podman*,proot,"
    "rootlesskit,runc,singularity*,uv";

// These start the training processes and wait for them, and would take the port of the first.
constexpr char kLauncherPrograms[] =
    "hydra_*,mpiexec*,mpirun*,orted,orterun,pmi_proxy,prted,prterun,prun,raylet,salloc,sbatch,"
    "slurmd,slurmstepd,srun";
// Launchers and tools that are Python scripts or modules.
constexpr char kLauncherScripts[] =
    "accelerate,accelerate-launch,accelerate.commands.*,colossalai,composer,deepspeed,"
    "deepspeed.launcher.*,horovod.runner*,horovodrun,ray,torch.distributed.elastic*,"
    "torch.distributed.launch,torch.distributed.run,torchrun,"
    "cmake,conda,gpustat,hatch,ipcluster,jupyter,jupyter-*,meson,mlflow,ninja,nvitop,pdm,pip,pip3*,"
    "pipenv,poetry,supervisord,tensorboard,tensorboard.main,wandb,xprof";

constexpr size_t kMaxPatternBytes = 255;

// Copies the next comma-separated pattern, without the spaces around it; returns null if there is
// none.
const char* NextPattern(const char* list, char (&pattern)[kMaxPatternBytes + 1]) {
  if (list == nullptr || *list == '\0') return nullptr;
  const char* const next = list + strcspn(list, ",");
  const char* end = next;
  while (list < end && *list == ' ') ++list;
  while (list < end && end[-1] == ' ') --end;
  // A longer one cannot match a name, which is cut at the same length.
  const size_t length = static_cast<size_t>(end - list);
  const size_t kept = length <= kMaxPatternBytes ? length : 0;
  memcpy(pattern, list, kept);
  pattern[kept] = '\0';
  return *next == ',' ? next + 1 : next;
}

bool MatchesAny(const char* patterns, const char* name) {
  char pattern[kMaxPatternBytes + 1];
  if (name[0] == '\0') return false;
  while ((patterns = NextPattern(patterns, pattern)) != nullptr) {
    if (fnmatch(pattern, name, 0) == 0) return true;
  }
  return false;
}

template <size_t kSize>
void CopyText(const char* text, char (&to)[kSize]) {
  const size_t length = strnlen(text, kSize - 1);
  memcpy(to, text, length);
  to[length] = '\0';
}

const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool IsPython(const char* name) {
  return fnmatch("python*", name, 0) == 0 || fnmatch("pypy*", name, 0) == 0;
}

void JudgeCode(const char* code, Program* program) {
  program->helper = strstr(code, "resource_tracker import main") != nullptr ||
                    strstr(code, "forkserver import main") != nullptr;
}

void JudgeScript(const char* path, Program* program) {
  CopyText(BaseName(path), program->script);
  program->helper = strstr(path, "torch/_inductor/compile_worker") != nullptr;
}

// Determines what `python [options] (-c code | -m module | script | -) ...` runs. Options may be
// combined, "-Bc", and -W and -X take a value.
void ReadPythonArguments(int argc, const char* const* argv, Program* program) {
  for (int i = 1; i < argc && argv[i] != nullptr; ++i) {
    const char* argument = argv[i];
    if (argument[0] != '-') return JudgeScript(argument, program);
    if (argument[1] == '\0') return;  // "-": from standard input
    if (strcmp(argument, "--check-hash-based-pycs") == 0) {
      ++i;
      continue;
    }
    if (argument[1] == '-') continue;
    for (const char* option = argument + 1; *option != '\0'; ++option) {
      if (strchr("cmWX", *option) == nullptr) continue;
      const char* value = option[1] != '\0' ? option + 1 : i + 1 < argc ? argv[++i] : "";
      if (*option == 'c') return JudgeCode(value, program);
      if (*option == 'm') return CopyText(value, program->script);
      break;
    }
  }
}

bool MatchesName(const Program& program, const char* pattern) {
  return fnmatch(pattern, program.executable, 0) == 0 ||
         fnmatch(pattern, program.called_as, 0) == 0 ||
         (program.script[0] != '\0' && fnmatch(pattern, program.script, 0) == 0);
}

struct Choice {
  bool any_wanted = false;     // the list names wanted programs
  bool wanted = false;         // and this is one
  bool script_wanted = false;  // by its script
  bool taken_out = false;
};

Choice Choose(const Program& program, const char* list) {
  Choice choice;
  char pattern[kMaxPatternBytes + 1];
  while ((list = NextPattern(list, pattern)) != nullptr) {
    if (pattern[0] == '\0') continue;
    if (pattern[0] == '!') {
      choice.taken_out |= MatchesName(program, pattern + 1);
      continue;
    }
    choice.any_wanted = true;
    choice.wanted |= MatchesName(program, pattern);
    choice.script_wanted |= program.script[0] != '\0' && fnmatch(pattern, program.script, 0) == 0;
  }
  return choice;
}

}  // namespace

Program DescribeProgram(const char* executable_path, int argc, const char* const* argv) {
  Program program = {};
  if (executable_path != nullptr) CopyText(BaseName(executable_path), program.executable);
  if (argc < 1 || argv == nullptr || argv[0] == nullptr) return program;
  CopyText(BaseName(argv[0]), program.called_as);
  if (IsPython(program.executable)) ReadPythonArguments(argc, argv, &program);
  return program;
}

AttachDecision DecideAttach(const Program& program, const char* wanted) {
  if (program.helper) return AttachDecision::kHelper;
  const Choice choice = Choose(program, wanted);
  if (choice.taken_out) return AttachDecision::kNotListed;
  if (choice.script_wanted) return AttachDecision::kWanted;
  if (choice.any_wanted && !choice.wanted) return AttachDecision::kNotListed;
  if (MatchesAny(kLauncherScripts, program.script)) return AttachDecision::kLauncher;
  if (choice.any_wanted) return AttachDecision::kWanted;
  const auto is = [&program](const char* patterns) {
    return MatchesAny(patterns, program.executable) || MatchesAny(patterns, program.called_as);
  };
  if (is(kLauncherPrograms)) return AttachDecision::kLauncher;
  if (is(kTools)) return AttachDecision::kTool;
  return AttachDecision::kWanted;
}

const char* Reason(AttachDecision decision) {
  switch (decision) {
    case AttachDecision::kWanted:
      return "is wanted";
    case AttachDecision::kTool:
      return "is a shell, a compiler or another tool; JOBSCOPE_PROGRAMS can name it";
    case AttachDecision::kLauncher:
      return "starts or watches training processes and does not train; JOBSCOPE_PROGRAMS can name "
             "it";
    case AttachDecision::kHelper:
      return "is a helper process of a Python library";
    case AttachDecision::kNotListed:
      return "is not among the programs of JOBSCOPE_PROGRAMS";
  }
  return "";
}

}  // namespace jobscope::attach
