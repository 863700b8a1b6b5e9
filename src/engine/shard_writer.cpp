// SPDX-License-Identifier: BSD-3-Clause
#include "engine/shard_writer.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/crc32.hpp"
#include "base/workers.hpp"
#include "engine/view_copy.hpp"
#include "formats/dcp/item_writer.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kCall = 256 << 10;  // bytes of one write: what the second cache holds beside others
constexpr std::uint64_t kPiece = 8 << 20;   // of a large payload, for one thread

/// A tensor whose payload is written in pieces. Whoever finishes the last one writes the tail.
struct LargeItem {
  std::size_t item;
  std::vector<std::uint32_t> piece_crcs;
  std::atomic<std::size_t> pieces_left;
};

/// Items [first, first + count) through the buffer; or a piece of a large one.
struct Task {
  std::size_t first, count = 0;
  LargeItem* large = nullptr;
  std::size_t piece = 0;
};

class ShardJob {
 public:
  ShardJob(File& file, std::span<const ShardItem> items)
      : file_(file), items_(items), written_(items.size()) {
    place_items();
    make_tasks();
  }

  std::vector<WrittenItem> run(int threads) {
    file_.allocate(written_.empty() ? 0 : written_.back().byte_offset + written_.back().byte_length);
    const int useful =
        static_cast<int>(std::min<std::size_t>(tasks_.size(), static_cast<std::size_t>(threads)));
    if (useful > 0) run_workers(useful, [this](const std::atomic<bool>& stop) { work(stop); });
    return std::move(written_);
  }

