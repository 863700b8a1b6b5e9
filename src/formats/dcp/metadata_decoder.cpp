// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/metadata_decoder.hpp"

#include <algorithm>
#include <array>

#include "base/checked.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/dcp/copy_budget.hpp"
#include "formats/dcp/fields.hpp"
#include "formats/dcp/manifest.hpp"
#include "formats/dcp/metadata_store.hpp"
#include "formats/dcp/storage_rows.hpp"
#include "pickle/machine.hpp"
#include "pickle/value_map.hpp"

namespace cairn::dcp {
namespace {

using pickle::Kind;

class Decoder {
 public:
  Decoder(ByteStream& pickle, std::string_view where, FaultList& faults)
      : pickle_bytes_(pickle.size()),
        where_(where),
        faults_(faults),
        root_(pickle::Machine<MetadataStore>(store_, pickle, where, {.sizes_as_tuples = true}).run()) {}

  DecodedMetadata decode() {
    check_root();
    rows_.read(store_, field(store_, root_, "storage_data"), names_, budget_, where_);
    read_paths();
    const auto states = field(store_, root_, "state_dict_metadata");
    if (!states || states->kind() != Kind::dict) {
      fail_corrupt("{}: state_dict_metadata is {}, a dict expected", where_,
                   states ? describe(store_, *states) : "missing");
    }
    const auto items = store_.items(*states);
    result_.catalog.reserve_entries(items.size() / 2);
    for (std::size_t i = 0; i < items.size(); i += 2) entry(items[i], items[i + 1]);
    for (const auto& file : rows_.files()) result_.catalog.add_file(file);
    result_.metadata_bytes = pickle_bytes_;
    read_save();
    return std::move(result_);
  }

 private:
  void check_root() const {
    if (is_instance(store_, root_, "Metadata")) return;
    const std::string found = describe(store_, root_);
    if (found.find("bytecheckpoint") != std::string::npos) {
      fail(ErrorKind::unsupported, "{}: a ByteCheckpoint checkpoint ({}), not a PyTorch DCP one", where_,
           found);
    }
    fail(ErrorKind::unsupported, "{}: {}, torch.distributed.checkpoint.metadata.Metadata expected", where_,
         found);
  }

  void read_save() {
    result_.manifest = text_of(field(store_, root_, kManifestAttribute));
    if (const auto meta = field(store_, root_, "storage_meta"); meta && meta->kind() == Kind::object)
      result_.save_id = text_of(field(store_, *meta, "save_id"));
  }
  std::string text_of(std::optional<Value> value) const {
    return value && value->kind() == Kind::string ? std::string(store_.text(*value)) : std::string();
  }

  void read_paths() {
    const auto paths = field(store_, root_, "planner_data");
    if (!paths || paths->kind() == Kind::none) return;
    if (paths->kind() != Kind::dict) {
      result_.notes.push_back(
          fmt::format("{}: planner_data is {}; names are kept flat", where_, describe(store_, *paths)));
      return;
    }
    const auto items = store_.items(*paths);
    for (std::size_t i = 0; i < items.size(); i += 2) {
      if (items[i].kind() == Kind::string && items[i + 1].kind() == Kind::tuple) {
        const std::uint32_t name = names_.number(items[i]);
        if (name >= paths_.size()) paths_.resize(std::max<std::size_t>(name + 1, names_.count()), kAbsent);
        paths_[name] = items[i + 1];
      }
    }
  }

  void entry(Value key, Value value) {
    if (key.kind() != Kind::string)
      fail_corrupt("{}: a name is {}, a str expected", where_, describe(store_, key));
    const std::string_view name = store_.text(key);
    const std::uint32_t number = names_.number(key);
    if (number >= seen_.size()) seen_.resize(std::max<std::size_t>(number + 1, names_.count()));
    if (seen_[number]) fail_corrupt("{}: the name '{}' appears twice", where_, escape_name(name));
    seen_[number] = true;
    if (const auto fields = store_.row(RowClass::tensor, value); !fields.empty()) {
      tensor(key, fields);
    } else if (is_instance(store_, value, "BytesStorageMetadata")) {
      object(key);
    } else {
      fail(ErrorKind::unsupported, "{}: '{}' is {}, TensorStorageMetadata or BytesStorageMetadata expected",
           where_, escape_name(name), describe(store_, value));
    }
  }

  void tensor(Value key, std::span<const Value> fields) {
    const std::string_view name = store_.text(key);
    if (!size_of(fields[kTensorSize], shape_)) {
      return fault(FaultKind::shape, name, "the global size is no list of ints");
    }
    if (std::ranges::any_of(shape_, [](auto n) { return n < 0; })) {
      return fault(FaultKind::shape, name, fmt::format("negative global size {}", to_string(shape_)));
    }
    const DType dtype = read_dtype(name, fields[kTensorProperties]);
    try {
      checked_mul(static_cast<std::uint64_t>(element_count(shape_)), element_size(dtype), "tensor size");
    } catch (const Error& error) {
      return fault(FaultKind::shape, name, error.message());
    }
    result_.catalog.add_tensor(string_id(key), dtype, shape_);
    add_path(key);
    chunks(key, fields[kTensorChunks]);
  }

