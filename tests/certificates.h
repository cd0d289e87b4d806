// SPDX-License-Identifier: Apache-2.0
//
// Certificates and tokens, good ones and broken ones, made by deploy/certs/make_certs.sh for this
// process. MAKE_CERTS is the script's path.
#ifndef TESTS_CERTIFICATES_H_
#define TESTS_CERTIFICATES_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace jobscope {

class Certificates {
 public:
  // Made at the first use (0.3 s): one that is not yet valid must not have become so meanwhile.
  static const Certificates& Get() {
    static const Certificates certificates;
    return certificates;
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // Without its line's end.
  std::string Token(const std::string& name = "token") const {
    std::string token = Read(name);
    while (!token.empty() && token.back() == '\n') token.pop_back();
    return token;
  }

 private:
  Certificates() : directory_(::testing::TempDir() + "/certsXXXXXX") {
    if (mkdtemp(directory_.data()) == nullptr) std::abort();
    const std::string command = std::string(MAKE_CERTS) + " '" + directory_ + "' --broken";
    if (std::system(command.c_str()) != 0) std::abort();  // NOLINT(bugprone-command-processor)
  }
  ~Certificates() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string directory_;
};

}  // namespace jobscope

#endif  // TESTS_CERTIFICATES_H_