 private:
  void place_items() {
    dcp::TensorItems known;
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const ShardItem& item = items_[i];
      const std::uint64_t length =
          item.object ? item.object->size() : known.of(item.view.dtype, item.view.sizes).byte_length();
      written_[i] = {at, length, 0};
      at += length;
    }
  }

  void make_tasks() {
    std::uint64_t group_bytes = kShardBuffer;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (written_[i].byte_length > kShardBuffer && !items_[i].object) {
        add_large(i);
        group_bytes = kShardBuffer;
        continue;
      }
      if (group_bytes + written_[i].byte_length > kShardBuffer) {
        tasks_.push_back({i});
        group_bytes = 0;
      }
      ++tasks_.back().count;
      group_bytes += written_[i].byte_length;
    }
  }

  void add_large(std::size_t item) {
    const std::size_t pieces = (items_[item].view.byte_count() + kPiece - 1) / kPiece;
    large_.push_back(std::make_unique<LargeItem>(item, std::vector<std::uint32_t>(pieces), pieces));
    for (std::size_t piece = 0; piece < pieces; ++piece)
      tasks_.push_back({item, 0, large_.back().get(), piece});
  }

  void work(const std::atomic<bool>& stop) {
    std::vector<std::byte> buffer(kShardBuffer);
    dcp::TensorItems known;
    while (!stop) {
      const std::size_t index = next_.fetch_add(1);
      if (index >= tasks_.size()) break;
      const Task& task = tasks_[index];
      if (task.large != nullptr)
        write_piece(*task.large, task.piece, known, buffer);
      else
        write_group(task, known, buffer);
    }
  }

  void write_group(const Task& task, dcp::TensorItems& known, std::span<std::byte> buffer) {
    const std::uint64_t begin = written_[task.first].byte_offset;
    if (items_[task.first].object && task.count == 1) {  // may be longer than the buffer
      written_[task.first].crc = crc32(*items_[task.first].object);
      return file_.write(begin, *items_[task.first].object);
    }
    std::uint64_t used = 0;
    for (std::size_t i = task.first; i < task.first + task.count; ++i) {
      const auto here = buffer.subspan(used, written_[i].byte_length);
      compose(items_[i], known, here);
      written_[i].crc = crc32(here);
      used += here.size();
    }
    file_.write(begin, buffer.first(used));
  }

  static void compose(const ShardItem& item, dcp::TensorItems& known, std::span<std::byte> into) {
    if (item.object) {
      std::ranges::copy(*item.object, into.begin());
      return;
    }
    const dcp::TensorItem& frame = known.of(item.view.dtype, item.view.sizes);
    std::ranges::copy(frame.head(), into.begin());
    const auto payload = into.subspan(frame.payload_offset(), frame.payload_bytes());
    copy_elements(item.view, 0, payload);
    frame.write_tail(crc32(payload), into.subspan(frame.payload_offset() + frame.payload_bytes()));
  }

  void write_piece(LargeItem& large, std::size_t piece, dcp::TensorItems& known,
                   std::span<std::byte> buffer) {
    const TensorView& view = items_[large.item].view;
    const dcp::TensorItem& frame = known.of(view.dtype, view.sizes);
    const std::uint64_t begin = piece * kPiece, end = std::min(frame.payload_bytes(), begin + kPiece);
    const bool is_plain = view.device == nullptr && view.is_contiguous();
    const std::uint64_t payload_at = written_[large.item].byte_offset + frame.payload_offset();
    std::uint64_t at = begin;
    std::uint32_t crc = 0;
    if (piece == 0) at = write_beginning(large.item, frame, buffer, crc);
    while (at < end) {
      // plain bytes are cut where the file's pages are, others where elements are
      const std::uint64_t to_edge = kCall - (is_plain ? payload_at + at : at) % kCall;
      const std::uint64_t bytes = std::min(end - at, to_edge);
      const auto here = is_plain ? std::span<const std::byte>(view.data + at, bytes)
                                 : copied(view, at, buffer.first(bytes));
      crc = crc32(here, crc);
      file_.write(payload_at + at, here);
      at += bytes;
    }
    large.piece_crcs[piece] = crc;
    if (large.pieces_left.fetch_sub(1) == 1) write_end(large, frame, payload_at);
  }

  static std::span<const std::byte> copied(const TensorView& view, std::uint64_t at,
                                           std::span<std::byte> into) {
    copy_elements(view, static_cast<std::int64_t>(at / element_size(view.dtype)), into);
    return into;
  }

  // The head, and of the payload what is left of the same call. Returns where the payload goes on.
  std::uint64_t write_beginning(std::size_t item, const dcp::TensorItem& frame, std::span<std::byte> buffer,
                                std::uint32_t& crc) {
    const TensorView& view = items_[item].view;
    const std::uint64_t file_at = written_[item].byte_offset, head = frame.head().size();
    std::uint64_t bytes = head >= kCall ? 0 : kCall - (file_at + head) % kCall;
    bytes -= bytes % element_size(view.dtype);
    std::ranges::copy(frame.head(), buffer.begin());
    crc = crc32(copied(view, 0, buffer.subspan(head, bytes)));
    file_.write(file_at, buffer.first(head + bytes));
    return bytes;
  }

  void write_end(LargeItem& large, const dcp::TensorItem& frame, std::uint64_t payload_at) {
    std::uint32_t crc = 0;
    for (std::size_t i = 0; i < large.piece_crcs.size(); ++i) {
      const std::uint64_t bytes = std::min(kPiece, frame.payload_bytes() - i * kPiece);
      crc = crc32_combine(crc, large.piece_crcs[i], bytes);
    }
    std::vector<std::byte> tail(frame.tail_bytes());
    frame.write_tail(crc, tail);
    file_.write(payload_at + frame.payload_bytes(), tail);
    const std::uint32_t before = crc32_combine(crc32(frame.head()), crc, frame.payload_bytes());
    written_[large.item].crc = crc32_combine(before, crc32(tail), tail.size());
  }

  File& file_;
  std::span<const ShardItem> items_;
  std::vector<WrittenItem> written_;
  std::vector<std::unique_ptr<LargeItem>> large_;
  std::vector<Task> tasks_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace

std::vector<WrittenItem> write_shard(File& file, std::span<const ShardItem> items, int threads) {
  return ShardJob(file, items).run(threads);
}

}  // namespace cairn
