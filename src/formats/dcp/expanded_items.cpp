// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/expanded_items.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/fail.hpp"

namespace cairn::dcp {
namespace {

constexpr std::uint64_t kBlockBytes = 256 << 10;
constexpr std::size_t kKeptBlocks = (16 << 20) / kBlockBytes;
// Blocks kept behind a stream that runs on: to the end, for whoever wants to know the size; to a piece whose
// reader came before those of the pieces in front, one for each of 8 threads.
constexpr std::uint64_t kTrailToEnd = 8, kTrailToPiece = 32;
constexpr std::uint64_t kMostTimes = 3;  // that an item is expanded before it is spilled
constexpr std::size_t kMostItems = 65536;

// In a folder that nobody else can look into.
std::unique_ptr<File> unnamed_file(FileSystem& files) {
  const char* temporaries = std::getenv("TMPDIR");
  std::string folder = fmt::format("{}/cairn-XXXXXX", temporaries && *temporaries ? temporaries : "/tmp");
  if (::mkdtemp(folder.data()) == nullptr) fail_io("mkdtemp", folder, errno);
  const std::string path = folder + "/expanded";
  auto file = files.create_exclusive(path);
  files.unlink(path);
  files.remove_directory(folder);
  return file;
}

}  // namespace

const TensorInfo& tensor_of_item(const Catalog& catalog, std::uint64_t chunk) {
  const auto after = std::ranges::upper_bound(catalog.tensors(), chunk, {}, &TensorInfo::first_chunk);
  return *(after - 1);  // tensors without chunks share first_chunk with the next one, which comes last
}

std::uint64_t most_expanded_bytes(const Catalog& catalog, std::uint64_t number) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  const auto limit = [](std::uint64_t bytes, std::uint64_t factor, std::uint64_t extra) {
    return bytes > (most - extra) / factor ? most : bytes * factor + extra;
  };
  if (number >= catalog.chunks().size())
    return limit(catalog.objects()[number - catalog.chunks().size()].item.byte_length, 1024, 64 << 20);
  const TensorInfo& tensor = tensor_of_item(catalog, number);
  const BoxView box = catalog.box(tensor, catalog.chunks()[number]);
  const auto elements = static_cast<std::uint64_t>(element_count(box.sizes));
  return limit(elements > most / 16 ? most : elements * element_size(tensor.dtype), 2, 16 << 20);
}

struct ExpandedItems::Item {
  Item(std::uint64_t number_, Stored stored_) : number(number_), stored(std::move(stored_)) {}

  const std::uint64_t number;
  const Stored stored;
  std::mutex mutex;  // of what follows
  std::unique_ptr<ZstdStream> stream;
  std::uint64_t next_block = 0;  // of the stream
  std::optional<std::uint64_t> size;
  std::uint64_t expanded = 0;               // bytes, in all
  std::optional<std::uint64_t> spilled_at;  // in the temporary file
};

std::uint64_t ExpandedItems::size(std::uint64_t number) {
  const ItemRef item = open(number);
  const std::lock_guard lock(item->mutex);
  if (!item->size) expand_rest(*item);
  return *item->size;
}

void ExpandedItems::read(std::uint64_t number, std::uint64_t at, std::span<std::byte> into) {
  const ItemRef item = open(number);
  bool has_stream = false;
  while (!into.empty()) {
    Block block = find({number, at / kBlockBytes});
    if (!block) {
      const std::lock_guard lock(item->mutex);
      block = block_at(*item, at);
      has_stream = item->stream != nullptr;
    }
    const std::uint64_t skipped = at % kBlockBytes;
    if (skipped >= block->size()) fail_beyond(*item, at);
    const std::size_t count = std::min<std::size_t>(into.size(), block->size() - skipped);
    std::memcpy(into.data(), block->data() + skipped, count);
    into = into.subspan(count);
    at += count;
  }
  if (has_stream) limit_streams(item);
}

void ExpandedItems::fail_beyond(const Item& item, std::uint64_t at) {
  fail_corrupt("{}: byte {} of what the item expands to is wanted, which is beyond its end",
               item.stored.where, at);
}

ExpandedItems::ItemRef ExpandedItems::open(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (const auto found = items_.find(number); found != items_.end()) return found->second;
  if (items_.size() >= kMostItems) {
    std::erase_if(items_,
                  [](const auto& one) { return one.second.use_count() == 1 && !one.second->spilled_at; });
  }
  return items_[number] = std::make_shared<Item>(number, find_(number));
}

// --- under the item's mutex -------------------------------------------------------------------------------

