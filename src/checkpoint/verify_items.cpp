// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/verify_items.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/dcp/structure.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kSliceBytes = 4 << 20, kRunCost = 1 << 20;
constexpr std::uint64_t kItemCost = 4096;     // what an item takes besides its bytes
constexpr std::uint64_t kMostGap = 32 << 10;  // read rather than skipped

auto place(const VerifyItem& item) {
  return std::tuple(item.file, item.byte_offset, item.byte_length, item.kind, item.index);
}

bool same_bytes(const VerifyItem& a, const VerifyItem& b) {
  return a.file == b.file && a.byte_offset == b.byte_offset && a.byte_length == b.byte_length;
}

std::uint64_t cost(const VerifyUnit& unit) { return unit.bytes + (unit.end - unit.begin) * kItemCost; }

}  // namespace

std::string VerifyTask::file_path(std::uint32_t file) const {
  return kind == Located::Kind::torch_file ? path : path + "/" + catalog.files()[file];
}

Bytes VerifyTask::encode() const {
  ByteWriter out;
  out.write(static_cast<std::uint8_t>(kind));
  out.counted_text(path);
  for (const auto size : file_sizes) out.write(size);
  out.write<std::uint64_t>(manifest.size());
  for (const ManifestCrc& item : manifest) {
    out.write(item.file);
    out.write(item.crc);
    out.write(item.byte_offset);
  }
  out.append(catalog.encode());
  out.write<std::uint64_t>(file_sizes.size());
  return out.take();
}

VerifyTask VerifyTask::decode(const Bytes& bytes) {
  ByteReader in(bytes, "verify task");
  VerifyTask task;
  task.kind = static_cast<Located::Kind>(in.read<std::uint8_t>());
  task.path = in.counted_text();
  const auto last = std::span(bytes).last(sizeof(std::uint64_t));
  task.file_sizes.resize(ByteReader(last, "verify task").read<std::uint64_t>());
  for (auto& size : task.file_sizes) size = in.read<std::uint64_t>();
  constexpr std::uint64_t least = 16;
  const auto count = in.read<std::uint64_t>();
  if (count > in.remaining() / least) fail_corrupt("verify task: {} items of a manifest", count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto file = in.read<std::uint32_t>(), crc = in.read<std::uint32_t>();
    task.manifest.push_back({file, crc, in.read<std::uint64_t>()});
  }
  task.catalog = Catalog::decode(in.bytes(in.remaining() - last.size()));
  return task;
}

VerifyItems::VerifyItems(const VerifyTask& task) : task_(task) {
  collect();
  std::ranges::sort(items_, {}, place);
  drop_shared();
  cut();
}

void VerifyItems::collect() {
  if (task_.kind == Located::Kind::torch_file) {
    const std::uint64_t size = task_.file_sizes.at(0);
    if (size != dcp::kNoSize) items_.push_back({VerifyItem::Kind::torch_file, false, 0, 0, size, 0, 0});
    return;
  }
  const Catalog& catalog = task_.catalog;
  const auto take = [&](VerifyItem::Kind kind, const StoredItem& item, std::uint64_t index,
                        std::uint64_t tensor) {
    if (item.file != kNoFile)
      add({kind, false, item.file, item.byte_offset, item.byte_length, index, tensor});
  };
  for (std::uint64_t t = 0; t < catalog.tensors().size(); ++t) {
    const TensorInfo& tensor = catalog.tensors()[t];
    for (std::uint64_t i = tensor.first_chunk; i < tensor.first_chunk + tensor.chunk_count; ++i) {
      take(VerifyItem::Kind::chunk, catalog.chunks()[i], i, t);
    }
  }
  for (std::uint64_t i = 0; i < catalog.objects().size(); ++i) {
    take(VerifyItem::Kind::object, catalog.objects()[i].item, i, 0);
  }
}

void VerifyItems::add(VerifyItem item) {
  const std::uint64_t size = task_.file_sizes.at(item.file);
  if (size == dcp::kNoSize) return;
  if (item.byte_offset <= size && item.byte_length <= size - item.byte_offset) {
    items_.push_back(item);
  } else if (is_empty_chunk(item)) {
    const auto text =
        fmt::format("its {} bytes pass the end of the file, which has {}", item.byte_length, size);
    faults_.push_back(fault(item, {FaultKind::short_file, 0, text}));
  }
}

// The structure does not ask for the items of chunks without elements.
bool VerifyItems::is_empty_chunk(const VerifyItem& item) const {
  const Catalog& catalog = task_.catalog;
  return item.kind == VerifyItem::Kind::chunk &&
         catalog.box(catalog.tensors()[item.tensor], catalog.chunks()[item.index]).empty();
}

