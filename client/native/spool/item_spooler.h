// SPDX-License-Identifier: Apache-2.0
//
// Writes messages of items to disk, off the strand of their capture.
#ifndef CLIENT_NATIVE_SPOOL_ITEM_SPOOLER_H_
#define CLIENT_NATIVE_SPOOL_ITEM_SPOOLER_H_

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/native/spool/item_receiver.h"
#include "client/native/spool/spool_delivery.h"
#include "client/rpc/strand.h"
#include "client/run/write_pool.h"

namespace jobscope {

// Spools one message at a time. Not thread-safe: used on the strand of its owner. A reader that
// reads the next message when the last is spooled holds one message in memory, and a slow disk
// slows the worker down through gRPC's flow control.
class ItemSpooler {
 public:
  // Errors like ItemReceiver::Take. `advanced`: the message contained something new.
  using Done = std::function<void(const absl::Status& status, bool advanced)>;

  // `owner` owns `strand` and this, and is kept alive while a message is being written to disk.
  ItemSpooler(std::shared_ptr<ItemReceiver> receiver, WritePool* disk, Strand* strand,
              std::weak_ptr<void> owner);

  // Spools a CaptureResponse of items or of a chunk, then runs `done` on the strand.
  void Take(const std::shared_ptr<grpc::ByteBuffer>& message, Done done);
  bool taking() const { return taking_; }
  // State after the last spooled message.
  const ReceivedItems& received() const { return received_; }

  // The following must not be called while `taking()`.
  const absl::Status& disk_error() const { return receiver_->disk_error(); }
  void MoveTo(SpooledCapture* capture);

 private:
  // Used by the disk's pool while `taking_`.
  const std::shared_ptr<ItemReceiver> receiver_;
  WritePool* const disk_;
  Strand* const strand_;
  const std::weak_ptr<void> owner_;
  bool taking_ = false;
  ReceivedItems received_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_SPOOL_ITEM_SPOOLER_H_
