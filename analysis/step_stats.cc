// SPDX-License-Identifier: Apache-2.0
//
// Prints the steps of a run, worker by worker.
//
//   step_stats RUN_DIRECTORY      exit 0; 1 if a trace is missing or malformed; 2 usage
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analysis/step_times.h"

namespace jobscope::analysis {
namespace {

constexpr std::string_view kSuffix = ".xplane.pb";

// A file, mapped: a trace may be larger than what one wants to hold.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    struct stat status = {};
    const bool sized = fstat(fd, &status) == 0;
    const auto size = static_cast<size_t>(status.st_size);
    void* data = sized && size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
    const int error = errno;
    close(fd);
    if (!sized || data == MAP_FAILED) {
      return absl::ErrnoToStatus(error, absl::StrCat("cannot map ", path));
    }
    return MappedFile(static_cast<const char*>(data), size);
  }
  MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
  }
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
  }
  std::string_view bytes() const { return {data_, data_ == nullptr ? 0 : size_}; }

 private:
  MappedFile(const char* data, size_t size) : data_(data), size_(size) {}
  const char* data_;
  size_t size_;
};

absl::StatusOr<StepSummary> SummarizeFile(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<std::vector<Step>> steps = ReadSteps(file->bytes());
  if (!steps.ok()) return steps.status();
  return Summarize(*steps);
}

// The traces in `directory`: worker names, sorted.
absl::StatusOr<std::vector<std::string>> Workers(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> workers;
  for (std::filesystem::directory_iterator file(directory, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (name.size() > kSuffix.size() &&
        name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0) {
      workers.push_back(name.substr(0, name.size() - kSuffix.size()));
    }
  }
  if (error) return absl::NotFoundError(absl::StrCat(directory, ": ", error.message()));
  if (workers.empty()) {
    return absl::NotFoundError(
        absl::StrCat(directory, ": no *.xplane.pb here; is it a run directory?"));
  }
  std::sort(workers.begin(), workers.end());
  return workers;
}

int Run(const std::string& directory) {
  const absl::StatusOr<std::vector<std::string>> workers = Workers(directory);
  if (!workers.ok()) {
    std::fprintf(stderr, "step_stats: %s\n", std::string(workers.status().message()).c_str());
    return 1;
  }
  size_t width = 6;
  for (const std::string& worker : *workers) width = std::max(width, worker.size());
  std::printf("%-*s %8s %10s %9s %11s %11s\n", static_cast<int>(width), "worker", "steps",
              "median ms", "p90 ms", "longest ms", "input wait");
  int exit_code = 0;
  for (const std::string& worker : *workers) {
    const std::string path = absl::StrCat(directory, "/", worker, ".xplane.pb");
    const absl::StatusOr<StepSummary> summary = SummarizeFile(path);
    if (!summary.ok()) {
      std::fprintf(stderr, "step_stats: %s: %s\n", path.c_str(),
                   std::string(summary.status().message()).c_str());
      exit_code = 1;
    } else if (summary->steps == 0) {
      std::printf("%-*s no steps\n", static_cast<int>(width), worker.c_str());
    } else {
      std::printf("%-*s %8llu %10.2f %9.2f %11.2f %9.1f %%\n", static_cast<int>(width),
                  worker.c_str(), static_cast<unsigned long long>(summary->steps),
                  summary->median_ms, summary->p90_ms, summary->longest_ms,
                  summary->input_wait_share * 100);
    }
  }
  return exit_code;
}

}  // namespace
}  // namespace jobscope::analysis

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: step_stats RUN_DIRECTORY\n");
    return 2;
  }
  return jobscope::analysis::Run(argv[1]);
}
