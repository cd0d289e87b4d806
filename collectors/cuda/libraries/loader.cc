// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/libraries/loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/process/loaded_libraries.h"
#include "common/process/own_environment.h"
#include "common/sync/mutex.h"

namespace jobscope::cuda {
namespace {

constexpr std::string_view kPrefix = "libcupti.so";
constexpr int kOldestMajor = 11;
constexpr int kNewestMajor = 13;
// Newest minor release of CUDA 11; libcupti.so.11 has it in its file name.
constexpr int kNewest11 = 8;

std::string FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? "." : path.substr(0, slash));
}

// Returns the major version of "libcupti.so.12", "libcupti.so.2025.3.1" or "libcupti.so.11.8"; 0:
// the name does not contain it.
int MajorOf(std::string_view path) {
  std::string_view name = FileNameOf(path);
  if (name.size() <= kPrefix.size() + 1) return 0;
  const int major = std::atoi(std::string(name.substr(kPrefix.size() + 1)).c_str());
  return major >= kOldestMajor && major <= 99 ? major : 0;
}

// Returns all libcupti.so* of a folder, later majors first, without debug copies.
std::vector<std::string> LibrariesIn(const std::string& folder) {
  std::vector<std::string> paths;
  DIR* const directory = opendir(folder.c_str());
  if (directory == nullptr) return paths;
  const absl::Cleanup close_directory = [directory] { closedir(directory); };
  while (const dirent* const entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name.substr(0, kPrefix.size()) == kPrefix) paths.push_back(folder + "/" + entry->d_name);
  }
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    const int major_a = MajorOf(a);
    const int major_b = MajorOf(b);
    return major_a != major_b ? major_a > major_b : a < b;
  });
  return paths;
}

// Adds the folders of pip packages under each site-packages folder from which the process has
// mapped a library: those belong to the running interpreter.
void AddPipFolders(const std::vector<std::string>& mapped, std::vector<std::string>* folders) {
  static constexpr std::array<std::string_view, 2> kSites = {"/site-packages/", "/dist-packages/"};
  std::set<std::string> roots;
  for (const std::string& path : mapped) {
    for (const std::string_view site : kSites) {
      const size_t at = path.find(site);
      if (at != std::string::npos) roots.insert(path.substr(0, at + site.size()));
    }
  }
  for (const std::string& root : roots) {
    folders->push_back(root + "nvidia/cu13/lib");
    folders->push_back(root + "nvidia/cuda_cupti/lib");
  }
}

void AddToolkitFolders(std::vector<std::string>* folders) {
  for (const auto& [variable, home] : OwnVariables({"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"})) {
    if (home.empty() || home[0] != '/') continue;
    folders->push_back(absl::StrCat(home, "/extras/CUPTI/lib64"));
    folders->push_back(absl::StrCat(home, "/lib64"));
  }
  folders->emplace_back("/usr/local/cuda/extras/CUPTI/lib64");
  folders->emplace_back("/usr/local/cuda/lib64");
}

// Resolves the functions of a library. Returns why it cannot be used, or an empty text. `chosen`:
// only jobscope selected it, so that it may be skipped if it is of a later CUDA than the driver.
std::string ResolveFunctions(void* library, const std::string& path, uint32_t driver_major,
                             bool chosen, CuptiApi* api) {
  if (const char* const missing = api->Resolve(library); missing != nullptr) {
    return absl::StrCat(path, " lacks ", missing);
  }
  if (driver_major != 0 && driver_major < 13 && api->cuptiSubscribe_v2 != nullptr) {
    // Judged without a call: in a 13.2 that cannot start, any call overflows the stack.
    return absl::StrCat(path, " is of CUDA 13 or later, the driver of CUDA ", driver_major);
  }
  if (const CuptiResult result = api->cuptiGetVersion(&api->version); result != kCuptiSuccess) {
    return absl::StrCat(path, " does not work with this driver (cuptiGetVersion: ", result, ")");
  }
  if (api->version < kCupti11_0) {
    return absl::StrCat(path, " is too old (API version ", api->version,
                        "; CUDA 11.0 or later is needed)");
  }
  if (chosen && driver_major != 0 && CuptiMajor(api->version) > driver_major) {
    return absl::StrCat(path, " is of CUDA ", CuptiVersionText(api->version),
                        ", the driver of CUDA ", driver_major);
  }
  Dl_info info;
  void* function = nullptr;
  std::memcpy(&function, &api->cuptiGetVersion, sizeof(function));
  api->path = dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : path;
  return {};
}

}  // namespace

