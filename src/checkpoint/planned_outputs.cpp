// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/planned_outputs.hpp"

#include <algorithm>

#include "checkpoint/joined_files.hpp"
#include "checkpoint/open_late.hpp"
#include "engine/transfer.hpp"
#include "plan/windows.hpp"

namespace cairn {
namespace {

bool has_casts(const std::vector<RecordContent>& contents, const Catalog& catalog) {
  return std::ranges::any_of(contents, [&](const RecordContent& content) {
    return content.is_tensor && content.dtype != catalog.tensors()[content.tensor].dtype;
  });
}

}  // namespace

PlannedOutputs::PlannedOutputs(const ConsolidationPlan& plan, const Catalog& catalog) : plan_(plan) {
  for (const OutputPlan& output : plan.outputs) layouts_.push_back(output.layout());
  if (plan.shards) {
    shards_.emplace(plan.shards->catalog, plan.shards->objects, kWindowBytes);
    shard_contents_ = shards_->contents(plan.shards->tensors);
  }
  if (plan.tensor_files)
    tensor_files_.emplace(plan.tensor_files->files, plan.tensor_files->contents, kWindowBytes);
  if (output_count() == 1 && !has_casts(output_contents(0), catalog)) return;
  std::vector<OutputFan::Output> outputs;
  for (std::size_t i = 0; i < output_count(); ++i) outputs.push_back({&output_layout(i), output_contents(i)});
  fan_.emplace(catalog, std::move(outputs));
}

const OutputLayout& PlannedOutputs::output_layout(std::size_t output) const {
  if (shards_) return *shards_;
  if (tensor_files_) return *tensor_files_;
  return layouts_[output];
}

const std::vector<RecordContent>& PlannedOutputs::output_contents(std::size_t output) const {
  if (tensor_files_) return plan_.tensor_files->contents;
  return shards_ ? shard_contents_ : plan_.outputs[output].contents;
}

const OutputLayout& PlannedOutputs::window_layout() const {
  if (fan_) return fan_->sequence();
  return output_layout(0);
}

const std::vector<RecordContent>& PlannedOutputs::contents() const {
  return fan_ ? fan_->contents() : output_contents(0);
}

Windows PlannedOutputs::windows() const { return {window_layout().region(), kWindowBytes}; }

ByteRange PlannedOutputs::owned_windows(int rank, int writing_ranks) const {
  if (rank >= writing_ranks) return {};
  const WindowRuns share = WindowRuns(windows().count()).share(rank, writing_ranks);
  if (share.runs().empty()) return {};
  return {share.runs().front().begin, share.runs().back().end};
}

PlannedOutputs::Moved PlannedOutputs::moved_by(ByteRange owned) const {
  const OutputLayout& layout = window_layout();
  Moved moved;
  if (owned.size() == 0) return moved;
  const Windows windows = this->windows();
  const ByteRange range{windows.at(owned.begin).begin, windows.at(owned.end - 1).end};
  for (auto record = layout.record_at(range.begin); record < layout.record_count(); ++record) {
    const ByteRange payload = layout.payload(record);
    if (payload.begin >= range.end) break;
    const auto begin = std::max(payload.begin, range.begin), end = std::min(payload.end, range.end);
    if (begin >= end) continue;
    moved.read_bytes += end - begin;
    if (!fan_) {
      moved.written_bytes += end - begin;
      continue;
    }
    const double part = static_cast<double>(end - begin) / static_cast<double>(payload.size());
    for (const auto& target : fan_->targets(record)) {
      const auto bytes = output_contents(target.output)[target.record].bytes;
      moved.written_bytes += static_cast<std::uint64_t>(part * static_cast<double>(bytes) + 0.5);
    }
  }
  return moved;
}

void PlannedOutputs::open(FileSystem& files, double timeout_s, bool sync) {
  if (is_joined()) files_.push_back(joined(files, timeout_s, sync));
  for (const OutputPlan& output : plan_.outputs)
    files_.push_back(open_write_late(files, output.temporary_path, timeout_s));
}

std::unique_ptr<File> PlannedOutputs::joined(FileSystem& files, double timeout_s, bool sync) const {
  std::vector<JoinedFiles::Part> parts;
  if (shards_) {
    for (const auto& [name, range] : shards_->shards())
      parts.push_back({plan_.shards->directory + "/" + name, range});
  }
  for (std::size_t i = 0; tensor_files_ && i < plan_.tensor_files->files.size(); ++i) {
    const safetensors::DataFile& file = plan_.tensor_files->files[i];
    parts.push_back({file.path, tensor_files_->data()[i], file.header_bytes});
  }
  return std::make_unique<JoinedFiles>(files, std::move(parts), timeout_s, sync);
}

MakeWriter PlannedOutputs::make_writer() const {
  return [this]() -> std::unique_ptr<WindowWriter> {
    if (fan_) return fan_->writer(files_);
    return std::make_unique<FileWriter>(*files_[0]);
  };
}

void PlannedOutputs::sync() {
  for (const auto& file : files_) file->sync();
}

void PlannedOutputs::close(bool sync) {
  if (sync) this->sync();
  for (const auto& file : files_) file->close();
  files_.clear();
}

std::vector<std::uint64_t> PlannedOutputs::crc_bytes() const {
  return fan_ ? fan_->crc_bytes() : record_bytes(output_contents(0));
}

std::vector<std::uint32_t> PlannedOutputs::crcs_of(std::size_t output,
                                                   const std::vector<std::uint32_t>& all) const {
  return fan_ ? fan_->crcs_of(output, all) : all;
}

std::vector<std::uint64_t> PlannedOutputs::split_records(std::size_t output) const {
  const OutputLayout& layout = window_layout();
  const Windows windows = this->windows();
  std::vector<std::uint64_t> records;
  for (std::uint64_t i = 0; i + 1 < windows.count(); ++i) {
    const std::uint64_t record = layout.record_at(windows.at(i).end - 1);
    if (layout.extent(record).end <= windows.at(i).end) continue;
    if (!fan_) {
      records.push_back(record);
      continue;
    }
    for (const auto& target : fan_->targets(record)) {
      if (target.output == output) records.push_back(target.record);
    }
  }
  std::ranges::sort(records);
  const auto repeated = std::ranges::unique(records);
  records.erase(repeated.begin(), repeated.end());
  return records;
}

}  // namespace cairn
