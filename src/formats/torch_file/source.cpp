// SPDX-License-Identifier: BSD-3-Clause
#include "formats/torch_file/source.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/byte_reader.hpp"
#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "formats/torch_file/archive.hpp"
#include "formats/torch_file/records.hpp"
#include "formats/torch_file/tensor_value.hpp"
#include "pickle/reader.hpp"

namespace cairn::torch_file {
namespace {

constexpr std::uint64_t kSmallRecordBytes = 64 << 10;  // header and payload are read in one request

// A directory of the one record whose bytes are there: its header is checked against it.
struct OneRecord {
  OneRecord(std::string_view name, std::uint64_t at, std::uint64_t end, std::uint64_t bytes) {
    entry.name = name;
    entry.header_offset = at;
    entry.size = entry.compressed_size = bytes;
    directory.byte_offset = end;
  }
  zip::Directory directory;
  zip::Entry entry;
};

}  // namespace

// What stays open for objects.
struct FileSource::Opened {
  Opened(FileSource& source, const std::string& file, EmptyDicts wanted)
      : where(source.files_.directory() + "/" + file),
        empty_dicts(wanted),
        read_at([&source](std::uint64_t at, std::span<std::byte> into) { source.read(0, at, into); }),
        archive(read_at, source.files_.open(file)->size(), where) {
    if (archive.is_script())
      fail(ErrorKind::unsupported, "{}: a TorchScript archive; Cairn reads what torch.save writes", where);
    Bytes buffer;
    const auto bytes = archive.pickle_bytes(buffer);
    pickle.assign(bytes.begin(), bytes.end());
  }

  pickle::Value read(pickle::Arena& into) const {
    return pickle::read(into, pickle, fmt::format("{}: data.pkl", where));
  }

  const std::string where;
  const EmptyDicts empty_dicts;
  const zip::ReadAt read_at;
  const Archive archive;
  Bytes pickle;
  // the arena that objects were read into last, and they
  const pickle::Arena* arena = nullptr;
  std::vector<pickle::Value> objects;
};

// Makes the catalogue.
class FileSource::Opening {
 public:
  Opening(FileSource& source, const Opened& opened) : source_(source), opened_(opened) {
    for (const zip::Entry& entry : opened.archive.directory().entries) starts_.push_back(entry.header_offset);
    std::ranges::sort(starts_);
  }

  void run() {
    const FlatState state(arena_, opened_.read(arena_), opened_.pickle.size(), opened_.empty_dicts);
    source_.catalog_.reserve_entries(state.size());
    state.visit_all([&](std::string_view name, std::span<const FlatState::Step> path, pickle::Value value,
                        bool is_tensor) {
      const StringId id = source_.catalog_.add_string(name);
      if (is_tensor)
        with_context([&] { return fmt::format("'{}'", escape_name(name)); }, [&] { add_tensor(id, value); });
      else
        source_.catalog_.add_object(id, 0, 0, 0);
      add_path(path);
    });
    note_dropped(state);
    std::ranges::sort(source_.integer_keys_, {}, &IntegerKey::text);
  }

 private:
  void add_tensor(StringId name, pickle::Value value) {
    const auto tensor = decode_tensor(arena_, value);
    if (!tensor) fail_corrupt("a tensor without its parts");
    const std::uint64_t index = storage(*tensor);
    source_.views_.push_back({index, tensor->storage_offset, source_.strides_.size()});
    source_.strides_.insert(source_.strides_.end(), tensor->strides.begin(), tensor->strides.end());
    source_.catalog_.add_tensor(name, tensor->dtype, tensor->shape);
    const Storage& record = source_.storages_[index];
    const std::vector<std::int64_t> origin(tensor->shape.size(), 0);
    source_.catalog_.add_chunk({origin, tensor->shape}, 0, record.header_offset,
                               record.end - record.header_offset);
  }

  std::uint64_t storage(const StoredTensor& tensor) {
    const zip::Entry& entry = opened_.archive.storage_entry(tensor.storage_key, tensor.storage_bytes);
    const auto [known, is_new] = known_.try_emplace(entry.header_offset, source_.storages_.size());
    if (is_new) {
      const auto next = std::ranges::upper_bound(starts_, entry.header_offset);
      source_.storages_.push_back(
          {entry.header_offset, next == starts_.end() ? opened_.archive.directory().byte_offset : *next,
           entry.size, source_.names_.size(), static_cast<std::uint32_t>(entry.name.size()), entry.crc});
      source_.names_ += entry.name;
    }
    return known->second;
  }

