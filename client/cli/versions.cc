// SPDX-License-Identifier: Apache-2.0
#include "client/cli/versions.h"

#include <ares_version.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <openssl/crypto.h>
#include <zlib.h>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "common/process/identity.h"

namespace jobscope {
namespace {

// Returns abseil's version; "head" if it is not a release.
std::string AbseilVersion() {
#if defined(ABSL_LTS_RELEASE_VERSION)
  return absl::StrCat(ABSL_LTS_RELEASE_VERSION, ".", ABSL_LTS_RELEASE_PATCH_LEVEL);
#else
  return "head";
#endif
}

}  // namespace

std::string LinkedVersions() {
  // "OpenSSL 3.0.17 1 Jul 2025" or "BoringSSL": the name is part of the text.
  return absl::StrCat("jobscope ", Version(), "\n", "gRPC ", grpc::Version(), "\n", "protobuf ",
                      google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION), "\n",
                      "abseil ", AbseilVersion(), "\n", OpenSSL_version(OPENSSL_VERSION), "\n",
                      "zlib ", zlibVersion(), "\n", "c-ares ", ARES_VERSION_STR, "\n",
                      "re2 (has no version number)\n");
}

}  // namespace jobscope
