// SPDX-License-Identifier: Apache-2.0
#include "server/process/recorder_loader.h"

#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope {
namespace {

constexpr char kSoname[] = JOBSCOPE_TRACE_SONAME;

// Path of the recorder beside the file that contains this code; empty if unknown.
std::string PathBesideUs() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&LoadRecorder), &info) == 0 ||
      info.dli_fname == nullptr) {
    return {};
  }
  const std::string ours(info.dli_fname);
  const size_t slash = ours.rfind('/');
  return slash == std::string::npos ? std::string() : ours.substr(0, slash + 1) + kSoname;
}

void* OpenRecorder() {
  if (void* loaded = dlopen(kSoname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return loaded;
  if (const std::string path = PathBesideUs(); !path.empty()) {
    if (void* beside = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return beside;
  }
  return dlopen(kSoname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

template <typename Table>
absl::StatusOr<const Table*> LoadTable(const char* entry_name) {
  void* const library = OpenRecorder();
  if (library == nullptr) {
    const char* const reason = dlerror();
    return absl::NotFoundError(absl::StrCat(kSoname, " cannot be loaded (",
                                            reason == nullptr ? "no reason given" : reason,
                                            "): install it beside the server's library"));
  }
  using Entry = const Table* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, entry_name));
  if (entry == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(kSoname, " has no ", entry_name, ": it is not jobscope's recorder"));
  }
  const Table* const table = entry();
  if (table->size < sizeof(Table)) {
    return absl::FailedPreconditionError(
        absl::StrCat(kSoname, " is older than the server's library (its table has ", table->size,
                     " bytes, not ", sizeof(Table), "): install both of one version"));
  }
  return table;
}

}  // namespace

absl::StatusOr<const RecorderTable*> LoadRecorder() {
  return LoadTable<RecorderTable>("jobscope_trace_reader");
}

absl::StatusOr<const WriterTable*> LoadWriter() {
  return LoadTable<WriterTable>("jobscope_trace_writer");
}

}  // namespace jobscope
