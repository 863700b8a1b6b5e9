// SPDX-License-Identifier: BSD-3-Clause
#include "engine/shard_writer.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "base/crc32.hpp"
#include "base/workers.hpp"
#include "engine/view_copy.hpp"
#include "formats/dcp/item_writer.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kCall = 256 << 10;  // bytes of one write: what the second cache holds beside others
constexpr std::uint64_t kPiece = 8 << 20;   // of a large payload, for one thread
constexpr std::uint64_t kStagingAlignment = 64;

/// Calls what `work()` makes on each of so many threads with the numbers in [first, last), each once.
template <class Work>
void on_threads(std::size_t first, std::size_t last, int threads, const Work& work) {
  std::atomic<std::size_t> next{first};
  const auto take = [&](const std::atomic<bool>& stop) {
    auto worker = work();
    for (std::size_t i = next.fetch_add(1); i < last && !stop; i = next.fetch_add(1)) worker(i);
  };
  const auto useful = std::min<std::size_t>(last - first, static_cast<std::size_t>(threads));
  if (useful > 0) run_workers(static_cast<int>(useful), take);
}

}  // namespace

/// A tensor whose payload is written in pieces. Whoever finishes the last one writes the tail.
struct ShardJob::LargeItem {
  std::size_t item;
  std::vector<std::uint32_t> piece_crcs;
  std::atomic<std::size_t> pieces_left;
  std::uint64_t staged_from;          // of the payload; its end: nothing is staged
  const std::byte* staged = nullptr;  // what begins there
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
  ShardThread(ShardJob& job, File& file) : job_(job), file_(file), buffer_(kShardBuffer) {}

  void operator()(std::size_t task) {
    const ShardJob::Task& here = job_.tasks_[task];
    if (here.large != nullptr)
      write_piece(*here.large, here.piece);
    else
      write_group(here);
  }

 private:
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
    const std::uint64_t begin = piece * kPiece, end = std::min(frame.payload_bytes(), begin + kPiece);
    const bool is_plain = begin >= large.staged_from || is_in_a_row(view);
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

  static bool is_in_a_row(const TensorView& view) { return view.device == nullptr && view.is_contiguous(); }

  // What the next call writes leaves its device while this one is written.
  void look_ahead(const ShardJob::LargeItem& large, std::uint64_t at, std::uint64_t bytes) {
    const TensorView& view = job_.items_[large.item].view;
    if (at >= large.staged_from || view.device == nullptr || !view.is_contiguous()) return;
    ahead_ = view.device->start_copy_out(view.data + at, bytes);
  }

  // So many bytes from `at` on: where they are, or in `buffer`.
  std::span<const std::byte> payload(const ShardJob::LargeItem& large, std::uint64_t at,
                                     std::span<std::byte> buffer) {
    if (ahead_ != nullptr) {
      std::exchange(ahead_, nullptr)->finish(buffer);
      return buffer;
    }
    if (at >= large.staged_from) return {large.staged + (at - large.staged_from), buffer.size()};
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
      const std::uint64_t bytes = std::min(kPiece, frame.payload_bytes() - i * kPiece);
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
  std::vector<std::byte> buffer_;
  std::unique_ptr<PendingCopy> ahead_;  // of the next call
  dcp::TensorItems known_;
};

ShardJob::ShardJob(std::vector<ShardItem> items) : items_(std::move(items)), written_(items_.size()) {
  place_items();
  make_tasks();
  first_staged_ = tasks_.size();
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
  const std::size_t pieces = (bytes + kPiece - 1) / kPiece;
  large_.push_back(std::make_unique<LargeItem>(item, std::vector<std::uint32_t>(pieces), pieces, bytes));
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
    bytes = std::min(kPiece, items_[task.first].view.byte_count() - task.piece * kPiece);
  for (std::size_t i = task.first; i < task.first + task.count; ++i)
    if (!items_[i].object) bytes += items_[i].view.byte_count();
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

std::uint64_t ShardJob::stage(std::span<std::byte> room, int threads) {
  std::uint64_t used = 0;
  while (first_staged_ > 0) {
    const std::uint64_t bytes = room_of(tasks_[first_staged_ - 1]);
    if (bytes > room.size() - used) break;
    used += bytes;
    --first_staged_;
  }
  std::vector<std::byte*> places;
  std::byte* at = room.data();
  for (std::size_t i = first_staged_; i < tasks_.size(); ++i) {
    const Task& task = tasks_[i];
    places.push_back(at);
    if (task.large != nullptr && task.large->staged == nullptr) {  // its pieces follow each other
      task.large->staged = at;
      task.large->staged_from = task.piece * kPiece;
    }
    at += room_of(task);
  }
  on_threads(first_staged_, tasks_.size(), threads,
             [&] { return [&](std::size_t i) { stage_task(tasks_[i], places[i - first_staged_]); }; });
  return used;
}

void ShardJob::stage_task(const Task& task, std::byte* room) {
  if (task.large != nullptr) {
    const TensorView& view = items_[task.first].view;
    const std::uint64_t begin = task.piece * kPiece, bytes = std::min(kPiece, view.byte_count() - begin);
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

void ShardJob::write_unstaged(File& file, int threads) { write_tasks(file, 0, first_staged_, threads); }

void ShardJob::write_rest(File& file, int threads) { write_tasks(file, next_, tasks_.size(), threads); }

void ShardJob::write_tasks(File& file, std::size_t first, std::size_t last, int threads) {
  if (first == 0) file.allocate(file_bytes());
  next_ = last;
  on_threads(first, last, threads, [&] { return ShardThread(*this, file); });
}

}  // namespace cairn
