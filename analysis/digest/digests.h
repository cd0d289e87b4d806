// SPDX-License-Identifier: Apache-2.0
//
// Defines the digests that the map passes to the reduce.
#ifndef ANALYSIS_DIGEST_DIGESTS_H_
#define ANALYSIS_DIGEST_DIGESTS_H_

#include <string>
#include <vector>

#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

// One run: its own digest, one of each worker that could be read, and the workers that could not.
struct Digests {
  v1::RunDigest run;
  std::vector<v1::Digest> workers;  // sorted by rank and name
  struct Missing {
    std::string worker;
    std::string reason;
  };
  std::vector<Missing> missing;  // no digest, and why
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGESTS_H_
