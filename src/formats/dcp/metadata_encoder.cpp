// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/metadata_encoder.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>

#include "base/fail.hpp"
#include "formats/dcp/item_order.hpp"
#include "pickle/utf8.hpp"

namespace cairn::dcp {
namespace {

using pickle::FrameBatches;
using pickle::FrameWriter;
using pickle::Op;
using MemoNumber = FrameWriter::MemoNumber;

// Texts that are one str object in Python wherever they stand: module names, attribute names.
enum class Word : std::uint8_t {
  metadata_module,
  filesystem_module,
  torch_of_dtypes,  // dtypes have their module's name from elsewhere than the classes
  chunks,
  fqn,
  index,
  length,
  offset,
  offsets,
  properties,
  relative_path,
  size,
  sizes,
};
constexpr std::array kWords = std::to_array<std::string_view>({
    "torch.distributed.checkpoint.metadata",
    "torch.distributed.checkpoint.filesystem",
    "torch",
    "chunks",
    "fqn",
    "index",
    "length",
    "offset",
    "offsets",
    "properties",
    "relative_path",
    "size",
    "sizes",
});
static_assert(kWords.size() == static_cast<std::size_t>(Word::sizes) + 1);

enum class Class : std::uint8_t {
  bytes_storage_metadata,
  chunk_storage_metadata,
  metadata,
  metadata_index,
  storage_info,
  storage_meta,
  tensor_properties,
  tensor_storage_metadata,
};
struct ClassName {
  Word module;
  std::string_view name;
};
constexpr std::array kClasses = std::to_array<ClassName>({
    {Word::metadata_module, "BytesStorageMetadata"},
    {Word::metadata_module, "ChunkStorageMetadata"},
    {Word::metadata_module, "Metadata"},
    {Word::metadata_module, "MetadataIndex"},
    {Word::filesystem_module, "_StorageInfo"},
    {Word::metadata_module, "StorageMeta"},
    {Word::metadata_module, "TensorProperties"},
    {Word::metadata_module, "TensorStorageMetadata"},
});
static_assert(kClasses.size() == static_cast<std::size_t>(Class::tensor_storage_metadata) + 1);

constexpr std::size_t kDTypes = static_cast<std::size_t>(DType::bits16) + 1;

template <std::size_t count>
constexpr std::array<MemoNumber, count> unwritten() {
  std::array<MemoNumber, count> numbers{};
  numbers.fill(FrameWriter::kNoNumber);
  return numbers;
}

// The components of a path as Python's pathlib keeps them.
std::vector<std::string_view> path_parts(std::string_view path) {
  std::vector<std::string_view> parts;
  const std::size_t slashes = std::min(path.find_first_not_of('/'), path.size());
  if (slashes > 0) parts.push_back(slashes == 2 ? "//" : "/");
  for (path.remove_prefix(slashes); !path.empty();) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (!part.empty() && part != ".") parts.push_back(part);
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return parts;
}

// A path's bytes as a str, which os.fsencode makes the same bytes of: those beyond ASCII as lone surrogates.
std::string surrogate_escaped(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {  // U+DC00 + byte
      text += {'\xed', static_cast<char>(0xb0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3f))};
    }
  }
  return text;
}

class Encoder {
 public:
  Encoder(const Catalog& catalog, const FrameWriter::Sink& sink)
      : catalog_(catalog), out_(sink), strings_(catalog.string_count(), FrameWriter::kNoNumber) {}

  void run(const StorageMeta& meta, std::span<const std::uint32_t> path_order) {
    begin(Class::metadata);
    out_.text("state_dict_metadata");
    states();
    out_.text("planner_data");
    paths(path_order);
    out_.text("storage_data");
    items();
    out_.text("storage_meta");
    storage_meta(meta);
    out_.text("version");
    out_.text("1.0.0");
    for (const auto& [name, value] : meta.attributes) {
      out_.text(name);
      out_.text(value);
    }
    end();
    out_.finish();
  }

 private:
  // --- what everything is made of -------------------------------------------------------------------------
  void word(Word word) {
    MemoNumber& number = words_[static_cast<std::size_t>(word)];
    if (number != FrameWriter::kNoNumber) return out_.get(number);
    number = out_.text(kWords[static_cast<std::size_t>(word)]);
  }
  void string(StringId id) {
    MemoNumber& number = strings_[id];
    if (number != FrameWriter::kNoNumber) return out_.get(number);
    number = out_.text(catalog_.text(id));
  }

