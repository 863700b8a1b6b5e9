// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/load_source.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <type_traits>

#include "base/byte_reader.hpp"
#include "base/checked.hpp"
#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/dcp/bare_source.hpp"
#include "formats/dcp/item_writer.hpp"
#include "formats/dcp/rank_metadata.hpp"
#include "formats/dcp/source.hpp"
#include "formats/dcp/structure.hpp"
#include "formats/layout/companions.hpp"
#include "formats/layouts.hpp"
#include "formats/merged/merged_source.hpp"
#include "formats/torch_file/source.hpp"
#include "formats/torch_file/state_pickle.hpp"

namespace cairn {
namespace {

constexpr std::uint8_t kDirectory = 0, kTorchFile = 1, kSafetensors = 2,
                       kMerged = 3;  // what comes first on the wire

/// A DCP directory; or, of BareSource, safetensors files.
template <class Chunks>
class DcpLoadSource final : public LoadSource {
 public:
  DcpLoadSource(FileSystem& files, std::string directory, Catalog catalog)
      : directory_(directory), source_(files, std::move(directory), std::move(catalog)) {}

  Source& chunks() override { return source_; }
  bool has_objects_everywhere() const override { return true; }

  Bytes object_item(const ObjectInfo& object) override {
    return with_context([&] { return describe(object); }, [&] { return source_.object_bytes(object); });
  }

  std::string describe(const ObjectInfo& object) override {
    const Catalog& catalog = source_.catalog();
    return fmt::format("'{}' in {} at byte {}", escape_name(catalog.name(object)),
                       escape_name(catalog.files()[object.item.file]), object.item.byte_offset);
  }

  Bytes encode() const override {
    ByteWriter out;
    out.write(std::is_same_v<Chunks, dcp::BareSource> ? kSafetensors : kDirectory);
    out.counted_text(directory_);
    out.append(source_.catalog().encode());
    return out.take();
  }

 private:
  std::string directory_;
  Chunks source_;
};

using DirectoryLoadSource = DcpLoadSource<dcp::DirectorySource>;
using SafetensorsLoadSource = DcpLoadSource<dcp::BareSource>;

/// Objects of a torch file as torch.save makes them on their own.
class TorchObjects {
 public:
  explicit TorchObjects(torch_file::FileSource& source) : source_(source) {}

  Bytes item(const ObjectInfo& object) {
    const auto number = static_cast<std::uint32_t>(&object - source_.catalog().objects().data());
    const auto find_storage = [&](std::uint32_t, pickle::Value id) {
      return source_.find_storage(arena_, id, object);
    };
    const auto made = torch_file::pickle_object(source_.catalog(), arena_, number,
                                                source_.read_object(arena_, object), find_storage);
    std::vector<Bytes> storages;
    for (const RecordContent& content : made.storages) storages.push_back(read(content));
    return dcp::object_item(made.pickle, storages);
  }

 private:
  Bytes read(const RecordContent& content) {
    check_copies(content);
    Bytes bytes(content.bytes);
    source_.read(content.file, content.byte_offset, bytes);
    if (const std::uint32_t crc = crc32(bytes); content.crc != 0 && crc != content.crc) {
      fail_corrupt("the storage of {} bytes at byte {} has CRC-32 {:08x}, {:08x} expected", content.bytes,
                   content.byte_offset, crc, content.crc);
    }
    return bytes;
  }

  // Each object has its own copy of the storages that it shares with others.
  void check_copies(const RecordContent& content) {
    copied_bytes_ = checked_add(copied_bytes_, content.bytes, "size of objects");
    if (copied_.insert(content.byte_offset).second) distinct_bytes_ += content.bytes;
    if (copied_bytes_ > kMostCopied && copied_bytes_ / kMostCopies > distinct_bytes_) {
      fail(ErrorKind::unsupported, "objects share storages of {} bytes: on their own they are more than {}",
           distinct_bytes_, copied_bytes_);
    }
  }

  static constexpr std::uint64_t kMostCopied = 64 << 20, kMostCopies = 4;

  torch_file::FileSource& source_;
  pickle::Arena arena_;             // the file's values, of all objects
  std::set<std::uint64_t> copied_;  // storages, by where they begin
  std::uint64_t copied_bytes_ = 0, distinct_bytes_ = 0;
};

/// Its pickle is where the file was opened.
class TorchFileLoadSource final : public LoadSource {
 public:
  TorchFileLoadSource(FileSystem& files, const FilePlace& place)
      : place_(place), source_(files, place.directory, place.name, torch_file::EmptyDicts::drop) {}
  TorchFileLoadSource(FileSystem& files, const FilePlace& place, std::span<const std::byte> encoded)
      : place_(place), source_(files, place.directory, encoded) {}

  Source& chunks() override { return source_; }
  bool has_objects_everywhere() const override { return false; }

  Bytes object_item(const ObjectInfo& object) override {
    return with_context([&] { return describe(object); }, [&] { return objects_.item(object); });
  }

  std::string describe(const ObjectInfo& object) override {
    return fmt::format("'{}' in {}", escape_name(source_.catalog().name(object)), escape_name(place_.name));
  }

  Bytes encode() const override {
    ByteWriter out;
    out.write(kTorchFile);
    out.counted_text(place_.directory);
    out.counted_text(place_.name);
    out.append(source_.encode());
    return out.take();
  }

  const std::vector<std::string>& notes() const { return source_.notes(); }