std::vector<std::string> MappedCupti() {
  std::vector<std::string> found;
  for (const std::string& path : LoadedLibraries()) {
    if (FileNameOf(path).substr(0, kPrefix.size()) == kPrefix) found.push_back(path);
  }
  return found;
}

std::vector<std::string> CuptiCandidates(const LoadOptions& options) {
  if (!options.library.empty()) return {options.library};
  const std::vector<std::string> mapped = LoadedLibraries();
  std::vector<std::string> folders;
  // The folder of the CUDA runtime that the process uses.
  for (const std::string& path : mapped) {
    if (FileNameOf(path).substr(0, 12) != "libcudart.so") continue;
    const std::string folder = FolderOf(path);
    folders.push_back(folder);
    folders.push_back(folder + "/../extras/CUPTI/lib64");
    folders.push_back(folder + "/../../cuda_cupti/lib");
  }
  std::vector<std::string> candidates;
  for (const std::string& folder : folders) {
    for (std::string& path : LibrariesIn(folder)) candidates.push_back(std::move(path));
  }
  for (int major = kNewestMajor; major > kOldestMajor; --major) {
    candidates.push_back(absl::StrCat(std::string(kPrefix), ".", major));
  }
  for (int minor = kNewest11; minor >= 0; --minor) {
    candidates.push_back(absl::StrCat(std::string(kPrefix), ".11.", minor));
  }
  candidates.emplace_back(kPrefix);
  folders.clear();
  AddToolkitFolders(&folders);
  AddPipFolders(mapped, &folders);
  for (const std::string& folder : folders) {
    for (std::string& path : LibrariesIn(folder)) candidates.push_back(std::move(path));
  }
  // A libcupti of a later major than the driver fails; it stays as a last resort, for its error.
  const int driver_major = options.driver_version / 1000;
  if (driver_major != 0) {
    std::stable_partition(candidates.begin(), candidates.end(),
                          [&](const std::string& path) { return MajorOf(path) <= driver_major; });
  }
  return candidates;
}

absl::StatusOr<const CuptiApi*> LoadCupti(const LoadOptions& options) {
  // Keyed by handle: the linker returns the same one for the same library, whatever its name.
  static Mutex mutex;
  static auto* const tables ABSL_PT_GUARDED_BY(mutex) = new std::map<void*, const CuptiApi*>;
  const MutexLock lock(&mutex);

  std::vector<std::string> unfit;
  const uint32_t driver_major = static_cast<uint32_t>(std::max(options.driver_version, 0)) / 1000;
  const auto use = [&](void* library, const std::string& path, bool chosen)
                       ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) -> const CuptiApi* {
    const auto known = tables->find(library);
    if (known != tables->end()) return known->second;
    auto api = std::make_unique<CuptiApi>();
    std::string why = ResolveFunctions(library, path, driver_major, chosen, api.get());
    if (!why.empty()) {
      unfit.push_back(std::move(why));
      return nullptr;
    }
    return tables->emplace(library, api.release()).first->second;
  };

  if (options.library.empty()) {
    for (const std::string& path : MappedCupti()) {
      void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
      if (library == nullptr) continue;
      if (const CuptiApi* const api = use(library, path, /*chosen=*/false); api != nullptr)
        return api;
      dlclose(library);
    }
  }
  for (const std::string& path : CuptiCandidates(options)) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      if (!options.library.empty()) {
        const char* const why = dlerror();
        return absl::NotFoundError(absl::StrCat("JOBSCOPE_CUPTI_LIBRARY cannot be loaded: ",
                                                why == nullptr ? path.c_str() : why));
      }
      continue;
    }
    if (const CuptiApi* const api = use(library, path, /*chosen=*/options.library.empty());
        api != nullptr) {
      return api;
    }
    dlclose(library);
  }
  if (!unfit.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("no usable libcupti: ", absl::StrJoin(unfit, "; ")));
  }
  return absl::NotFoundError(
      "no libcupti found: install the CUDA toolkit's extras or the pip package nvidia-cuda-cupti, "
      "or "
      "name the file in JOBSCOPE_CUPTI_LIBRARY");
}

}  // namespace jobscope::cuda
