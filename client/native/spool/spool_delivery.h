// SPDX-License-Identifier: Apache-2.0
//
// Assembles what a native worker streamed.
#ifndef CLIENT_NATIVE_SPOOL_SPOOL_DELIVERY_H_
#define CLIENT_NATIVE_SPOOL_SPOOL_DELIVERY_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/native/spool/item_receiver.h"
#include "client/native/spool/spool.h"
#include "client/native/spool/spool_index.h"
#include "client/worker/worker_client.h"
#include "client/worker/worker_outcome.h"
#include "common/run/manifest.h"
#include "common/run/run_directory.h"
#include "common/xspace/assemble/assembler.h"

namespace jobscope {

// One capture, after its end.
struct SpooledCapture {
  std::unique_ptr<Spool> spool;       // null: nothing was received
  std::unique_ptr<SpoolIndex> index;  // of that spool; null: must be built
  ReceivedItems received;
  absl::Status disk_error;  // why not all received items were spooled
  StartCall start;
  std::optional<uint64_t> announced_last_item;  // by `ended`
  // Not OK: the stream was lost permanently. `after_end`: after the planned end of the recording.
  grpc::Status status;
  bool after_end = false;
  // The worker ended the capture itself, and said why.
  bool orderly_end = false;
  // Number of streams that were lost and resumed, and the total time that took.
  int breaks = 0;
  absl::Duration outage;
  uint64_t part_limit_bytes = uint64_t{256} << 20;
};

// Writes a spooled capture. Memory: an index of about 120 bytes per item, a buffer, and at most
// about 50 MiB of the spool mapped at any time, however large it is. Write waits until there is
// memory for the index.
class SpoolDelivery : public Delivery {
 public:
  explicit SpoolDelivery(SpooledCapture capture);

  // Writes the trace; part k > 1 goes to "<run>.part<k>". Parts appear one by one, each complete;
  // if one cannot be written, earlier ones stay, and the outcome says so. Releases the spool.
  WorkerOutcome Write(const RunDirectory& directory, const std::string& stem,
                      ManifestWorker* account) override;

 private:
  WorkerOutcome WriteTrace(const RunDirectory& directory, const std::string& stem,
                           ManifestWorker* account);
  xspace::AssembleOptions OptionsFor(const std::string& stem, std::optional<int> rank) const;
  // `unreadable`: the item before which the trace ends.
  WorkerOutcome Judge(std::optional<v1::Summary> summary, uint64_t events,
                      const absl::Status& unreadable, ManifestWorker* account) const;
  WorkerOutcome JudgeWithoutSummary(uint64_t events, ManifestWorker* account) const;
  std::string WhyIncomplete() const;
  std::string HowItBroke() const;
  std::string LimitText() const;
  std::string UnknownText() const;
  void FillClocks(ManifestWorker* account) const;
  void AddWarnings(const WorkerOutcome& outcome, ManifestWorker* account) const;

  SpooledCapture capture_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_SPOOL_SPOOL_DELIVERY_H_
