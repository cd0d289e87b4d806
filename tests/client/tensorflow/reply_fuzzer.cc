// SPDX-License-Identifier: Apache-2.0
//
// Answers of workers, ours or not, up to the written file: what is found lies within the answer,
// and what counts as delivered is one file that parses and holds the events of the account.
//
// The low five bits of the first byte say how the answer is cut into slices. Bit 5: a file of the
// worker's own, with the same bytes, lies where a worker that ignores emit_xspace writes it. Bit 6:
// the worker is one of ours. Bit 7: the client ended the recording. The rest is the answer.
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "client/tensorflow/reply_file.h"
#include "client/tensorflow/reply_index.h"
#include "common/run/run_directory.h"
#include "tensorflow/xplane.pb.h"
#include "tests/client/fake_traces.h"
#include "tests/fuzz_input.h"
#include "tests/silent_protobuf.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

// Protobuf also refuses texts that are not UTF-8; those the client copies as they are.
void CheckFile(const std::string& bytes, const ManifestWorker& account) {
  Require(account.files.size() == 1 && account.files[0].bytes == bytes.size());
  Require(account.events.has_value() && account.files[0].events == account.events);
  tensorflow::profiler::XSpace space;
  if (!space.ParseFromString(bytes)) return;
  uint64_t events = 0;
  for (const auto& plane : space.planes()) {
    for (const auto& line : plane.lines()) events += static_cast<uint64_t>(line.events_size());
  }
  Require(account.events == events);
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const SilentProtobuf silent;
  static const TemporaryDirectory logdir;
  static const RunDirectory directory = RunDirectory::Create({logdir.path(), "r", 0}).value();
  if (size == 0) return 0;
  const std::string answer(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::vector<grpc::Slice> slices = Slices(answer, (data[0] & 31) + size_t{1});
  const auto index = IndexReply(slices);
  if (index.ok()) {
    for (const ReplyRange& range : index->xspace) {
      Require(range.begin <= answer.size() && range.size <= answer.size() - range.begin);
    }
  }

  const std::string path = directory.path() + "/w_1.xplane.pb";
  if ((data[0] & 32) != 0) std::ofstream(path, std::ios::binary) << answer;
  grpc::ByteBuffer reply(slices.data(), slices.size());
  ManifestWorker account;
  const ReplyContext context{(data[0] & 64) != 0, (data[0] & 128) != 0};
  const WorkerOutcome outcome = WriteReply(directory, "w_1", context, &reply, &account);
  Require(index.ok() || outcome.kind == Outcome::kFailed);
  if (IsDelivery(outcome.kind) && !account.files.empty()) CheckFile(ReadAll(path), account);
  if (!IsDelivery(outcome.kind)) Require(account.files.empty() && !outcome.reason.empty());
  unlink(path.c_str());
  Require(List(directory.path()).empty());  // nothing temporary either
  return 0;
}