// The block with byte `at`.
ExpandedItems::Block ExpandedItems::block_at(Item& item, std::uint64_t at) {
  const std::uint64_t block = at / kBlockBytes;
  if (item.size && at >= *item.size) fail_beyond(item, at);
  if (Block kept = find({item.number, block})) return kept;  // by who had the mutex
  if (!item.stream || item.next_block > block) start(item);
  if (item.spilled_at) {
    const std::uint64_t begin = block * kBlockBytes;
    auto bytes = std::make_shared<Bytes>(std::min(kBlockBytes, *item.size - begin));
    spill_file().read(*item.spilled_at + begin, *bytes);
    keep({item.number, block}, bytes);
    return bytes;
  }
  while (item.next_block < block) {
    if (item.next_block >= kTrailToPiece) drop({item.number, item.next_block - kTrailToPiece});
    expand_next(item);
    if (item.size && at >= *item.size) fail_beyond(item, at);
  }
  return expand_next(item);
}

void ExpandedItems::start(Item& item) {
  item.stream.reset();
  if (item.spilled_at) return;
  if (item.size && *item.size > kBlockBytes && item.expanded >= kMostTimes * *item.size && can_spill_)
    spill(item);
  if (item.spilled_at) return;
  item.stream = std::make_unique<ZstdStream>(item.stored.read, item.stored.bytes, item.stored.where);
  item.next_block = 0;
}

// The last one has fewer bytes, perhaps none; the stream ends with it.
ExpandedItems::Block ExpandedItems::expand_next(Item& item) {
  auto bytes = std::make_shared<Bytes>(kBlockBytes);
  auto stream = std::move(item.stream);  // of no more use when it fails
  bytes->resize(stream->next(*bytes));
  item.expanded += bytes->size();
  expanded_bytes_ += bytes->size();
  if (stream->position() > item.stored.most) {
    fail_corrupt("{}: its {} bytes expand to more than {}, which is more than the item can have",
                 item.stored.where, item.stored.bytes, item.stored.most);
  }
  const std::uint64_t number = item.next_block++;
  keep({item.number, number}, bytes);
  if (bytes->size() < kBlockBytes)
    item.size = stream->position();
  else
    item.stream = std::move(stream);
  return bytes;
}

void ExpandedItems::expand_rest(Item& item) {
  if (!item.stream) start(item);
  while (!item.size) {
    if (item.next_block >= kTrailToEnd) drop({item.number, item.next_block - kTrailToEnd});
    expand_next(item);
  }
}

// What fails here, a full disk before all, costs time, not the run.
void ExpandedItems::spill(Item& item) {
  ZstdStream stream(item.stored.read, item.stored.bytes, item.stored.where);
  Bytes piece(kBlockBytes);
  std::uint64_t begin;
  {
    const std::lock_guard lock(mutex_);
    begin = spill_end_;
    spill_end_ += *item.size;
  }
  while (stream.position() < *item.size) {
    const std::uint64_t at = stream.position();
    const auto next = std::span(piece).first(stream.next(piece));
    if (next.empty() || stream.position() > *item.size)
      fail_corrupt("{}: the item has changed while it was read", item.stored.where);
    expanded_bytes_ += next.size();
    try {
      spill_file().write(begin + at, next);
    } catch (const Error&) {
      can_spill_ = false;
      return;
    }
  }
  item.spilled_at = begin;
}

// --- what is kept of all items ----------------------------------------------------------------------------

File& ExpandedItems::spill_file() {
  const std::lock_guard lock(mutex_);
  if (!spill_file_) spill_file_ = unnamed_file(spill_files_);
  return *spill_file_;
}

void ExpandedItems::limit_streams(const ItemRef& last_used) {
  std::list<ItemRef> dropped;
  {
    const std::lock_guard lock(mutex_);
    idle_.remove(last_used);
    idle_.push_front(last_used);
    while (idle_.size() > kIdleStreams) dropped.splice(dropped.begin(), idle_, std::prev(idle_.end()));
  }
  for (const ItemRef& one : dropped) {
    if (const std::unique_lock lock(one->mutex, std::try_to_lock); lock) one->stream.reset();
  }
}

ExpandedItems::Block ExpandedItems::find(Place place) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(place);
  if (found == kept_.end()) return nullptr;
  by_use_.splice(by_use_.begin(), by_use_, found->second);
  return found->second->block;
}

void ExpandedItems::keep(Place place, Block block) {
  const std::lock_guard lock(mutex_);
  if (kept_.contains(place)) return;
  by_use_.push_front({place, std::move(block)});
  kept_.emplace(place, by_use_.begin());
  if (by_use_.size() <= kKeptBlocks) return;
  kept_.erase(by_use_.back().place);
  by_use_.pop_back();
}

void ExpandedItems::drop(Place place) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(place);
  if (found == kept_.end()) return;
  by_use_.erase(found->second);
  kept_.erase(found);
}

}  // namespace cairn::dcp