  void add_path(std::span<const FlatState::Step> path) {
    steps_.clear();
    for (const auto& [key, is_integer, position] : path) {
      if (position >= 0)
        steps_.push_back({position, true});
      else
        steps_.push_back({static_cast<std::int64_t>(key_id(key, is_integer)), false});
    }
    source_.catalog_.set_path(steps_);
  }

  StringId key_id(std::string_view key, bool is_integer) {
    auto& known = keys_[is_integer ? 1 : 0];
    if (const auto found = known.find(key); found != known.end()) return found->second;
    const StringId id = source_.catalog_.add_string(key);
    known.emplace(key, id);
    if (is_integer) source_.integer_keys_.push_back({id, std::stoll(std::string(key))});
    return id;
  }

  void note_dropped(const FlatState& state) {
    if (state.dropped_count() == 0) return;
    std::string names;
    for (const std::string& name : state.dropped())
      names += (names.empty() ? "'" : ", '") + escape_name(name) + "'";
    const std::size_t more = state.dropped_count() - state.dropped().size();
    source_.notes_.push_back(fmt::format("of an empty dict nothing is left: {}{}", names,
                                         more > 0 ? fmt::format(" and {} more", more) : ""));
  }

  struct TextHash : KeyedHash {
    using is_transparent = void;
  };
  using Keys = std::unordered_map<std::string, StringId, TextHash, std::equal_to<>>;

  FileSource& source_;
  const Opened& opened_;
  pickle::Arena arena_;
  std::vector<std::uint64_t> starts_;                       // of all records, in order
  std::unordered_map<std::uint64_t, std::uint64_t> known_;  // storages by where they begin
  Keys keys_[2];                                            // texts, ints
  std::vector<PathStep> steps_;
};

FileSource::FileSource(FileSystem& files, std::string directory, std::string file, EmptyDicts empty_dicts)
    : files_(files, std::move(directory)) {
  catalog_.add_file(file);
  opened_ = std::make_unique<Opened>(*this, file, empty_dicts);
  pickle_bytes_ = opened_->pickle.size();
  with_context([&] { return opened_->where; }, [&] { Opening(*this, *opened_).run(); });
}

FileSource::~FileSource() = default;

// --- chunks -----------------------------------------------------------------------------------------------

std::optional<FileRange> FileSource::small_item(std::uint64_t chunk) const {
  const Storage& storage = storages_[views_[chunk].storage];
  if (storage.end - storage.header_offset > kSmallRecordBytes) return std::nullopt;
  return FileRange{0, storage.header_offset, storage.end - storage.header_offset};
}

class FileSource::Locator final : public ItemLocator {
 public:
  explicit Locator(const FileSource& source) : source_(source) {}

  const ChunkPlace& locate(const TensorInfo& tensor, std::uint64_t chunk,
                           std::span<const std::byte> item) override {
    const Storage& storage = source_.storages_[source_.views_[chunk].storage];
    const OneRecord record(source_.name(storage), 0, item.size(), storage.bytes);
    const auto payload =
        with_context([&] { return source_.describe(storage); },
                     [&] { return zip::payload_offset(item, record.directory, record.entry, "record"); });
    place_ = source_.place(tensor, chunk, storage.header_offset + payload);
    return place_;
  }