  // TensorProperties: its state is the tuple (dtype, layout, requires_grad, memory format, pin_memory).
  // They are the same objects for most tensors.
  DType read_dtype(std::string_view name, Value properties) {
    std::optional<Value> dtype, layout;
    if (properties.kind() == Kind::object) {
      const auto state = store_.object_view(properties).state;
      if (state && state->kind() == Kind::tuple && store_.items(*state).size() == 5) {
        const auto items = store_.items(*state);
        const std::array<Value, 3> telling{items[0], items[1], items[3]};
        if (last_dtype_ && telling == last_telling_) return *last_dtype_;
        check_memory_format(name, items[3]);
        last_dtype_ = known_dtype(name, items[0], items[1]);
        last_telling_ = telling;
        return *last_dtype_;
      }
      dtype = field(store_, properties, "dtype");
      layout = field(store_, properties, "layout");
    }
    if (!dtype) fail_corrupt("{}: '{}' has no dtype", where_, escape_name(name));
    return known_dtype(name, *dtype, layout ? *layout : Value{});
  }

  DType known_dtype(std::string_view name, Value dtype, Value layout) const {
    if (layout.kind() == Kind::object) check_layout(name, layout);
    const auto found = dtype_from_name(dtype_name(store_, dtype));
    if (!found) {
      fail(ErrorKind::unsupported, "{}: '{}' has dtype {}, which Cairn does not read", where_,
           escape_name(name), describe(store_, dtype));
    }
    return *found;
  }

  void check_layout(std::string_view name, Value layout) const {
    const auto args = store_.items(store_.object_view(layout).args);
    if (args.size() == 1 && args[0].kind() == Kind::string && store_.text(args[0]) != "torch.strided") {
      fail(ErrorKind::unsupported, "{}: '{}' has layout {}, torch.strided expected", where_,
           escape_name(name), store_.text(args[0]));
    }
  }

  // The enum is pickled as REDUCE of its class with an int, or of builtins.getattr with (class, member name).
  void check_memory_format(std::string_view name, Value format) const {
    const auto is_enum = [&](Value value) {
      return value.kind() == Kind::global &&
             store_.global_name(value).module.starts_with("torch.distributed.") &&
             store_.global_name(value).name.ends_with("MEM_FORMAT_ENCODING");
    };
    if (format.kind() == Kind::object && store_.object_view(format).args.kind() == Kind::tuple) {
      const auto view = store_.object_view(format);
      const auto args = store_.items(view.args);
      if (is_enum(view.callable) && args.size() == 1 && args[0].kind() == Kind::integer) return;
      if (store_.is_global(view.callable, "builtins", "getattr") && args.size() == 2 && is_enum(args[0]) &&
          args[1].kind() == Kind::string && is_memory_format(store_.text(args[1]))) {
        return;
      }
    }
    fail(ErrorKind::unsupported, "{}: the memory format of '{}' is {}", where_, escape_name(name),
         describe(store_, format));
  }

  static bool is_memory_format(std::string_view member) {
    return member == "TORCH_CONTIGUOUS_FORMAT" || member == "TORCH_CHANNELS_LAST" ||
           member == "TORCH_PRESERVE_FORMAT";
  }

  void chunks(Value key, Value list) {
    const std::string_view name = store_.text(key);
    if (list == kAbsent || (list.kind() != Kind::list && list.kind() != Kind::tuple)) {
      return fault(FaultKind::shape, name, "the list of chunks is missing");
    }
    const auto items = store_.items(list);
    budget_.charge(items.size());
    RowFinder rows(store_, rows_.of(names_.number(key)), items.size());
    result_.catalog.reserve_chunks(items.size(), std::min<std::size_t>(shape_.size(), 4));
    for (std::size_t i = 0; i < items.size(); ++i) add_chunk(name, items[i], i, rows);
  }

