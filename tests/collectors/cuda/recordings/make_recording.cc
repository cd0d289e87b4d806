// SPDX-License-Identifier: Apache-2.0
//
// Writes tests/collectors/cuda/recordings/handmade_13_0.cuptirec: no GPU was near it.
//
//   make_recording FILE
#include <cstdio>
#include <fstream>

#include "tests/collectors/cuda/recordings/handmade_recording.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_recording FILE\n");
    return 2;
  }
  std::ofstream file(argv[1], std::ios::binary);
  file << FormatRecording(jobscope::cuda::HandmadeRecording());
  return file.good() ? 0 : 1;
}