 private:
  FilePlace place_;
  torch_file::FileSource source_;
  TorchObjects objects_{source_};
};

/// A DCP directory and the torch file that belongs to it, under the names as they are stored.
class MergedLoadSource final : public LoadSource {
 public:
  MergedLoadSource(std::string directory, std::unique_ptr<MergedSource> source)
      : directory_(std::move(directory)), source_(std::move(source)) {}

  Source& chunks() override { return *source_; }
  bool has_objects_everywhere() const override { return false; }

  Bytes object_item(const ObjectInfo& object) override {
    return with_context([&] { return describe(object); },
                        [&] {
                          if (const ObjectInfo* of_file = source_->object_of_file(object))
                            return objects_.item(*of_file);
                          return source_->object_bytes(object);
                        });
  }

  std::string describe(const ObjectInfo& object) override {
    const Catalog& catalog = source_->catalog();
    return fmt::format("'{}' in {}", escape_name(catalog.name(object)),
                       escape_name(catalog.files()[object.item.file]));
  }

  Bytes encode() const override {
    ByteWriter out;
    out.write(kMerged);
    out.counted_text(directory_);
    out.append(source_->encode());
    return out.take();
  }

 private:
  std::string directory_;
  std::unique_ptr<MergedSource> source_;
  TorchObjects objects_{source_->file()};
};

std::unique_ptr<MergedSource> merged_source(FileSystem& shards, const Located& located, Catalog catalog) {
  const auto rule =
      located.companion == layout::kMegatronFile ? MergeRule::megatron : MergeRule::lightning_stored;
  return std::make_unique<MergedSource>(
      std::make_unique<dcp::DirectorySource>(shards, located.path, std::move(catalog)),
      std::make_unique<torch_file::FileSource>(shards, located.path, located.companion,
                                               torch_file::EmptyDicts::drop),
      rule);
}

bool may_come_late(const FaultList& faults) {
  return std::ranges::any_of(faults.faults(), [](const Fault& fault) {
    return fault.kind == FaultKind::missing_file || fault.kind == FaultKind::short_file;
  });
}

// Files that are missing or too short may come late.
template <class Check>
void until_there(double timeout_s, const std::string& directory, Check check) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::chrono::milliseconds pause(20);; pause = std::min(2 * pause, std::chrono::milliseconds(1000))) {
    FaultList faults;
    check(faults);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() >= timeout_s || !may_come_late(faults)) return faults.throw_if_any(directory);
    std::this_thread::sleep_for(pause);
  }
}

// As check_structure() of a directory.
safetensors::Contents read_contents(FileSystem& files, const safetensors::Site& site, double timeout_s) {
  safetensors::Contents contents;
  until_there(timeout_s, site.directory,
              [&](FaultList& faults) { contents = safetensors::read_contents(files, site, faults); });
  return contents;
}

}  // namespace

OpenedSource open_load_source(FileSystem& files, FileSystem& shards, const std::string& path,
                              double timeout_s) {
  Located located = locate_checkpoint(files, path);
  OpenedSource opened;
  if (!located.note.empty()) opened.notes.push_back(std::move(located.note));
  if (located.kind == Located::Kind::torch_file) {
    auto source = std::make_unique<TorchFileLoadSource>(shards, place_of(located.path));
    opened.notes.insert(opened.notes.end(), source->notes().begin(), source->notes().end());
    opened.source = std::move(source);
    return opened;
  }
  if (located.kind != Located::Kind::dcp) {
    const safetensors::Site site = site_of(files, located);
    auto contents = read_contents(files, site, timeout_s);
    opened.notes.insert(opened.notes.end(), contents.notes.begin(), contents.notes.end());
    opened.source =
        std::make_unique<SafetensorsLoadSource>(shards, site.directory, std::move(contents.catalog));
    return opened;
  }
  opened.pin = ReadPin::take(files, located.path + "/" + dcp::first_metadata_name(files, located.path));
  FaultList faults;
  auto metadata = dcp::decode_metadata_file(files, located.path, faults);
  faults.throw_if_any(located.path);
  until_there(timeout_s, located.path,
              [&](FaultList& found) { dcp::check_structure(files, located.path, metadata.catalog, found); });
  opened.notes.insert(opened.notes.end(), metadata.notes.begin(), metadata.notes.end());
  if (!located.companion.empty()) {
    auto merged = merged_source(shards, located, std::move(metadata.catalog));
    opened.notes.insert(opened.notes.end(), merged->notes().begin(), merged->notes().end());
    opened.source = std::make_unique<MergedLoadSource>(std::move(located.path), std::move(merged));
    return opened;
  }
  opened.source =
      std::make_unique<DirectoryLoadSource>(shards, std::move(located.path), std::move(metadata.catalog));
  return opened;
}

std::unique_ptr<LoadSource> decode_load_source(FileSystem& shards, std::span<const std::byte> encoded) {
  ByteReader in(encoded, "source of a load");
  const auto kind = in.read<std::uint8_t>();
  std::string directory(in.counted_text());
  if (kind == kTorchFile) {
    const FilePlace place{std::move(directory), std::string(in.counted_text())};
    return std::make_unique<TorchFileLoadSource>(shards, place, in.bytes(in.remaining()));
  }
  if (kind == kMerged) {
    auto merged = MergedSource::decode(shards, directory, in.bytes(in.remaining()));
    return std::make_unique<MergedLoadSource>(std::move(directory), std::move(merged));
  }
  auto catalog = Catalog::decode(in.bytes(in.remaining()));
  if (kind == kSafetensors)
    return std::make_unique<SafetensorsLoadSource>(shards, std::move(directory), std::move(catalog));
  return std::make_unique<DirectoryLoadSource>(shards, std::move(directory), std::move(catalog));
}

}  // namespace cairn
