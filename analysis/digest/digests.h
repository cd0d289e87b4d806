// SPDX-License-Identifier: Apache-2.0
//
// Defines the digests that the map passes to the reduce.
#ifndef ANALYSIS_DIGEST_DIGESTS_H_
#define ANALYSIS_DIGEST_DIGESTS_H_

#include <string>
#include <vector>

#include "jobscope/v1/digest.pb.h"

namespace jobscope::analysis {

// The digests of one run: its own, one of each readable worker, and the list of the other workers.
struct Digests {
  v1::RunDigest run;
  std::vector<v1::Digest> workers;  // sorted by rank and name
  struct Missing {
    std::string worker;
    std::string reason;
  };
  std::vector<Missing> missing;  // workers without a digest, with the reason
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_DIGEST_DIGESTS_H_
