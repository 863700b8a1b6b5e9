// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/save.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <random>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/sha256.hpp"
#include "checkpoint/new_file.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/replica_check.hpp"
#include "checkpoint/save_parts.hpp"
#include "engine/shard_writer.hpp"
#include "engine/transfer.hpp"
#include "formats/dcp/directory_output.hpp"
#include "formats/dcp/manifest.hpp"
#include "formats/dcp/metadata_encoder.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What all ranks must pass alike.
Bytes encode_arguments(const std::string& directory, const SaveOptions& options) {
  ByteWriter out;
  out.counted_text(directory);
  out.counted_text(options.checkpoint_id);
  out.write(static_cast<std::uint8_t>(options.plan.replicas));
  out.write(options.plan.split_bytes);
  out.write(options.plan.files_per_rank);
  for (const bool flag : {options.overwrite, options.sync, options.manifest, options.check_replicas})
    out.write<std::uint8_t>(flag);
  return out.take();
}

// A random UUID (RFC 9562, version 4), as torch's planner makes one for each save.
std::string new_save_id() {
  std::random_device entropy;
  std::uint32_t words[4];
  for (std::uint32_t& word : words) word = entropy();
  words[1] = (words[1] & 0xffff0fffu) | 0x4000u;
  words[2] = (words[2] & 0x3fffffffu) | 0x80000000u;
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", words[0], words[1] >> 16, words[1] & 0xffffu,
                     words[2] >> 16, words[2] & 0xffffu, words[3]);
}

Bytes encode(std::span<const WrittenItem> items) {
  ByteWriter out;
  for (const WrittenItem& item : items) {
    out.write(item.byte_offset);
    out.write(item.byte_length);
    out.write(item.crc);
  }
  return out.take();
}

std::vector<WrittenItem> decode_written(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "items of a rank");
  std::vector<WrittenItem> items;
  while (!in.at_end()) {
    const auto byte_offset = in.read<std::uint64_t>(), byte_length = in.read<std::uint64_t>();
    items.push_back({byte_offset, byte_length, in.read<std::uint32_t>()});
  }
  return items;
}

/// One save, on one rank.
class SaveRun {
 public:
  SaveRun(Communicator& comm, FileSystem& files, const LiveState& state, const std::string& directory,
          const SaveOptions& options)
      : comm_(comm), files_(files), state_(state), directory_(directory), options_(options) {}

  void require_equal_arguments() {
    const Bytes mine = encode_arguments(directory_, options_);
    const Bytes first = on_root("comparing the arguments", comm_, 0, [&] { return mine; });
    on_all_ranks("comparing the arguments", comm_, [&] {
      if (state_.description().rank() != comm_.rank())
        fail(ErrorKind::invalid_argument, "save: the state is that of rank {}", state_.description().rank());
      if (mine != first)
        fail(ErrorKind::invalid_argument, "save: directory or options are not those of rank 0");
    });
  }

  void plan(PlanCache<SavePlan>& parts, PlanCache<GlobalSavePlan>& wholes, SaveReport& report) {
    const auto start = Clock::now();
    const Fingerprint id = agreed_id();
    part_ = parts.find(id);
    report.planned = agree(comm_, part_ ? 0 : 1) != 0;
    if (report.planned) make_plan(parts, wholes);
    if (is_coordinator()) whole_ = wholes.find(id);
    report.plan_s = seconds_since(start);
  }

  void check_replicas() const {
    if (!options_.check_replicas) return;
    require_equal_replicas(comm_, state_,
                           [&](std::size_t entry) { return stored_object(state_.object(entry)); });
  }

  void open_output() {
    const Bytes index = on_root("opening the directory", comm_, 0, [&] {
      output_.emplace(
          dcp::DirectoryOutput::create(files_, directory_, options_.overwrite, options_.manifest));
      ByteWriter out;
      out.write(output_->first_index());
      return out.take();
    });
    first_index_ = ByteReader(index, "first index").read<std::uint32_t>();
  }

  void write_shards() {
    const int threads = options_.threads > 0 ? options_.threads : default_threads(comm_.ranks_on_node());
    on_all_ranks("writing the shards", comm_, [&] {
      const auto items = part_->items();
      std::size_t begin = 0;
      do {  // a rank with nothing to write has an empty file, as torch makes it
        const std::uint32_t file = items.empty() ? 0 : items[begin].file;
        std::size_t end = begin;
        while (end < items.size() && items[end].file == file) ++end;
        write_file(file, items.subspan(begin, end - begin), threads);
        begin = end;
      } while (begin < items.size());
    });
  }

