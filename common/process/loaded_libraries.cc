// SPDX-License-Identifier: Apache-2.0
#include "common/process/loaded_libraries.h"

#include <link.h>

#include "absl/functional/function_ref.h"
#include "common/process/fork_pause.h"

namespace jobscope {
namespace {

// Calls `visit` until it returns true.
void VisitLibraries(absl::FunctionRef<bool(const dl_phdr_info&)> visit) {
  const auto call = [](dl_phdr_info* info, size_t, void* to) {
    return (*static_cast<decltype(visit)*>(to))(*info) ? 1 : 0;
  };
  WhileNobodyForks([&] { dl_iterate_phdr(call, &visit); });
}

// Returns an empty path for the entries without a file of their own: the program, and what the
// kernel maps.
std::string_view PathOf(const dl_phdr_info& info) {
  const std::string_view path = info.dlpi_name == nullptr ? "" : info.dlpi_name;
  return path.find('/') == std::string_view::npos ? std::string_view() : path;
}

}  // namespace

std::string FindLoadedLibrary(std::string_view prefix) {
  std::string found;
  VisitLibraries([&](const dl_phdr_info& info) {
    const std::string_view path = PathOf(info);
    if (FileNameOf(path).substr(0, prefix.size()) != prefix) return false;
    found = std::string(path);
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

std::string_view FileNameOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace jobscope
