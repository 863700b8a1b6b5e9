// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/load_source.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/byte_reader.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/dcp/item_writer.hpp"
#include "formats/dcp/source.hpp"
#include "formats/dcp/structure.hpp"
#include "formats/layouts.hpp"
#include "formats/torch_file/source.hpp"

namespace cairn {
namespace {

constexpr std::uint8_t kDirectory = 0, kTorchFile = 1;  // what comes first on the wire

class DcpLoadSource final : public LoadSource {
 public:
  DcpLoadSource(FileSystem& files, std::string directory, Catalog catalog)
      : directory_(directory), source_(files, std::move(directory), std::move(catalog)) {}

  Source& chunks() override { return source_; }
  bool has_objects_everywhere() const override { return true; }

  Bytes object_item(const ObjectInfo& object) override {
    Bytes item(object.item.byte_length);
    with_context([&] { return describe(object); },
                 [&] { source_.read(object.item.file, object.item.byte_offset, item); });
    return item;
  }

  std::string describe(const ObjectInfo& object) override {
    const Catalog& catalog = source_.catalog();
    return fmt::format("'{}' in {} at byte {}", escape_name(catalog.name(object)),
                       escape_name(catalog.files()[object.item.file]), object.item.byte_offset);
  }

  Bytes encode() const override {
    ByteWriter out;
    out.write(kDirectory);
    out.counted_text(directory_);
    out.append(source_.catalog().encode());
    return out.take();
  }

 private:
  std::string directory_;
  dcp::DirectorySource source_;
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
    return with_context([&] { return describe(object); },
                        [&] { return dcp::object_item(arena_, source_.read_object(arena_, object)); });
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
  pickle::Arena arena_;  // the file's values, of all objects
};

bool may_come_late(const FaultList& faults) {
  return std::ranges::any_of(faults.faults(), [](const Fault& fault) {
    return fault.kind == FaultKind::missing_file || fault.kind == FaultKind::short_file;
  });
}

void check_structure(FileSystem& files, const std::string& directory, const Catalog& catalog,
                     double timeout_s) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::chrono::milliseconds pause(20);; pause = std::min(2 * pause, std::chrono::milliseconds(1000))) {
    FaultList faults;
    dcp::check_structure(files, directory, catalog, faults);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() >= timeout_s || !may_come_late(faults)) return faults.throw_if_any(directory);
    std::this_thread::sleep_for(pause);
  }
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
  opened.pin = ReadPin::take(files, located.path + "/.metadata");
  FaultList faults;
  auto metadata = dcp::decode_metadata_file(files, located.path, faults);
  faults.throw_if_any(located.path);
  check_structure(files, located.path, metadata.catalog, timeout_s);
  opened.notes.insert(opened.notes.end(), metadata.notes.begin(), metadata.notes.end());
  opened.source =
      std::make_unique<DcpLoadSource>(shards, std::move(located.path), std::move(metadata.catalog));
  return opened;
}

std::unique_ptr<LoadSource> decode_load_source(FileSystem& shards, std::span<const std::byte> encoded) {
  ByteReader in(encoded, "source of a load");
  const bool is_file = in.read<std::uint8_t>() == kTorchFile;
  std::string directory(in.counted_text());
  if (is_file) {
    const FilePlace place{std::move(directory), std::string(in.counted_text())};
    return std::make_unique<TorchFileLoadSource>(shards, place, in.bytes(in.remaining()));
  }
  return std::make_unique<DcpLoadSource>(shards, std::move(directory),
                                         Catalog::decode(in.bytes(in.remaining())));
}

}  // namespace cairn