  /// `module` writes the module's name.
  template <class Module>
  void global(MemoNumber& number, const Module& module, std::string_view name) {
    out_.value();
    if (number != FrameWriter::kNoNumber) return out_.get(number);
    module();
    out_.text(name);
    number = out_.memoized(Op::stack_global);
  }

  void instance(Class type) {
    const ClassName& name = kClasses[static_cast<std::size_t>(type)];
    global(
        classes_[static_cast<std::size_t>(type)], [&] { word(name.module); }, name.name);
    out_.empty_tuple();
    out_.memoized(Op::newobj);
  }
  /// An instance and its attributes, two or more: names and values follow, then end().
  void begin(Class type) {
    instance(type);
    begin_dict();
    out_.op(Op::mark);
  }
  void end() { out_.op(Op::setitems, Op::build); }
  void begin_dict() {
    out_.value();
    out_.memoized(Op::empty_dict);
  }
  void begin_list() {
    out_.value();
    out_.memoized(Op::empty_list);
  }

  /// `write(i)` writes the i-th of `count` values.
  template <class Write>
  void tuple(std::size_t count, const Write& write) {
    constexpr std::array ops{Op::empty_tuple, Op::tuple1, Op::tuple2, Op::tuple3};
    if (count == 0) return out_.empty_tuple();
    out_.value();
    const bool marked = count >= ops.size();
    if (marked) out_.op(Op::mark);
    for (std::size_t i = 0; i < count; ++i) write(i);
    out_.memoized(marked ? Op::tuple : ops[count]);
  }
  /// After the callable: calls it with one argument, which `argument` writes.
  template <class Write>
  MemoNumber reduce(const Write& argument) {
    tuple(1, [&](std::size_t) { argument(); });
    return out_.memoized(Op::reduce);
  }

  void size(std::span<const std::int64_t> numbers) {
    global(
        size_class_, [&] { out_.text("torch"); }, "Size");
    reduce([&] { tuple(numbers.size(), [&](std::size_t i) { out_.integer(numbers[i]); }); });
  }

  // --- state_dict_metadata --------------------------------------------------------------------------------
  void states() {
    begin_dict();
    FrameBatches batches(out_, FrameBatches::Of::dict, catalog_.entries().size());
    for (const Entry& entry : catalog_.entries()) {
      batches.next();
      string(name(entry));
      if (entry.is_tensor)
        tensor(catalog_.tensors()[entry.index]);
      else
        instance(Class::bytes_storage_metadata);  // without attributes
    }
    batches.finish();
  }

  StringId name(const Entry& entry) const {
    return entry.is_tensor ? catalog_.tensors()[entry.index].name : catalog_.objects()[entry.index].name;
  }

  void tensor(const TensorInfo& tensor) {
    begin(Class::tensor_storage_metadata);
    word(Word::properties);
    properties(tensor.dtype);
    word(Word::size);
    size(catalog_.shape(tensor));
    word(Word::chunks);
    begin_list();
    FrameBatches batches(out_, FrameBatches::Of::list, tensor.chunk_count);
    for (const StoredItem& chunk : catalog_.chunks(tensor)) {
      batches.next();
      const BoxView box = catalog_.box(tensor, chunk);
      begin(Class::chunk_storage_metadata);
      word(Word::offsets);
      size(box.offsets);
      word(Word::sizes);
      size(box.sizes);
      end();
    }
    batches.finish();
    end();
  }

  /// TensorProperties has a state of its own: (dtype, layout, requires_grad, memory format, pin_memory).
  void properties(DType dtype) {
    instance(Class::tensor_properties);
    tuple(5, [&](std::size_t i) {
      if (i == 0) return dtype_global(dtype);
      if (i == 1) return layout();
      if (i == 3) return memory_format();
      out_.boolean(false);
    });
    out_.op(Op::build);
  }
  void dtype_global(DType dtype) {
    global(
        dtypes_[static_cast<std::size_t>(dtype)], [&] { word(Word::torch_of_dtypes); }, info(dtype).name);
  }
  void layout() {
    if (strided_ != FrameWriter::kNoNumber) return out_.get(strided_);
    MemoNumber once = FrameWriter::kNoNumber;
    global(
        once, [&] { out_.text("torch.serialization"); }, "_get_layout");
    strided_ = reduce([&] { out_.text("torch.strided"); });
  }
  void memory_format() {
    if (contiguous_ != FrameWriter::kNoNumber) return out_.get(contiguous_);
    MemoNumber once = FrameWriter::kNoNumber;
    global(
        once, [&] { word(Word::metadata_module); }, "_MEM_FORMAT_ENCODING");
    contiguous_ = reduce([&] { out_.integer(0); });
  }

