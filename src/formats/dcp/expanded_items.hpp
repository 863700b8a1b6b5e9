// SPDX-License-Identifier: BSD-3-Clause
// Items that were compressed, read by range of what they expand to. Local; any thread.
//
// A zstd stream has no entry but its beginning, and does not say how long it is. So an item is expanded from
// front to back as far as a read needs it, and:
//   - a reading that goes on where the last one stopped goes on with the same stream;
//   - the last 16 MiB of all that came out are kept, for readers that are a little behind (threads take
//     windows one after the other, but get there in any order) and for items that are small;
//   - an item that was expanded three times over, because its parts are wanted in another order, is expanded
//     once more into a temporary file without a name (in $TMPDIR, else /tmp), one for all, and read from
//     there. Where that has no room, items go on being expanded again.
// Memory: 16 MiB, kIdleStreams streams and one a thread, each a window (torch's: 2 MiB, kMostWindowLog at
// most) and 256 KiB.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/byte_writer.hpp"
#include "cairn/metadata.hpp"
#include "cairn/storage.hpp"
#include "formats/dcp/zstd_stream.hpp"

namespace cairn::dcp {

inline constexpr std::size_t kIdleStreams = 4;

/// What a compressed item may expand to: twice the bytes of its chunk, and 16 MiB; of an object 1024 times
/// what is stored, and 64 MiB. `number` is that of a chunk, or of an object when the chunks are subtracted.
std::uint64_t most_expanded_bytes(const Catalog& catalog, std::uint64_t number);
/// The tensor that a chunk is of.
const TensorInfo& tensor_of_item(const Catalog& catalog, std::uint64_t chunk);

class ExpandedItems {
 public:
  struct Stored {
    ZstdStream::Read read;  ///< of the stored bytes, from the item's first one on
    std::uint64_t bytes;
    std::uint64_t most;  ///< that it may expand to
    std::string where;   ///< tensor, file and offset
  };
  /// Tells of an item by its number.
  using Find = std::function<Stored(std::uint64_t item)>;

  /// `spill_files` outlives the object: where the temporary file is made.
  explicit ExpandedItems(Find find, FileSystem& spill_files = posix_file_system())
      : find_(std::move(find)), spill_files_(spill_files) {}

  /// Of all that the item expands to. Throws corrupt, also beyond `most`; what ZstdStream::next and reading
  /// throw.
  std::uint64_t size(std::uint64_t item);
  /// Likewise; corrupt for bytes beyond the end.
  void read(std::uint64_t item, std::uint64_t at, std::span<std::byte> into);

  /// Bytes that came out of streams so far, whatever became of them.
  std::uint64_t expanded_bytes() const { return expanded_bytes_; }

 private:
  struct Item;
  using ItemRef = std::shared_ptr<Item>;
  using Block = std::shared_ptr<const Bytes>;
  using Place = std::pair<std::uint64_t, std::uint64_t>;  // item, number of the block
  struct Kept {
    Place place;
    Block block;
  };

  ItemRef open(std::uint64_t number);
  Block block_at(Item& item, std::uint64_t block);
  void start(Item& item);
  Block expand_next(Item& item);
  void expand_rest(Item& item);
  void spill(Item& item);
  File& spill_file();
  [[noreturn]] static void fail_beyond(const Item& item, std::uint64_t at);
  void limit_streams(const ItemRef& last_used);

  Block find(Place place);
  void keep(Place place, Block block);
  void drop(Place place);

  Find find_;
  FileSystem& spill_files_;
  std::atomic<bool> can_spill_{true};
  std::atomic<std::uint64_t> expanded_bytes_{0};
  std::mutex mutex_;  // of what follows
  std::unordered_map<std::uint64_t, ItemRef> items_;
  std::list<ItemRef> idle_;  // with a stream, used last first
  std::list<Kept> by_use_;   // used last first
  std::map<Place, std::list<Kept>::iterator> kept_;
  std::unique_ptr<File> spill_file_;  // made once, then read and written without the mutex
  std::uint64_t spill_end_ = 0;
};

}  // namespace cairn::dcp