  void publish(SaveReport& report) {
    const std::vector<Bytes> written = comm_.gather(encode(written_), 0);
    std::optional<Error> after;  // it was published, and something failed nevertheless
    const Bytes summary = on_root("publishing", comm_, 0, [&] {
      try {
        publish_alone(written, report);
      } catch (const Error& error) {
        if (!output_->is_published()) throw;
        after = error;
      }
      return encode_summary(report);
    });
    for (NewFile& file : new_files_) file.keep();
    on_all_ranks("publishing", comm_, [&] {
      if (after) throw *after;
    });
    decode_summary(summary, report);
  }

 private:
  bool is_coordinator() const { return comm_.rank() == 0; }

  Fingerprint agreed_id() {
    const Fingerprint mine = state_.description().fingerprint();
    ByteWriter print;
    print.write(mine.low);
    print.write(mine.high);
    const auto all = comm_.gather(print.view(), 0);
    const Bytes id = on_root("naming the plan", comm_, 0, [&] {
      std::vector<Fingerprint> prints;
      for (const Bytes& one : all) prints.push_back(read_print(one));
      const Fingerprint whole = plan_id(prints, options_.plan);
      ByteWriter out;
      out.write(whole.low);
      out.write(whole.high);
      return out.take();
    });
    return read_print(id);
  }

  static Fingerprint read_print(std::span<const std::byte> bytes) {
    ByteReader in(bytes, "fingerprint");
    const auto low = in.read<std::uint64_t>();
    return {low, in.read<std::uint64_t>()};
  }

  void make_plan(PlanCache<SavePlan>& parts, PlanCache<GlobalSavePlan>& wholes) {
    SharedPlan plan = plan_together(comm_, state_.description(), options_.plan);
    if (is_coordinator()) wholes.store(std::move(plan.whole));
    part_ = std::move(plan.part);
    parts.store(part_);
  }

  void write_file(std::uint32_t number, std::span<const WriteItem> items, int threads) {
    std::vector<ShardItem> contents;
    contents.reserve(items.size());
    for (const WriteItem& item : items) contents.push_back(content_of(state_, *part_, item));
    const std::string name = dcp::shard_name(comm_.rank(), first_index_ + number);
    NewFile& file = new_files_.emplace_back(NewFile::create_late(
        files_, (std::filesystem::path(directory_) / name).string(), options_.visibility_timeout_s));
    const auto written = write_shard(file.file(), contents, threads);
    if (options_.sync) file.file().sync();
    file.close();
    written_.insert(written_.end(), written.begin(), written.end());
  }

  void publish_alone(const std::vector<Bytes>& written_by_rank, SaveReport& report) {
    std::vector<std::vector<WrittenItem>> written;
    std::vector<std::vector<ItemPlace>> places;
    for (const Bytes& bytes : written_by_rank) {
      written.push_back(decode_written(bytes));
      auto& here = places.emplace_back();
      for (const WrittenItem& item : written.back()) here.push_back({item.byte_offset, item.byte_length});
    }
    const Catalog catalog = whole_->located(
        places, [&](int rank, std::uint32_t file) { return dcp::shard_name(rank, first_index_ + file); });
    const std::string& id = options_.checkpoint_id.empty() ? directory_ : options_.checkpoint_id;
    dcp::StorageMeta meta{id, new_save_id(), {}};
    if (options_.manifest) meta.attributes.emplace_back(dcp::kManifestAttribute, dcp::kManifestName);
    dcp::Manifest manifest = manifest_of(written);
    manifest.save_id = meta.save_id;
    output_->publish([&](File& file) { write_metadata(file, catalog, meta, manifest); },
                     [&](File& file) { write_manifest(file, manifest); }, options_.sync, report.warnings);
    report.tensors = catalog.tensors().size();
    report.objects = catalog.objects().size();
    report.files = catalog.files().size();
    for (const auto& rank : written)
      for (const WrittenItem& item : rank) report.written_bytes += item.byte_length;
  }

