// SPDX-License-Identifier: Apache-2.0
#include "client/cli/run/run_verb.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/base/exit_code.h"
#include "client/cli/run/run_watch.h"
#include "common/arguments/parse_arguments.h"

namespace jobscope {
namespace {

constexpr char kAttachLibrary[] = "libjobscope_attach.so";
constexpr char kServerLibrary[] = "libjobscope.so";
constexpr char kUsage[] = "jobscope run [flags] -- PROGRAM [ARGUMENT...]";
// The exit codes of shells.
constexpr int kExitCannotRun = 126;
constexpr int kExitNotFound = 127;

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string Folder(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? std::string() : resolved;
}

std::string FromEnvironment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

void Fail(const std::string& what) {
  fputs(absl::StrCat("jobscope run: ", what, "\n").c_str(), stderr);
}

// The directory for the workers' addresses, as an absolute path.
struct PortDirectory {
  std::string path;
  bool ours = false;  // created by us: to be removed
};

absl::StatusOr<PortDirectory> ChoosePortDirectory(const std::string& given) {
  const std::string wanted = given.empty() ? FromEnvironment("JOBSCOPE_PORT_DIR", "") : given;
  if (!wanted.empty()) {
    const std::string path = RealPath(wanted);
    struct stat info;
    if (path.empty() || stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the port directory ", wanted, " does not exist; create it first"));
    }
    return PortDirectory{path, /*ours=*/false};
  }
  std::string made = absl::StrCat(FromEnvironment("TMPDIR", "/tmp"), "/jobscope-run-XXXXXX");
  if (mkdtemp(made.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot create the port directory ", made, ": ",
                                               strerror(errno), "; name one with --port_dir"));
  }
  return PortDirectory{RealPath(made), /*ours=*/true};
}

void SetEnvironment(const RunFlags& flags, const std::string& library,
                    const std::string& port_directory) {
  const std::string listen =
      flags.listen.empty() ? FromEnvironment("JOBSCOPE_LISTEN", "127.0.0.1:0") : flags.listen;
  setenv("JOBSCOPE_LISTEN", listen.c_str(), 1);
  setenv("JOBSCOPE_PORT_DIR", port_directory.c_str(), 1);
  // Appended last: an allocator or a sanitizer's runtime may have to be first.
  const std::string others = FromEnvironment("LD_PRELOAD", "");
  const std::string preload = others.empty() ? library : absl::StrCat(others, ":", library);
  setenv("LD_PRELOAD", preload.c_str(), 1);
}

}  // namespace

RunFlagsResult ParseRunFlags(const std::vector<std::string>& arguments) {
  RunFlagsResult result;
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  CLI::App app(absl::StrCat(kUsage,
                            "\nRuns a program whose training processes become workers, "
                            "without a change to it."),
               "jobscope run");
  app.add_option(
      "--listen", result.flags.listen,
      "address on which each process listens, host:port; +rank adds the local rank to the "
      "port. Default: JOBSCOPE_LISTEN, else 127.0.0.1:0, a free port for each");
  app.add_option("--port_dir", result.flags.port_dir,
                 "directory into which each worker writes its address. Default: JOBSCOPE_PORT_DIR, "
                 "else a temporary directory that is removed when the program ends");
  app.add_option("--attach_library", result.flags.attach_library,
                 "libjobscope_attach.so; default: searched for from this program's directory");
  app.add_flag("--quiet", result.flags.quiet, "print nothing about the workers");
  app.footer(
      "The exit code is the program's. docs/attach.md explains which processes become workers.");
  try {
    ParseArguments(&app, {arguments.begin(), separator});
  } catch (const CLI::CallForHelp&) {
    result.text = absl::StrCat(app.help(), "\n");
    return result;
  } catch (const CLI::ParseError& error) {
    result.text = absl::StrCat("jobscope run: ", error.what(), "; ", kUsage, "\n");
    result.exit_code = kExitUsage;
    return result;
  }
  if (separator != arguments.end()) {
    result.flags.command.assign(separator + 1, arguments.end());
  }
  if (result.flags.command.empty()) {
    result.text = absl::StrCat("jobscope run: no program; ", kUsage, "\n");
    result.exit_code = kExitUsage;
    return result;
  }
  result.run = true;
  return result;
}

absl::StatusOr<std::string> FindAttachLibrary(const std::string& given, const std::string& folder) {
  std::string found;
  if (!given.empty()) {
    found = RealPath(given);
    if (found.empty() || !IsFile(found)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--attach_library=", given, " does not exist"));
    }
    if (!IsFile(absl::StrCat(Folder(found), "/", kServerLibrary))) {
      return absl::InvalidArgumentError(absl::StrCat("there is no ", kServerLibrary, " beside ",
                                                     found,
                                                     ", and it loads that one; copy it there"));
    }
  } else {
    for (const char* place : {"", "/../shipped", "/../lib", "/../lib64", "/../lib/x86_64-linux-gnu",
                              "/../lib/aarch64-linux-gnu"}) {
      const std::string candidate = absl::StrCat(folder, place, "/");
      if (!IsFile(candidate + kAttachLibrary) || !IsFile(candidate + kServerLibrary)) continue;
      found = RealPath(candidate + kAttachLibrary);
      break;
    }
    if (found.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no ", kAttachLibrary, " with ", kServerLibrary, " in ", folder,
                       " or in ../lib; name it with --attach_library"));
    }
  }
  if (found.find_first_of(" \t:") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("LD_PRELOAD cannot hold \"", found,
                     "\": spaces and colons separate its entries; copy the libraries elsewhere"));
  }
  return found;
}

int RunProgram(const RunFlags& flags) {
  const auto library = FindAttachLibrary(flags.attach_library, Folder(RealPath("/proc/self/exe")));
  if (!library.ok()) {
    Fail(std::string(library.status().message()));
    return kExitUsage;
  }
  const auto directory = ChoosePortDirectory(flags.port_dir);
  if (!directory.ok()) {
    Fail(std::string(directory.status().message()));
    return kExitUsage;
  }
  if (!flags.quiet) {
    fputs(absl::StrCat("jobscope: workers write their addresses to ", directory->path,
                       "; to capture them: capture --service_addr=@", directory->path,
                       " --logdir=DIR\n")
              .c_str(),
          stderr);
  }
  const absl::Status watched =
      StartRunWatch({directory->path, /*remove=*/directory->ours, flags.quiet});
  if (!watched.ok()) {  // the program matters more
    Fail(absl::StrCat(
        watched.message(),
        directory->ours ? absl::StrCat("; remove ", directory->path, " when the program has ended")
                        : ""));
  }
  SetEnvironment(flags, *library, directory->path);

  std::vector<char*> argv;
  std::vector<std::string> command = flags.command;
  argv.reserve(command.size() + 1);
  for (std::string& argument : command) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  Fail(absl::StrCat("cannot run ", command[0], ": ", strerror(error)));
  return error == ENOENT ? kExitNotFound : kExitCannotRun;
}

int RunVerb(const std::vector<std::string>& arguments) {
  const RunFlagsResult parsed = ParseRunFlags({arguments.begin() + 2, arguments.end()});
  if (parsed.run) return RunProgram(parsed.flags);
  fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  return parsed.exit_code;
}

}  // namespace jobscope
