// SPDX-License-Identifier: Apache-2.0
#include "client/native/spool/item_spooler.h"

#include <utility>

#include "absl/status/statusor.h"
#include "client/native/wire/capture_message.h"
#include "client/native/wire/native_messages.h"

namespace jobscope {
namespace {

absl::Status TakeMessage(const std::shared_ptr<grpc::ByteBuffer>& message, ItemReceiver* receiver) {
  // Copied here, so that there are only as many copies as the pool has threads.
  const std::string bytes = Join(*message);
  message->Clear();
  const absl::StatusOr<CaptureMessage> items = ReadCaptureMessage(bytes);
  if (!items.ok()) return items.status();
  if (items->kind == MessageKind::kItems) return receiver->Take(items->bytes);
  if (items->kind != MessageKind::kChunk) return absl::OkStatus();
  const absl::StatusOr<ItemChunk> chunk = ReadChunk(items->bytes);
  return chunk.ok() ? receiver->TakeChunk(*chunk) : chunk.status();
}

}  // namespace

ItemSpooler::ItemSpooler(std::shared_ptr<ItemReceiver> receiver, WritePool* disk, Strand* strand,
                         std::weak_ptr<void> owner)
    : receiver_(std::move(receiver)), disk_(disk), strand_(strand), owner_(std::move(owner)) {}

void ItemSpooler::Take(const std::shared_ptr<grpc::ByteBuffer>& message, Done done) {
  taking_ = true;
  disk_->Run([this, owner = owner_.lock(), message, done = std::move(done)] {
    const absl::Status status = TakeMessage(message, receiver_.get());
    strand_->Post([this, owner, status, done] {
      const ReceivedItems& now = receiver_->received();
      const bool advanced =
          now.last_item > received_.last_item || now.partial_bytes > received_.partial_bytes;
      received_ = now;
      taking_ = false;
      done(status, advanced);
    });
  });
}

void ItemSpooler::MoveTo(SpooledCapture* capture) {
  capture->spool = receiver_->TakeSpool();
  capture->index = receiver_->TakeIndex();
  capture->received = receiver_->received();
  capture->disk_error = receiver_->disk_error();
}

}  // namespace jobscope