  void add_chunk(std::string_view name, Value chunk, std::size_t position, RowFinder& rows) {
    const auto fields = store_.row(RowClass::chunk, chunk);
    if (fields.empty() || !size_of(fields[kChunkOffsets], box_.offsets) ||
        !size_of(fields[kChunkSizes], box_.sizes)) {
      return fault(FaultKind::shape, name, "a chunk has no offsets or sizes");
    }
    if (box_.offsets.size() != shape_.size() || box_.sizes.size() != shape_.size()) {
      return fault(FaultKind::ndim, name,
                   fmt::format("chunk offsets {} and sizes {}, {} dimensions expected",
                               to_string(box_.offsets), to_string(box_.sizes), shape_.size()));
    }
    if (!inside(box_, shape_)) {
      return fault(FaultKind::out_of_bounds, name,
                   fmt::format("chunk offsets {} and sizes {} leave the global size {}",
                               to_string(box_.offsets), to_string(box_.sizes), to_string(shape_)));
    }
    const StorageRow* row = rows.find(position, box_.offsets);
    if (row == nullptr && !BoxView(box_).empty()) {
      fault(FaultKind::storage_data, name,
            fmt::format("storage_data has no item for the chunk {}", to_string(BoxView(box_))));
    }
    if (row == nullptr) return result_.catalog.add_chunk(box_, kNoFile, 0, 0);
    result_.catalog.add_chunk(box_, row->file, row->byte_offset, row->byte_length, row->transform);
  }

  void object(Value key) {
    const std::string_view name = store_.text(key);
    const StorageRow* row = RowFinder(store_, rows_.of(names_.number(key)), 1).find(0, {});
    if (row == nullptr)
      return fault(FaultKind::storage_data, name, "storage_data has no item for the object");
    result_.catalog.add_object(string_id(key), row->file, row->byte_offset, row->byte_length, row->transform);
    add_path(key);
  }

  void add_path(Value key) {
    const std::uint32_t number = names_.number(key);
    const Value path = number < paths_.size() ? paths_[number] : kAbsent;
    if (path == kAbsent) return;
    std::vector<PathStep> steps;
    budget_.charge(store_.items(path).size());
    for (const Value step : store_.items(path)) {
      if (step.kind() == Kind::string) {
        steps.push_back({string_id(step), false});
      } else if (step.kind() == Kind::integer && !steps.empty() &&
                 is_list_position(store_.as_integer(step))) {
        steps.push_back({store_.as_integer(step), true});
      } else {
        fail_corrupt("{}: step {} of the path of '{}' is no key or list position", where_, steps.size(),
                     escape_name(store_.text(key)));
      }
    }
    if (steps.empty()) fail_corrupt("{}: the path of '{}' is empty", where_, escape_name(store_.text(key)));
    result_.catalog.set_path(steps);
  }

  // A list of n elements takes at least n bytes of metadata to fill; anything beyond is damage that would
  // only cost memory.
  bool is_list_position(std::int64_t position) const {
    return position >= 0 && static_cast<std::uint64_t>(position) < pickle_bytes_;
  }

  bool size_of(Value value, std::vector<std::int64_t>& out) {
    const bool is_size = read_size(store_, value, out);
    budget_.charge(out.size());
    return is_size;
  }

  StringId string_id(Value value) {
    if (const auto known = string_ids_.find(value)) return *known;
    const StringId made = result_.catalog.add_string(store_.text(value));
    string_ids_.insert(value, made);
    return made;
  }

  void fault(FaultKind kind, std::string_view name, std::string text) {
    if (faults_.full()) return faults_.add_unlisted(1);
    faults_.add(
        {kind, std::string(name), std::string(where_), 0, fmt::format("'{}': {}", escape_name(name), text)});
  }

  std::uint64_t pickle_bytes_;
  std::string_view where_;
  FaultList& faults_;
  MetadataStore store_;
  Value root_;
  CopyBudget budget_{store_.memory_bytes(), where_};
  StorageRows rows_;
  DecodedMetadata result_;
  NameTable names_{store_};
  std::vector<Value> paths_;  // by the numbers of the names
  std::vector<bool> seen_;
  pickle::ValueMap string_ids_;
  std::array<Value, 3> last_telling_;  // dtype, layout and memory format
  std::optional<DType> last_dtype_;    // that they came to
  std::vector<std::int64_t> shape_;
  Box box_;
};

DecodedMetadata decode(ByteStream& pickle, std::string_view where, FaultList& faults) {
  if (pickle.size() == 0) fail_corrupt("{}: the file is empty, a pickle expected", where);
  if (pickle.peek(1)[0] != std::byte{0x80}) {
    fail_corrupt("{}: no pickle: it does not begin with byte 0x80", where);
  }
  return Decoder(pickle, where, faults).decode();
}

}  // namespace

DecodedMetadata decode_metadata(std::span<const std::byte> pickle, std::string_view where,
                                FaultList& faults) {
  ByteStream in(pickle, where);
  return decode(in, where, faults);
}

DecodedMetadata decode_metadata(File& file, std::string_view where, FaultList& faults) {
  ByteStream in(
      file.size(), [&](std::uint64_t byte_offset, auto into) { file.read(byte_offset, into); }, where);
  return decode(in, where, faults);
}

}  // namespace cairn::dcp
