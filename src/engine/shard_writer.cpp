// SPDX-License-Identifier: BSD-3-Clause
#include "engine/shard_writer.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "base/crc32.hpp"
#include "base/workers.hpp"
#include "engine/view_copy.hpp"
#include "formats/dcp/item_writer.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kCall = 256 << 10;  // bytes of one write: what the second cache holds beside others
constexpr std::uint64_t kStagingAlignment = 64;

}  // namespace

/// A tensor whose payload is written in pieces. Whoever finishes the last one writes the tail.
struct ShardJob::LargeItem {
  std::size_t item;
  std::vector<std::uint32_t> piece_crcs;
  std::atomic<std::size_t> pieces_left;
};

/// Items [first, first + count) through the buffer; or a piece of a large one.
struct ShardJob::Task {
  std::size_t first, count = 0;
  LargeItem* large = nullptr;
  std::size_t piece = 0;
};

/// What one thread writes.
class ShardThread {
 public:
  ShardThread(ShardJob& job, File& file, StagingBuffers* buffers)
      : job_(job), file_(file), buffers_(buffers), buffer_(kShardBuffer) {}

  void operator()(std::size_t task) {
    if (buffers_ == nullptr) return write(job_.tasks_[task]);
    try {
      const std::uint64_t block = job_.first_block_ + task;
      staged_ = buffers_->await(block);
      write(job_.tasks_[task]);
      buffers_->set_drained(block);
    } catch (...) {
      buffers_->stop(StagingBuffers::Side::drain, std::current_exception());
      throw;
    }
  }

 private:
  void write(const ShardJob::Task& task) {
    if (task.large != nullptr)
      write_piece(*task.large, task.piece);
    else
      write_group(task);
  }

  void write_group(const ShardJob::Task& task) {
    const auto& items = job_.items_;
    auto& written = job_.written_;
    const std::uint64_t begin = written[task.first].byte_offset;
    if (items[task.first].object && task.count == 1) {  // may be longer than the buffer
      written[task.first].crc = crc32(*items[task.first].object);
      return file_.write(begin, *items[task.first].object);
    }
    std::uint64_t used = 0;
    for (std::size_t i = task.first; i < task.first + task.count; ++i) {
      const auto here = std::span(buffer_).subspan(used, written[i].byte_length);
      compose(items[i], here);
      written[i].crc = crc32(here);
      used += here.size();
    }
    file_.write(begin, std::span(buffer_).first(used));
  }

  void compose(const ShardItem& item, std::span<std::byte> into) {
    if (item.object) {
      std::ranges::copy(*item.object, into.begin());
      return;
    }
    const dcp::TensorItem& frame = known_.of(item.view.dtype, item.view.sizes);
    std::ranges::copy(frame.head(), into.begin());
    const auto payload = into.subspan(frame.payload_offset(), frame.payload_bytes());
    copy_elements(item.view, 0, payload);
    frame.write_tail(crc32(payload), into.subspan(frame.payload_offset() + frame.payload_bytes()));
  }

  void write_piece(ShardJob::LargeItem& large, std::size_t piece) {
    const TensorView& view = job_.items_[large.item].view;
    const dcp::TensorItem& frame = known_.of(view.dtype, view.sizes);
    const std::uint64_t begin = piece * job_.piece_bytes_;
    const std::uint64_t end = std::min(frame.payload_bytes(), begin + job_.piece_bytes_);
    const bool is_plain = is_staged() || is_in_a_row(view);
    const std::uint64_t payload_at = job_.written_[large.item].byte_offset + frame.payload_offset();
    std::uint64_t at = begin;
    std::uint32_t crc = 0;
    if (piece == 0) at = write_beginning(large, frame, crc);
    // plain bytes are cut where the file's pages are, others where elements are
    const auto call_bytes = [&](std::uint64_t from) {
      return std::min(end - from, kCall - (is_plain ? payload_at + from : from) % kCall);
    };
    while (at < end) {
      const std::uint64_t bytes = call_bytes(at);
      const auto here = payload(large, at, std::span(buffer_).first(bytes));
      if (at + bytes < end) look_ahead(large, at + bytes, call_bytes(at + bytes));
      crc = crc32(here, crc);
      file_.write(payload_at + at, here);
      at += bytes;
    }
    large.piece_crcs[piece] = crc;
    if (large.pieces_left.fetch_sub(1) == 1) write_end(large, frame, payload_at);
  }

