// SPDX-License-Identifier: Apache-2.0
#include "client/cli/verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Verbs, EachContactsWorkersOrRunsAlone) {
  EXPECT_THAT(VerbNames(), ElementsAre("capture", "check", "stop", "run", "report", "diff"));
  for (const std::string& name : VerbNames()) {
    const VerbResult result = ParseVerb({"/usr/bin/jobscope", name, "--flag", "last"});
    ASSERT_NE(result.verb, nullptr) << name;
    EXPECT_EQ(result.verb->name, name);
    EXPECT_NE(result.verb->worker_verb == nullptr, result.verb->run == nullptr) << name;
    EXPECT_EQ(result.program, absl::StrCat("jobscope ", name));
    EXPECT_THAT(result.arguments, ElementsAre("--flag", "last"));
  }
}

TEST(Verbs, CaptureNeedsNoVerb) {
  const VerbResult captures = ParseVerb({"/usr/bin/capture", "--quiet"});
  EXPECT_EQ(captures.verb->worker_verb, ParseVerb({"jobscope", "capture"}).verb->worker_verb);
  EXPECT_EQ(captures.program, "capture");
  EXPECT_THAT(captures.arguments, ElementsAre("--quiet"));
  EXPECT_THAT(ParseVerb({"capture", "capture"}).arguments, ElementsAre("capture"));
  for (const char* name : {"check", "stop", "run", "report", "diff"}) {
    const VerbResult result = ParseVerb({"capture", name});
    EXPECT_STREQ(result.verb->name, name);
    EXPECT_EQ(result.program, absl::StrCat("capture ", name));
    EXPECT_TRUE(result.arguments.empty());
  }
  for (const std::vector<std::string>& none : {std::vector<std::string>{}, {"capture"}}) {
    EXPECT_STREQ(ParseVerb(none).verb->name, "capture");
    EXPECT_TRUE(ParseVerb(none).arguments.empty());
  }
}

TEST(Verbs, JobscopeRequiresOne) {
  for (const char* first : {"--service_addr=a:1", "nosuch", ""}) {
    const VerbResult result = ParseVerb({"./jobscope", first});
    EXPECT_EQ(result.verb, nullptr) << first;
    EXPECT_EQ(result.exit_code, 2) << first;
  }
  EXPECT_EQ(ParseVerb({"jobscope"}).exit_code, 2);
  EXPECT_THAT(ParseVerb({"jobscope", "nosuch"}).text, HasSubstr("unknown verb 'nosuch'"));
  EXPECT_THAT(ParseVerb({"jobscope", "captrue"}).text, HasSubstr("did you mean capture?"));
  EXPECT_THAT(ParseVerb({"jobscope", "reprot"}).text, HasSubstr("did you mean report?"));
}

TEST(Verbs, HelpListsAll) {
  const VerbResult help = ParseVerb({"jobscope", "--help"});
  EXPECT_EQ(help.verb, nullptr);
  EXPECT_EQ(help.exit_code, 0);
  for (const std::string& name : VerbNames()) {
    EXPECT_THAT(help.text, HasSubstr(absl::StrCat("\n  ", name, " ")));
  }
  EXPECT_EQ(ParseVerb({"jobscope", "--version"}).exit_code, 0);
}

TEST(Verbs, VersionsOfWhatIsLinkedIn) {
  for (const char* name : {"jobscope", "capture"}) {
    const VerbResult result = ParseVerb({name, "--versions"});
    EXPECT_EQ(result.verb, nullptr);
    EXPECT_EQ(result.exit_code, 0);
    for (const char* library :
         {"jobscope ", "gRPC ", "protobuf ", "abseil ", "SSL ", "zlib ", "c-ares ", "re2 "}) {
      EXPECT_THAT(result.text, HasSubstr(library));
    }
  }
}

}  // namespace
}  // namespace jobscope
