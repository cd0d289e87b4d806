// SPDX-License-Identifier: Apache-2.0
#include "common/process/loaded_libraries.h"

#include <link.h>

#include <mutex>

#include "absl/functional/function_ref.h"
#include "common/process/fork_pause.h"

namespace jobscope {
namespace {

using Visitor = absl::FunctionRef<bool(const dl_phdr_info&)>;

// Calls `visit` until it returns true. The caller pauses forks.
void VisitPaused(Visitor visit) {
  const auto call = [](dl_phdr_info* info, size_t, void* to) {
    return (*static_cast<Visitor*>(to))(*info) ? 1 : 0;
  };
  dl_iterate_phdr(call, &visit);
}

void VisitLibraries(Visitor visit) {
  WhileNobodyForks([&] { VisitPaused(visit); });
}

// Returns an empty path for the entries without a file of their own: the program, and what the
// kernel maps.
std::string_view PathOf(const dl_phdr_info& info) {
  const std::string_view path = info.dlpi_name == nullptr ? "" : info.dlpi_name;
  return path.find('/') == std::string_view::npos ? std::string_view() : path;
}

bool HasName(const dl_phdr_info& info, std::string_view prefix) {
  return FileNameOf(PathOf(info)).substr(0, prefix.size()) == prefix;
}

}  // namespace

std::string FindLoadedLibrary(std::string_view prefix) {
  std::string found;
  VisitLibraries([&](const dl_phdr_info& info) {
    if (!HasName(info, prefix)) return false;
    found = std::string(PathOf(info));
    return true;
  });
  return found;
}

std::vector<std::string> LoadedLibraries() {
  std::vector<std::string> paths;
  VisitLibraries([&](const dl_phdr_info& info) {
    const std::string_view path = PathOf(info);
    if (!path.empty()) paths.emplace_back(path);
    return false;
  });
  return paths;
}

uint64_t LibraryLoads() {
  uint64_t loads = 0;
  VisitLibraries([&](const dl_phdr_info& info) {
    loads = info.dlpi_adds;
    return true;
  });
  return loads;
}

bool LibraryPresence::IsLoaded() {
  const bool loaded = !FindLoadedLibrary(prefix_).empty();
  loaded_ = loaded;
  return loaded;
}

bool LibraryPresence::IsKnownLoaded() {
  const ForkPause pause(std::try_to_lock);
  if (!pause.held()) return loaded_;
  bool loaded = false;
  VisitPaused([&](const dl_phdr_info& info) { return loaded = HasName(info, prefix_); });
  loaded_ = loaded;
  return loaded;
}

std::string_view FileNameOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace jobscope
