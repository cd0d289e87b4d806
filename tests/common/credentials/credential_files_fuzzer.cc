// SPDX-License-Identifier: Apache-2.0
//
// Files of certificates, keys and tokens with any content: what is accepted keeps the rules, what is
// not names the setting. The input is one file; it is read as each of them.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "common/credentials/credential_files.h"
#include "tests/temporary_directory.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void Write(const std::string& path, const uint8_t* data, size_t size) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  Require(fd >= 0 && write(fd, data, size) == static_cast<ssize_t>(size));
  close(fd);
}

void CheckRefusal(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument);
  Require(absl::StrContains(status.message(), "--setting"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const TemporaryDirectory directory;
  const FileSetting file{directory.path() + "/file", "--setting"};
  Write(file.path, data, size);
  const absl::StatusOr<std::string> token = ReadToken(file);
  if (token.ok()) {
    Require(token->size() >= kMinTokenBytes && token->size() <= kMaxTokenBytes);
    Require(CheckToken(*token).ok());
    for (const char c : *token) Require(c > ' ' && c <= '~');
  } else {
    CheckRefusal(token.status());
  }
  const absl::StatusOr<std::string> authorities = ReadAuthorities(file);
  if (!authorities.ok()) CheckRefusal(authorities.status());
  // One file may hold both.
  const auto pair = ReadCertificatePair(file, file, CertificateUse::kServer);
  if (!pair.ok()) CheckRefusal(pair.status());
  (void)CheckToken(std::string(reinterpret_cast<const char*>(data), size)).ok();
  return 0;
}
