// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/verify_worker.hpp"

#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/workers.hpp"
#include "formats/dcp/expanded_items.hpp"
#include "formats/dcp/item_check.hpp"
#include "formats/torch_file/archive_check.hpp"
#include "storage/file_cache.hpp"

namespace cairn {
namespace {

using torch_file::ArchiveIndex;
using torch_file::Findings;

bool is_damage(const Error& error) {
  return error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::unsupported;
}

// The directory of an item that is checked in slices, perhaps by several threads.
struct OpenArchive {
  std::uint64_t item;
  ArchiveIndex index;
  std::string failure;  // why there is none
};

// Keeps the last few.
class OpenArchives {
 public:
  explicit OpenArchives(std::size_t most) : most_(most) {}

  std::shared_ptr<const OpenArchive> open(std::uint64_t item, std::uint64_t base, std::uint64_t bytes,
                                          File& file) {
    const std::lock_guard lock(mutex_);  // also while reading: the others most likely wait for the same
    for (const auto& one : open_) {
      if (one->item == item) return one;
    }
    auto made = std::make_shared<OpenArchive>(OpenArchive{item, {}, {}});
    try {
      made->index.read([&](std::uint64_t at, std::span<std::byte> into) { file.read(base + at, into); },
                       bytes);
    } catch (const Error& error) {
      if (!is_damage(error)) throw;
      made->failure = error.message();
    }
    if (open_.size() == most_) open_.pop_front();
    open_.push_back(made);
    return made;
  }

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::list<std::shared_ptr<const OpenArchive>> open_;
};

// What a compressed item expands to, as a file.
class ExpandedFile final : public File {
 public:
  ExpandedFile(dcp::ExpandedItems& items, std::uint64_t item, std::string path)
      : File(std::move(path)), items_(items), item_(item) {}

  std::uint64_t size() override { return items_.size(item_); }
  void read(std::uint64_t byte_offset, std::span<std::byte> into) override {
    items_.read(item_, byte_offset, into);
  }

  FileStatus status() override { refuse(); }
  void write(std::uint64_t, std::span<const std::byte>) override { refuse(); }
  std::uint64_t copy_from(File&, std::uint64_t, std::uint64_t, std::uint64_t) override { refuse(); }
  void allocate(std::uint64_t) override { refuse(); }
  void sync() override {}
  void close() override {}
  bool try_lock() override { refuse(); }
  bool try_lock_shared() override { refuse(); }

 private:
  [[noreturn]] void refuse() const { fail(ErrorKind::unsupported, "{}: is read only", path()); }

  dcp::ExpandedItems& items_;
  std::uint64_t item_;
};

struct Shared {
  const VerifyItems& items;
  bool strict;
  FileCache files;
  OpenArchives archives;
  dcp::ExpandedItems expanded;  // by the number in the catalogue: chunks, then objects

  std::uint64_t catalog_number(const VerifyItem& item) const {
    return item.kind == VerifyItem::Kind::object ? items.task().catalog.chunks().size() + item.index
                                                 : item.index;
  }
  dcp::ExpandedItems::Stored find_stored(std::uint64_t number) {
    const Catalog& catalog = items.task().catalog;
    const std::uint64_t chunks = catalog.chunks().size();
    const StoredItem& item =
        number < chunks ? catalog.chunks()[number] : catalog.objects()[number - chunks].item;
    const auto read = [this, &item](std::uint64_t at, std::span<std::byte> into) {
      files.open(items.task().file_path(item.file))->read(item.byte_offset + at, into);
      expanded_read_bytes += into.size();
    };
    return {read, item.byte_length, dcp::most_expanded_bytes(catalog, number), {}};
  }

  std::atomic<std::uint64_t> expanded_read_bytes{0};
};

// One thread's part.
class UnitCheck {
 public:
  explicit UnitCheck(Shared& shared) : shared_(shared), reader_(VerifyItems::kSmallBytes) {}

  void check(const VerifyUnit& unit) {
    const VerifyItem &first = shared_.items.items()[unit.begin], &last = shared_.items.items()[unit.end - 1];
    const auto file = shared_.files.open(shared_.items.task().file_path(first.file));
    const bool is_slice = unit.slice.size() > 0;
    reader_.start(file, is_slice ? first.byte_offset + unit.slice.end : last.byte_offset + last.byte_length);
    for (std::uint64_t i = unit.begin; i < unit.end; ++i) {
      Findings findings;
      const VerifyItem& item = shared_.items.items()[i];
      try {
        if (shared_.items.is_compressed(item))
          check_compressed(item, findings);
        else if (is_slice)
          check_slice(i, item, unit.slice, findings);
        else
          check_whole(item, findings);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::corrupt) throw;  // the file has become shorter than it was
        findings.add(FaultKind::short_file, 0, error.message());
      }
      outcome_.add(shared_.items, i, std::move(findings));
    }
  }