bool VerifyItems::is_compressed(const VerifyItem& item) const {
  const Catalog& catalog = task_.catalog;
  if (item.kind == VerifyItem::Kind::torch_file) return false;
  const bool is_object = item.kind == VerifyItem::Kind::object;
  return (is_object ? catalog.objects()[item.index].item : catalog.chunks()[item.index]).transform !=
         Transform::none;
}

// Each byte is then read once, whatever the metadata claims.
void VerifyItems::drop_shared() {
  std::optional<VerifyItem> last;  // with bytes
  const auto is_dropped = [&](VerifyItem& item) {
    if (item.byte_length == 0) return false;
    const bool meets =
        last && last->file == item.file && item.byte_offset - last->byte_offset < last->byte_length;
    item.is_alias = meets && same_bytes(*last, item);
    if (!meets) last = item;
    return meets && !item.is_alias;
  };
  std::vector<VerifyItem> kept;
  kept.reserve(items_.size());
  for (VerifyItem& item : items_) {
    if (!is_dropped(item)) kept.push_back(item);
  }
  items_ = std::move(kept);
}

void VerifyItems::cut() {
  for (std::uint64_t i = 0; i < items_.size();) {
    const VerifyItem& first = items_[i];
    if (is_compressed(first)) {
      units_.push_back({i, i + 1, {0, 0}, first.byte_length});
      ++i;
      continue;
    }
    if (first.byte_length > kSmallBytes) {
      const std::uint64_t end = first.is_alias ? 1 : first.byte_length;
      for (std::uint64_t at = 0; at < end; at += kSliceBytes) {
        const ByteRange slice{at, std::min(at + kSliceBytes, end)};
        units_.push_back({i, i + 1, slice, slice.size()});
      }
      ++i;
      continue;
    }
    VerifyUnit run{i, i, {0, 0}, 0};
    std::uint64_t reached = first.byte_offset;
    for (; run.end < items_.size() && cost(run) < kRunCost; ++run.end) {
      const VerifyItem& next = items_[run.end];
      if (is_compressed(next) || next.file != first.file || next.byte_length > kSmallBytes ||
          next.byte_offset > reached + kMostGap)
        break;
      run.bytes += next.byte_length;
      reached = next.byte_offset + next.byte_length;
    }
    units_.push_back(run);
    i = run.end;
  }
}

ByteRange VerifyItems::owned(int rank, int size) const {
  std::uint64_t total = 0;
  for (const VerifyUnit& unit : units_) total += cost(unit);
  const auto share = [&](int r) {
    const auto n = static_cast<std::uint64_t>(size), at = static_cast<std::uint64_t>(r);
    return total / n * at + total % n * at / n;
  };
  ByteRange owned{units_.size(), units_.size()};
  std::uint64_t begin = 0;
  for (std::uint64_t i = 0; i < units_.size(); begin += cost(units_[i++])) {
    if (begin >= share(rank)) owned.begin = std::min(owned.begin, i);
    if (begin >= share(rank + 1)) owned.end = std::min(owned.end, i);
  }
  return owned;
}

std::optional<std::uint32_t> VerifyItems::manifest_crc(const VerifyItem& item) const {
  const auto place = [](const ManifestCrc& one) { return std::pair(one.file, one.byte_offset); };
  const std::pair wanted(item.file, item.byte_offset);
  const auto found = std::ranges::lower_bound(task_.manifest, wanted, {}, place);
  if (found == task_.manifest.end() || place(*found) != wanted) return std::nullopt;
  return found->crc;
}

std::string_view VerifyItems::name(const VerifyItem& item) const {
  const Catalog& catalog = task_.catalog;
  switch (item.kind) {
    case VerifyItem::Kind::chunk:
      return catalog.name(catalog.tensors()[item.tensor]);
    case VerifyItem::Kind::object:
      return catalog.name(catalog.objects()[item.index]);
    case VerifyItem::Kind::torch_file:
      return {};
  }
  return {};
}

std::string VerifyItems::describe(const VerifyItem& item) const {
  if (item.kind == VerifyItem::Kind::torch_file) return escape_name(task_.path);
  std::string text = fmt::format("'{}'", escape_name(name(item)));
  if (item.kind == VerifyItem::Kind::chunk) {
    const Catalog& catalog = task_.catalog;
    text += " chunk " + to_string(catalog.box(catalog.tensors()[item.tensor], catalog.chunks()[item.index]));
  }
  return text +
         fmt::format(" in {} at byte {}", escape_name(task_.catalog.files()[item.file]), item.byte_offset);
}

Fault VerifyItems::fault(const VerifyItem& item, const torch_file::Damage& damage) const {
  return {damage.kind, std::string(name(item)), task_.catalog.files()[item.file],
          item.byte_offset + damage.byte_offset, fmt::format("{}: {}", describe(item), damage.message)};
}

}  // namespace cairn