 private:
  const FileSource& source_;
  ChunkPlace place_;
};

std::unique_ptr<ItemLocator> FileSource::item_locator() { return std::make_unique<Locator>(*this); }

std::shared_ptr<const ChunkPlace> FileSource::locate(const TensorInfo& tensor, std::uint64_t chunk) {
  if (auto known = places_.find(chunk)) return known;
  const Storage& storage = storages_[views_[chunk].storage];
  const OneRecord record(name(storage), storage.header_offset, storage.end, storage.bytes);
  const auto payload =
      zip::payload_offset([this](std::uint64_t at, std::span<std::byte> into) { read(0, at, into); },
                          record.directory, record.entry, describe(storage));
  return places_.keep(chunk, place(tensor, chunk, payload));
}

ChunkPlace FileSource::place(const TensorInfo& tensor, std::uint64_t chunk, std::uint64_t payload) const {
  const View& view = views_[chunk];
  const Storage& storage = storages_[view.storage];
  const auto shape = catalog_.shape(tensor);
  const auto strides = std::span(strides_).subspan(view.strides_at, shape.size());
  const std::uint64_t element = element_size(tensor.dtype);
  const std::uint64_t first = static_cast<std::uint64_t>(view.offset) * element;
  return {.file = 0,
          .first_byte = payload + first,
          .strides = {strides.begin(), strides.end()},
          .storage_begin = payload,
          .storage_bytes = storage.bytes,
          .storage_crc = storage.crc,
          .row_major = fills_row_major(shape, strides, element, first, storage.bytes)};
}

std::string FileSource::describe(const Storage& storage) const {
  return fmt::format("{}: record '{}' at byte {}", escape_name(catalog_.files()[0]),
                     escape_name(name(storage)), storage.header_offset);
}

void FileSource::read(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) {
  files_.read(catalog_.files()[file], byte_offset, into);
}

std::uint64_t FileSource::copy(std::uint32_t file, std::uint64_t byte_offset, std::uint64_t bytes,
                               File& output, std::uint64_t output_offset) {
  return files_.copy(catalog_.files()[file], byte_offset, bytes, output, output_offset);
}

// --- objects ----------------------------------------------------------------------------------------------

// The pickle is read once for the catalogue, and once more into the arena that wants its objects.
pickle::Value FileSource::read_object(pickle::Arena& arena, const ObjectInfo& object) {
  if (opened_->arena != &arena) {
    opened_->objects.clear();
    const FlatState state(arena, opened_->read(arena), opened_->pickle.size(), opened_->empty_dicts);
    state.visit_all(
        [&](std::string_view, std::span<const FlatState::Step>, pickle::Value value, bool is_tensor) {
          if (!is_tensor) opened_->objects.push_back(value);
        });
    opened_->arena = &arena;
  }
  return opened_->objects[static_cast<std::size_t>(&object - catalog_.objects().data())];
}

RecordContent FileSource::find_storage(const pickle::Arena& arena, pickle::Value id,
                                       const ObjectInfo& object) {
  return with_context(
      [&] { return fmt::format("{}: '{}'", opened_->where, escape_name(catalog_.name(object))); },
      [&] {
        const StorageId storage = decode_storage_id(arena, id);
        const Record record = opened_->archive.storage(storage.key, storage.bytes);
        RecordContent content;
        content.file = 0;
        content.byte_offset = record.byte_offset;
        content.bytes = storage.bytes;
        content.crc = record.size == storage.bytes ? record.crc : 0;
        return content;
      });
}

// --- the wire ---------------------------------------------------------------------------------------------

Bytes FileSource::encode() const {
  ByteWriter out;
  const auto catalog = catalog_.encode();
  out.write<std::uint64_t>(catalog.size());
  out.append(catalog);
  out.counted_text(names_);
  for (const std::uint64_t count : {storages_.size(), views_.size(), strides_.size()}) out.write(count);
  for (const Storage& storage : storages_) {
    for (const std::uint64_t number : {storage.header_offset, storage.end, storage.bytes, storage.name_at})
      out.write(number);
    out.write(storage.name_bytes);
    out.write(storage.crc);
  }
  for (const View& view : views_) {
    out.write(view.storage);
    out.write(view.offset);
    out.write(view.strides_at);
  }
  out.append(std::as_bytes(std::span(strides_)));
  return out.take();
}

FileSource::FileSource(FileSystem& files, std::string directory, std::span<const std::byte> encoded)
    : files_(files, std::move(directory)) {
  ByteReader in(encoded, "source");
  catalog_ = Catalog::decode(in.bytes(in.read<std::uint64_t>()));
  names_ = std::string(in.counted_text());
  const auto storages = in.read<std::uint64_t>(), views = in.read<std::uint64_t>(),
             strides = in.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < storages; ++i) {
    Storage& storage = storages_.emplace_back();
    for (std::uint64_t* number : {&storage.header_offset, &storage.end, &storage.bytes, &storage.name_at})
      *number = in.read<std::uint64_t>();
    storage.name_bytes = in.read<std::uint32_t>();
    storage.crc = in.read<std::uint32_t>();
  }
  for (std::uint64_t i = 0; i < views; ++i) {
    const auto storage = in.read<std::uint64_t>();
    const auto offset = in.read<std::int64_t>();
    views_.push_back({storage, offset, in.read<std::uint64_t>()});
  }
  for (std::uint64_t i = 0; i < strides; ++i) strides_.push_back(in.read<std::int64_t>());
}

}  // namespace cairn::torch_file