  VerifyOutcome take() {
    outcome_.read_bytes = reader_.read_bytes() - out_of_items_;
    return std::move(outcome_);
  }

 private:
  // One thread reads it from front to back, whatever its size. Bytes of damage are counted in what it expands
  // to; the fault is of the item's first byte.
  void check_compressed(const VerifyItem& item, Findings& findings) {
    try {
      check_stored_bytes(item, findings);
      check_expanded(item, findings);
    } catch (const Error& error) {
      if (!is_damage(error)) throw;
      findings.add(FaultKind::header, 0, error.message());
    }
  }

  void check_stored_bytes(const VerifyItem& item, Findings& findings) {
    const auto whole = [&] {
      std::uint32_t crc = 0;
      std::vector<std::byte> piece(std::min<std::uint64_t>(item.byte_length, VerifyItems::kSmallBytes));
      for (std::uint64_t at = 0; at < item.byte_length; at += piece.size()) {
        piece.resize(std::min<std::uint64_t>(piece.size(), item.byte_length - at));
        reader_.peek(item.byte_offset + at, piece);
        crc = crc32(piece, crc);
      }
      return crc;
    };
    has_manifest_crc_ = compare_with_manifest(item, whole, findings);
  }

  void check_expanded(const VerifyItem& item, Findings& findings) {
    const auto file = std::make_shared<ExpandedFile>(shared_.expanded, shared_.catalog_number(item),
                                                     shared_.items.task().file_path(item.file));
    VerifyItem expanded = item;
    expanded.byte_offset = 0;
    expanded.byte_length = file->size();
    reader_.start(file, expanded.byte_length);
    const std::uint64_t before = reader_.read_bytes();
    Findings inside;
    if (is_archive(expanded, inside)) {
      ArchiveIndex index;
      index.read([&](std::uint64_t at, std::span<std::byte> into) { file->read(at, into); },
                 expanded.byte_length);
      check_archive(expanded, index, {0, expanded.byte_length}, inside);
    }
    for (auto& damage : inside.damages) {
      if (damage.byte_offset > 0)
        damage.message = fmt::format("expanded, at byte {}: {}", damage.byte_offset, damage.message);
      findings.add(damage.kind, 0, std::move(damage.message));
    }
    findings.damage_count += inside.damage_count - inside.damages.size();
    findings.checked_bytes += inside.checked_bytes;
    out_of_items_ += reader_.read_bytes() - before;
  }

  void check_whole(const VerifyItem& item, Findings& findings) {
    const auto bytes = reader_.view(item.byte_offset, static_cast<std::size_t>(item.byte_length));
    has_manifest_crc_ = compare_with_manifest(
        item, [&] { return crc32(bytes); }, findings);
    if (!is_archive(item, findings)) return;
    try {
      index_.read(bytes);
    } catch (const Error& error) {
      if (!is_damage(error)) throw;
      return findings.add(FaultKind::header, 0, error.message());
    }
    check_archive(item, index_, {0, item.byte_length}, findings);
  }

  // False where the manifest does not know the item.
  template <class Crc>
  bool compare_with_manifest(const VerifyItem& item, Crc&& crc, Findings& findings) const {
    const auto expected = shared_.items.manifest_crc(item);
    if (!expected || item.is_alias) return expected.has_value();
    const std::uint32_t found = crc();
    if (found == *expected) return true;
    findings.add(FaultKind::crc, 0,
                 fmt::format("the CRC-32 of its {} bytes is {:08x}, the manifest says {:08x}",
                             item.byte_length, found, *expected));
    return true;
  }

  // The CRC of an item that is read in slices: that of its largest record is compared on the way with the
  // stored one, so only what lies around it is read here.
  void compare_around(const VerifyItem& item, const ArchiveIndex& index, Findings& findings) {
    const auto largest =
        std::ranges::max_element(index.directory().entries, {}, [](const auto& entry) { return entry.size; });
    if (largest == index.directory().entries.end() || largest->crc == 0) return;
    const std::uint64_t at = torch_file::payload_begin(*largest, item.byte_offset, reader_);
    if (at > item.byte_length || largest->size > item.byte_length - at) return;  // a fault by itself
    const ByteRange payload{at, at + largest->size};
    const auto around = [&](std::uint64_t begin, std::uint64_t end, std::uint32_t crc) {
      std::vector<std::byte> piece(std::min<std::uint64_t>(end - begin, VerifyItems::kSmallBytes));
      for (std::uint64_t from = begin; from < end; from += piece.size()) {
        piece.resize(std::min<std::uint64_t>(piece.size(), end - from));
        reader_.peek(item.byte_offset + from, piece);
        crc = crc32(piece, crc);
      }
      return crc;
    };
    const auto whole = [&] {
      const std::uint32_t before = around(0, payload.begin, 0);
      return around(payload.end, item.byte_length, crc32_combine(before, largest->crc, payload.size()));
    };
    compare_with_manifest(item, whole, findings);
  }