  bool is_staged() const { return buffers_ != nullptr; }
  static bool is_in_a_row(const TensorView& view) { return view.device == nullptr && view.is_contiguous(); }

  // What the next call writes leaves its device while this one is written.
  void look_ahead(const ShardJob::LargeItem& large, std::uint64_t at, std::uint64_t bytes) {
    const TensorView& view = job_.items_[large.item].view;
    if (is_staged() || view.device == nullptr || !view.is_contiguous()) return;
    ahead_ = view.device->start_copy_out(view.data + at, bytes);
  }

  // So many bytes from `at` on: where they are, or in `buffer`.
  std::span<const std::byte> payload(const ShardJob::LargeItem& large, std::uint64_t at,
                                     std::span<std::byte> buffer) {
    if (ahead_ != nullptr) {
      std::exchange(ahead_, nullptr)->finish(buffer);
      return buffer;
    }
    if (is_staged()) return staged_.subspan(at % job_.piece_bytes_, buffer.size());
    const TensorView& view = job_.items_[large.item].view;
    if (is_in_a_row(view)) return {view.data + at, buffer.size()};
    copy_elements(view, static_cast<std::int64_t>(at / element_size(view.dtype)), buffer);
    return buffer;
  }

  // The head, and of the payload what is left of the same call. Returns where the payload goes on.
  std::uint64_t write_beginning(const ShardJob::LargeItem& large, const dcp::TensorItem& frame,
                                std::uint32_t& crc) {
    const std::uint64_t file_at = job_.written_[large.item].byte_offset, head = frame.head().size();
    std::uint64_t bytes = head >= kCall ? 0 : kCall - (file_at + head) % kCall;
    bytes -= bytes % element_size(job_.items_[large.item].view.dtype);
    std::ranges::copy(frame.head(), buffer_.begin());
    const auto first = std::span(buffer_).subspan(head, bytes);
    const auto from = payload(large, 0, first);
    if (from.data() != first.data()) std::ranges::copy(from, first.begin());
    crc = crc32(first);
    file_.write(file_at, std::span(buffer_).first(head + bytes));
    return bytes;
  }

  void write_end(ShardJob::LargeItem& large, const dcp::TensorItem& frame, std::uint64_t payload_at) {
    std::uint32_t crc = 0;
    for (std::size_t i = 0; i < large.piece_crcs.size(); ++i) {
      const std::uint64_t bytes = std::min(job_.piece_bytes_, frame.payload_bytes() - i * job_.piece_bytes_);
      crc = crc32_combine(crc, large.piece_crcs[i], bytes);
    }
    std::vector<std::byte> tail(frame.tail_bytes());
    frame.write_tail(crc, tail);
    file_.write(payload_at + frame.payload_bytes(), tail);
    const std::uint32_t before = crc32_combine(crc32(frame.head()), crc, frame.payload_bytes());
    job_.written_[large.item].crc = crc32_combine(before, crc32(tail), tail.size());
  }

  ShardJob& job_;
  File& file_;
  StagingBuffers* buffers_;
  std::span<const std::byte> staged_;  // of the task
  std::vector<std::byte> buffer_;
  std::unique_ptr<PendingCopy> ahead_;  // of the next call
  dcp::TensorItems known_;
};

ShardJob::ShardJob(std::vector<ShardItem> items)
    : items_(std::move(items)), written_(items_.size()), piece_bytes_(kShardPiece) {
  place_items();
  make_tasks();
}

ShardJob::ShardJob(ShardJob&& other) noexcept = default;
ShardJob::~ShardJob() = default;

std::uint64_t ShardJob::file_bytes() const {
  return written_.empty() ? 0 : written_.back().byte_offset + written_.back().byte_length;
}