  void write_metadata(File& file, const Catalog& catalog, const dcp::StorageMeta& meta,
                      dcp::Manifest& manifest) const {
    Sha256 digest;
    std::uint64_t at = 0;
    dcp::encode_metadata(catalog, meta, {}, [&](std::span<const std::byte> piece) {
      if (options_.manifest) digest.add(piece);
      file.write(at, piece);
      at += piece.size();
    });
    manifest.metadata_bytes = at;
    manifest.metadata_sha256 = digest.hex();
  }

  static void write_manifest(File& file, const dcp::Manifest& manifest) {
    std::uint64_t at = 0;
    dcp::encode_manifest(manifest, [&](std::string_view piece) {
      file.write(at, as_bytes(piece));
      at += piece.size();
    });
  }

  dcp::Manifest manifest_of(const std::vector<std::vector<WrittenItem>>& written) const {
    dcp::Manifest manifest;
    for (std::size_t rank = 0; rank < written.size(); ++rank) {
      std::optional<std::uint32_t> file;
      for (std::size_t i = 0; i < written[rank].size(); ++i) {
        const std::uint32_t number = whole_->parts[rank].items()[i].file;
        if (file != number)
          manifest.files.push_back({dcp::shard_name(static_cast<int>(rank), first_index_ + number), {}});
        file = number;
        const auto [byte_offset, byte_length, crc] = written[rank][i];
        manifest.files.back().items.push_back({byte_offset, byte_length, crc});
      }
    }
    return manifest;
  }

  static Bytes encode_summary(const SaveReport& report) {
    ByteWriter out;
    for (const std::uint64_t number : {report.tensors, report.objects, report.files, report.written_bytes})
      out.write(number);
    for (const std::string& warning : report.warnings) out.counted_text(warning);
    return out.take();
  }

  static void decode_summary(std::span<const std::byte> bytes, SaveReport& report) {
    ByteReader in(bytes, "summary of a save");
    for (std::uint64_t* number : {&report.tensors, &report.objects, &report.files, &report.written_bytes})
      *number = in.read<std::uint64_t>();
    report.warnings.clear();
    while (!in.at_end()) report.warnings.emplace_back(in.counted_text());
  }

  Communicator& comm_;
  FileSystem& files_;
  const LiveState& state_;
  const std::string& directory_;
  const SaveOptions& options_;
  std::shared_ptr<const SavePlan> part_;
  std::shared_ptr<const GlobalSavePlan> whole_;  // on the coordinator
  std::optional<dcp::DirectoryOutput> output_;   // likewise
  std::uint32_t first_index_ = 0;
  std::vector<NewFile> new_files_;  // goes before the lock does
  std::vector<WrittenItem> written_;
};

// The largest of all ranks' peaks, and rank 0's seconds.
void share_figures(Communicator& comm, Clock::time_point start, SaveReport& report) {
  ByteWriter mine;
  mine.write(peak_rss_bytes());
  const auto all = comm.gather(mine.view(), 0);
  const Bytes figures = on_root("reporting", comm, 0, [&] {
    std::uint64_t peak = 0;
    for (const Bytes& one : all) peak = std::max(peak, ByteReader(one, "peak").read<std::uint64_t>());
    ByteWriter out;
    out.write(peak);
    out.write(report.plan_s);
    out.write(seconds_since(start));
    return out.take();
  });
  ByteReader in(figures, "figures of a save");
  report.peak_rss_bytes = in.read<std::uint64_t>();
  report.plan_s = in.read<double>();
  report.seconds = in.read<double>();
}

}  // namespace

struct Saver::Plans {
  PlanCache<SavePlan> parts;
  PlanCache<GlobalSavePlan> wholes;
};

Saver::Saver(Communicator& comm, FileSystem& files)
    : comm_(comm.duplicate()), files_(files), plans_(std::make_unique<Plans>()) {}

Saver::~Saver() = default;

SaveReport Saver::save(const LiveState& state, const std::string& directory, const SaveOptions& options) {
  const auto start = Clock::now();
  SaveReport report;
  report.path = directory;
  SaveRun run(*comm_, files_, state, directory, options);
  run.require_equal_arguments();
  run.plan(plans_->parts, plans_->wholes, report);
  run.check_replicas();
  run.open_output();
  run.write_shards();
  run.publish(report);
  share_figures(*comm_, start, report);
  return report;
}

SaveReport save(Communicator& comm, FileSystem& files, const LiveState& state, const std::string& directory,
                const SaveOptions& options) {
  return Saver(comm, files).save(state, directory, options);
}

}  // namespace cairn