  void check_slice(std::uint64_t i, const VerifyItem& item, ByteRange slice, Findings& findings) {
    has_manifest_crc_ = false;
    if (slice.begin == 0 && !is_archive(item, findings)) return;
    const auto archive = shared_.archives.open(i, item.byte_offset, item.byte_length, reader_.file());
    if (archive->failure.empty()) {
      if (slice.begin == 0 && shared_.items.manifest_crc(item))
        compare_around(item, archive->index, findings);
      return check_archive(item, archive->index, slice, findings);
    }
    if (slice.begin == 0) findings.add(FaultKind::header, 0, archive->failure);
  }

  // An object may be raw bytes: custom planners store them.
  bool is_archive(const VerifyItem& item, Findings& findings) {
    if (dcp::is_archive(item.byte_offset, item.byte_length, reader_)) return true;
    if (item.kind != VerifyItem::Kind::object) {
      findings.add(FaultKind::header, 0, "no torch.save archive (the bytes 'PK\\3\\4' expected)");
    } else if (item.byte_length > 0) {
      count_unchecked("the object is no torch.save archive: it has no CRC-32", findings);
    }
    return false;
  }

  void count_unchecked(std::string_view why, Findings& findings) {
    if (has_manifest_crc_) return;
    ++outcome_.unchecked_items;
    if (shared_.strict) findings.add(FaultKind::crc, 0, std::string(why));
  }

  void check_archive(const VerifyItem& item, const ArchiveIndex& index, ByteRange slice, Findings& findings) {
    const std::uint64_t base = item.byte_offset;
    if (!item.is_alias) torch_file::check_slice(index, base, slice.begin, slice.end, reader_, findings);
    if (slice.begin > 0) return;
    if (index.has_unchecked()) count_unchecked("records without a CRC-32 (0 is stored)", findings);
    const Catalog& catalog = shared_.items.task().catalog;
    if (item.kind == VerifyItem::Kind::chunk) {
      const TensorInfo& tensor = catalog.tensors()[item.tensor];
      const dcp::ChunkClaim claim{tensor.dtype, catalog.box(tensor, catalog.chunks()[item.index])};
      dcp::check_chunk(claim, index, base, reader_, findings);
    } else {
      dcp::check_object(index, base, reader_, findings);
    }
  }

  Shared& shared_;
  SequentialReader reader_;
  ArchiveIndex index_;
  VerifyOutcome outcome_;
  std::uint64_t out_of_items_ = 0;  // that the reader read, and no file gave
  bool has_manifest_crc_ = false;   // the item that is checked was compared as a whole
};

class Job {
 public:
  Job(FileSystem& files, const VerifyItems& items, ByteRange owned, const VerifyWork& work)
      : shared_{items, work.strict, FileCache(files),
                OpenArchives(static_cast<std::size_t>(work.threads) + 1),
                dcp::ExpandedItems([this](std::uint64_t number) { return shared_.find_stored(number); })},
        end_(owned.end),
        next_(owned.begin) {}

  VerifyOutcome run(const VerifyWork& work) {
    std::function<void()> poll;
    if (work.progress) poll = [&] { work.progress(done_bytes_); };
    run_workers(
        work.threads, [this](const std::atomic<bool>& stop) { check(stop); }, poll);
    outcome_.read_bytes += shared_.expanded_read_bytes;
    return std::move(outcome_);
  }

 private:
  void check(const std::atomic<bool>& stop) {
    UnitCheck check(shared_);
    while (!stop) {
      const std::uint64_t i = next_.fetch_add(1);
      if (i >= end_) break;
      const VerifyUnit& unit = shared_.items.units()[i];
      check.check(unit);
      done_bytes_ += unit.bytes;
    }
    const std::lock_guard lock(mutex_);
    outcome_.merge(check.take());
  }

  Shared shared_;
  const std::uint64_t end_;
  std::atomic<std::uint64_t> next_, done_bytes_{0};
  std::mutex mutex_;
  VerifyOutcome outcome_;  // guarded while threads run
};

}  // namespace

VerifyOutcome check_units(FileSystem& files, const VerifyItems& items, ByteRange owned,
                          const VerifyWork& work) {
  return Job(files, items, owned, work).run(work);
}

}  // namespace cairn