void ShardJob::place_items() {
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

void ShardJob::make_tasks() {
  tasks_.clear();
  large_.clear();
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

void ShardJob::add_large(std::size_t item) {
  const std::uint64_t bytes = items_[item].view.byte_count();
  const std::size_t pieces = (bytes + piece_bytes_ - 1) / piece_bytes_;
  large_.push_back(std::make_unique<LargeItem>(item, std::vector<std::uint32_t>(pieces), pieces));
  for (std::size_t piece = 0; piece < pieces; ++piece)
    tasks_.push_back({item, 0, large_.back().get(), piece});
}

// --- staging ---------------------------------------------------------------------------------------------

std::uint64_t ShardJob::object_bytes() const {
  return std::transform_reduce(items_.begin(), items_.end(), std::uint64_t{0}, std::plus<>(),
                               [](const ShardItem& item) { return item.object ? item.object->size() : 0; });
}

std::uint64_t ShardJob::staging_bytes() const {
  return std::transform_reduce(tasks_.begin(), tasks_.end(), std::uint64_t{0}, std::plus<>(),
                               [this](const Task& task) { return room_of(task); });
}

std::uint64_t ShardJob::room_of(const Task& task) const {
  std::uint64_t bytes = 0;
  if (task.large != nullptr)
    bytes = std::min(piece_bytes_, items_[task.first].view.byte_count() - task.piece * piece_bytes_);
  for (std::size_t i = task.first; i < task.first + task.count; ++i)
    if (!items_[i].object) bytes += items_[i].view.byte_count();
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

std::uint64_t ShardJob::plan_staging(std::uint64_t piece_bytes, std::uint64_t first_block) {
  if (piece_bytes != piece_bytes_) {
    piece_bytes_ = piece_bytes;
    make_tasks();
  }
  first_block_ = first_block;
  return first_block + tasks_.size();
}

void ShardJob::stage(StagingBuffers& buffers, int threads) {
  std::mutex order;
  std::size_t next = 0;
  const auto take = [&]() -> std::optional<StagingBuffers::Block> {
    const std::lock_guard lock(order);  // whoever waits for room is the next
    if (next == tasks_.size()) return std::nullopt;
    return buffers.take(room_of(tasks_[next++]));
  };
  const auto useful = std::min<std::size_t>(tasks_.size(), static_cast<std::size_t>(threads));
  if (useful == 0) return;
  run_workers(static_cast<int>(useful), [&](const std::atomic<bool>&) {
    try {
      while (const auto block = take()) {
        stage_task(tasks_[block->number - first_block_], block->bytes.data());
        buffers.set_filled(block->number);
      }
    } catch (...) {
      buffers.stop(StagingBuffers::Side::fill, std::current_exception());
      throw;
    }
  });
}

void ShardJob::stage_task(const Task& task, std::byte* room) {
  if (task.large != nullptr) {
    const TensorView& view = items_[task.first].view;
    const std::uint64_t begin = task.piece * piece_bytes_;
    const std::uint64_t bytes = std::min(piece_bytes_, view.byte_count() - begin);
    return copy_elements(view, static_cast<std::int64_t>(begin / element_size(view.dtype)), {room, bytes},
                         CopyUse::later);
  }
  for (std::size_t i = task.first; i < task.first + task.count; ++i) {
    if (items_[i].object) continue;
    TensorView& view = items_[i].view;
    const std::uint64_t bytes = view.byte_count();
    copy_elements(view, 0, {room, bytes}, CopyUse::later);
    view = TensorView::contiguous(view.dtype, view.sizes, room);
    room += bytes;
  }
}

// --- writing ---------------------------------------------------------------------------------------------

void ShardJob::write(File& file, int threads, StagingBuffers* staged) {
  file.allocate(file_bytes());
  std::atomic<std::size_t> next = 0;
  const auto useful = std::min<std::size_t>(tasks_.size(), static_cast<std::size_t>(threads));
  if (useful == 0) return;
  run_workers(static_cast<int>(useful), [&](const std::atomic<bool>& stop) {
    ShardThread thread(*this, file, staged);
    for (std::size_t i = next.fetch_add(1); i < tasks_.size() && !stop; i = next.fetch_add(1)) thread(i);
  });
}

}  // namespace cairn
