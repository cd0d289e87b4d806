// SPDX-License-Identifier: Apache-2.0
#include "common/files/whole_file.h"

#include <unistd.h>

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "common/files/file_sink.h"

namespace jobscope {

absl::Status WriteWholeFile(const std::string& path, std::string_view bytes) {
  const std::filesystem::path whole(path);
  const std::string parent = whole.parent_path().string();
  const std::string directory = parent.empty() ? "." : parent;
  const std::string name = whole.filename().string();
  absl::StatusOr<std::unique_ptr<FileSink>> file = FileSink::Create(directory, name);
  if (absl::IsAlreadyExists(file.status())) {
    // A writer was killed, and its temporary file remains.
    (void)unlink(FileSink::TemporaryPath(directory, name).c_str());
    file = FileSink::Create(directory, name);
  }
  if (!file.ok()) return file.status();
  const absl::Status status = (*file)->Write(bytes, /*stable=*/true);
  if (!status.ok()) return status;
  return (*file)->Publish(FileSink::Name::kMayVanish);
}

}  // namespace jobscope
