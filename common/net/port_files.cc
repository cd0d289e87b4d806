// SPDX-License-Identifier: Apache-2.0
#include "common/net/port_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/files/regular_file.h"
#include "common/net/host_list.h"

namespace jobscope {
namespace {

// Orders "2.addr" before "10.addr": ranks and pids by number, other names after them.
bool ByNumberInName(const std::string& left, const std::string& right) {
  const auto key = [](const std::string& path) {
    uint32_t number = 0;
    const bool has_number = ParseDigits(std::filesystem::path(path).stem().string(), &number);
    return std::make_tuple(!has_number, number, path);
  };
  return key(left) < key(right);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListPortFiles(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != ".addr") continue;
    files.push_back(it->path().string());
    if (files.size() > kMaxEndpoints) return files;
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot list the port directory ", directory, ": ", error.message()));
  }
  std::sort(files.begin(), files.end(), ByNumberInName);
  return files;
}

absl::StatusOr<std::string> ReadPortFile(const std::string& path, size_t max_bytes) {
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (absl::IsNotFound(file.status())) return file.status();
  absl::StatusOr<std::string> text =
      file.ok() ? file->Read(max_bytes) : absl::StatusOr<std::string>(file.status());
  if (text.ok()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("cannot read addresses from ", path, ": ", text.status().message()));
}

}  // namespace jobscope