  // --- planner_data ---------------------------------------------------------------------------------------
  void paths(std::span<const std::uint32_t> order) {
    const auto entries = catalog_.entries();
    const auto count = static_cast<std::size_t>(std::ranges::count_if(entries, &Entry::has_path));
    if (count == 0 && !entries.empty()) return out_.none();
    assert(order.empty() || order.size() == count);
    begin_dict();
    FrameBatches batches(out_, FrameBatches::Of::dict, count);
    const auto add = [&](const Entry& entry) {
      batches.next();
      string(name(entry));
      const auto steps = catalog_.path(entry);
      tuple(steps.size(), [&](std::size_t i) { step(steps[i]); });
    };
    for (const std::uint32_t entry : order) add(entries[entry]);
    for (const Entry& entry : entries) {
      if (order.empty() && entry.has_path) add(entry);
    }
    batches.finish();
  }
  void step(const PathStep& step) {
    if (step.is_position) return out_.integer(step.value);
    string(static_cast<StringId>(step.value));
  }

  // --- storage_data ---------------------------------------------------------------------------------------
  void items() {
    const std::vector<ItemRef> refs = items_by_place(catalog_);
    begin_dict();
    FrameBatches batches(out_, FrameBatches::Of::dict, refs.size());
    std::uint32_t file = kNoFile;
    for (const ItemRef ref : refs) {
      const StoredItem& item = stored_item(catalog_, ref);
      if (item.file != file) file_ = FrameWriter::kNoNumber;
      file = item.file;
      batches.next();
      index(ref, item);
      place(item);
    }
    batches.finish();
  }
  void index(ItemRef ref, const StoredItem& item) {
    const Entry& entry = catalog_.entries()[ref.entry];
    begin(Class::metadata_index);
    word(Word::fqn);
    string(name(entry));
    word(Word::index);
    if (entry.is_tensor) {
      out_.integer(ref.position);
      word(Word::offset);
      size(catalog_.box(catalog_.tensors()[entry.index], item).offsets);
    } else {
      out_.none();  // and no offset
    }
    end();
  }
  void place(const StoredItem& item) {
    begin(Class::storage_info);
    word(Word::relative_path);
    if (file_ == FrameWriter::kNoNumber)
      file_ = out_.text(catalog_.files()[item.file]);
    else
      out_.get(file_);
    word(Word::offset);
    out_.integer(static_cast<std::int64_t>(item.byte_offset));
    word(Word::length);
    out_.integer(static_cast<std::int64_t>(item.byte_length));
    end();
  }

  // --- storage_meta ---------------------------------------------------------------------------------------
  void storage_meta(const StorageMeta& meta) {
    begin(Class::storage_meta);
    out_.text("checkpoint_id");
    path(meta.checkpoint_id);
    out_.text("save_id");
    out_.text(meta.save_id);
    out_.text("load_id");
    out_.none();
    out_.text("modules");
    begin_list();
    end();
  }
  void path(const std::string& path) {
    MemoNumber once = FrameWriter::kNoNumber;
    global(
        once, [&] { out_.text("pathlib"); }, "PosixPath");
    const std::string text = pickle::valid_utf8(path) ? path : surrogate_escaped(path);
    const auto parts = path_parts(text);
    std::vector<MemoNumber> numbers(
        parts.size());  // of each part where it first stands: pathlib interns them
    tuple(parts.size(), [&](std::size_t i) {
      const auto first = static_cast<std::size_t>(std::ranges::find(parts, parts[i]) - parts.begin());
      if (first == i)
        numbers[i] = out_.text(parts[i]);
      else
        out_.get(numbers[first]);
    });
    out_.memoized(Op::reduce);
  }

  const Catalog& catalog_;
  FrameWriter out_;
  // numbers of what was written
  std::array<MemoNumber, kWords.size()> words_ = unwritten<kWords.size()>();
  std::array<MemoNumber, kClasses.size()> classes_ = unwritten<kClasses.size()>();
  std::array<MemoNumber, kDTypes> dtypes_ = unwritten<kDTypes>();
  MemoNumber size_class_ = FrameWriter::kNoNumber, strided_ = FrameWriter::kNoNumber,
             contiguous_ = FrameWriter::kNoNumber;
  MemoNumber file_ = FrameWriter::kNoNumber;  // the present one
  std::vector<MemoNumber> strings_;           // by StringId
};

}  // namespace

void encode_metadata(const Catalog& catalog, const StorageMeta& meta,
                     std::span<const std::uint32_t> path_order, const FrameWriter::Sink& sink) {
  Encoder(catalog, sink).run(meta, path_order);
}

}  // namespace cairn::dcp
