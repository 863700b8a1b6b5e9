// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "checkpoint/consolidate_report.hpp"
#include "checkpoint/consolidated_state.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/destination.hpp"
#include "checkpoint/dry_run.hpp"
#include "checkpoint/output_requests.hpp"
#include "checkpoint/planned_outputs.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/run_watch.hpp"
#include "checkpoint/small_file.hpp"
#include "checkpoint/source_access.hpp"
#include "checkpoint/visibility.hpp"
#include "engine/kernel_copy.hpp"
#include "engine/storage_crc.hpp"
#include "engine/transfer.hpp"
#include "formats/dcp/source.hpp"
#include "formats/dcp/structure.hpp"
#include "parallel/agree.hpp"
#include "plan/names/ema.hpp"
#include "plan/names/name_list.hpp"
#include "storage/atomic_outputs.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;
constexpr int kGatheringThreads = 8;  // they wait for other ranks more than they work

// What one rank did; gathered by the coordinator.
struct Share {
  std::uint64_t read_bytes = 0, peak_rss = 0;
  PassedBytes passed;
};

// What the coordinator knows of an output.
struct OutputOf {
  std::string file;
  ConsolidatedState state;
  std::optional<torch_file::Layout> objects_layout;
  std::size_t objects_index;  // in the set of files
};

class Consolidation {
 public:
  Consolidation(Communicator& comm, FileSystem& files, const ConsolidateOptions& options)
      : comm_(comm),
        watch_(comm, files, {options.progress, options.stall_timeout_s, options.stalled}),
        files_(watch_.files()),
        options_(options),
        begin_(std::chrono::steady_clock::now()),
        source_files_(comm, watch_, options.max_memory) {}

  template <class Body>
  auto guarded(Body body) {
    return watch_.guarded(body);
  }

  ConsolidateReport run() {
    plan();
    watch_.enter(RunPhase::copying);
    if (gather_)
      source_files_.run("copying", [&] { copy(); });
    else
      everywhere("copying", [&] { copy(); });
    watch_.end_copying();
    watch_.enter(RunPhase::syncing);
    everywhere("writing out", [&] { close(); });
    watch_.enter(RunPhase::publishing);
    const auto shares = comm_.gather(encode_share(), kRoot);
    const Bytes report = source_files_.on_coordinator("publishing", [&] { return publish(shares); });
    watch_.enter(RunPhase::leaving);
    return decode_consolidate_report(report);
  }

  DryRunReport run_dry() {
    dry_.emplace();
    plan();
    DryRunRank mine;
    const auto measure = [&] { measure_reading(*source_, *planned_, owned_windows(), threads_, mine); };
    if (gather_)
      source_files_.run("measuring", measure);
    else
      everywhere("measuring", measure);
    const auto ranks = comm_.gather(encode(mine), kRoot);
    on_all_ranks("telling the plan", comm_, [&] {
      if (is_root()) tell_ranks(ranks);
    });
    return std::move(*dry_);
  }

 private:
  void plan() {
    on_all_ranks("checking the options", comm_, [&] { check_options(); });
    find_source_files();
    watch_.enter(RunPhase::planning);
    const Bytes message = source_files_.on_coordinator("preparing", [&] { return prepare(); });
    everywhere("opening the output", [&] { open(message); });
  }

  void everywhere(std::string_view step, const std::function<void()>& body) {
    on_all_ranks(step, comm_, [&] { watch_.work(body); });
  }

  bool is_root() const { return comm_.rank() == kRoot; }
  bool by_kernel() const { return options_.copy == CopyMode::kernel; }
  bool verify_source() const { return options_.verify_source && !by_kernel(); }

  void check_options() {
    if (!std::has_single_bit(options_.alignment) || options_.alignment < 64 || options_.alignment > 32768) {
      fail(ErrorKind::invalid_argument, "an alignment of {}: a power of two from 64 to 32768 is needed",
           options_.alignment);
    }
    requests_ = output_requests(options_);
    if (by_kernel() && (requests_.size() > 1 || !requests_[0].rules.casts.empty())) {
      fail(ErrorKind::invalid_argument, "the kernel copies into one output without casts only");
    }
    if (options_.write == WriteMode::gather) check_gather();
    threads_ = options_.threads > 0 ? options_.threads : default_threads(comm_.ranks_on_node());
    fit_threads(kBufferBytesPerThread);
  }

  void check_gather() const {
    if (!by_kernel()) return;
    throw Error(ErrorKind::invalid_argument, "the kernel copies where one rank sees source and output only",
                "--write gather goes with --copy user");
  }

  // As many threads as their buffers have room.
  void fit_threads(std::uint64_t bytes_per_thread) {
    const auto room = options_.max_memory / bytes_per_thread;
    if (room == 0) {
      fail(ErrorKind::invalid_argument, "a memory cap of {} bytes is too small: {} expected at least",
           options_.max_memory, bytes_per_thread);
    }
    threads_ = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(threads_), room));
  }

  // --- all ranks: where the source is, and who reads it ----------------------------------------------------
  void find_source_files() {
    const SourceSite site = find_source(comm_, watch_, options_.source);
    plan_.directory = site.directory;
    source_files_.assign(site.directory, {site.metadata});
    source_files_.run("reading the metadata", [&] { read_metadata(); });
    watch_.enter(RunPhase::looking);
    ShardSites sites =
        find_shards(comm_, watch_, &metadata_.catalog,
                    {site.directory, options_.write, options_.visibility_timeout_s, options_.note});
    gather_ = sites.gather;
    source_files_.assign(site.directory, gather_ ? std::move(sites.files) : std::vector<GatheredFile>());
    for (const auto& note : {site.note, sites.note}) {
      if (!note.empty()) report_.warnings.push_back(note);
    }
  }

  // --- coordinator: everything that can be refused is refused before a tensor byte is read ----------------
  void read_metadata() {
    FileSystem& files = source_files_.files();
    const std::string file =
        choose_destination(files, plan_.directory, options_.destination, options_.overwrite);
    complete_requests(files, file, requests_);
    metadata_ = dcp::decode_metadata_file(files, plan_.directory, faults_);
  }

  Bytes prepare() {
    if (gather_) check_gather();
    FileSystem& files = source_files_.files();
    dcp::check_structure(files, plan_.directory, metadata_.catalog, faults_);
    faults_.throw_if_any(plan_.directory);
    report_.warnings.insert(report_.warnings.end(), metadata_.notes.begin(), metadata_.notes.end());
    source_.emplace(files, plan_.directory, std::move(metadata_.catalog));
    plan_outputs(metadata_.metadata_bytes);
    planned_.emplace(plan_, source_->catalog());
    create_outputs();
    return comm_.size() > 1 && !gather_ ? plan_.encode(source_->catalog()) : Bytes();
  }

  void plan_outputs(std::uint64_t metadata_bytes) {
    const bool all_as_is = requests_.size() == 1 && requests_[0].keeps_all();
    std::optional<NamedEntries> entries;
    if (!all_as_is) entries.emplace(source_->catalog());
    if (options_.ema) warn_of_gaps(find_ema_gaps(entries->all()));
    for (const OutputRequest& request : requests_) {
      std::optional<OutputCatalog> chosen;
      if (!request.keeps_all()) {
        chosen = apply_rules(source_->catalog(), *entries, request.rules, !options_.flat);
        warn_of_map(request, *chosen);
      }
      plan_output(request.file, chosen ? &*chosen : nullptr, metadata_bytes);
    }
  }

  void plan_output(const std::string& file, const OutputCatalog* chosen, std::uint64_t metadata_bytes) {
    auto state = consolidate_state(*source_, chosen, options_, file, metadata_bytes);
    report_.warnings.insert(report_.warnings.end(), state.warnings.begin(), state.warnings.end());
    if (outputs_of_.empty()) report_.skipped = std::move(state.skipped);
    if (dry_) tell_output(file, state, chosen);
    plan_.outputs.push_back({{},
                             zip::archive_name(file),
                             options_.alignment,
                             state.main.pickle.size(),
                             std::move(state.main.storages)});
    outputs_of_.push_back({file, std::move(state), {}, 0});
  }

  void warn_of_gaps(const EmaGaps& gaps) {
    const auto warn = [&](const std::vector<std::string>& names, std::string_view counterpart) {
      if (names.empty()) return;
      report_.warnings.push_back(fmt::format("no {} for {}", counterpart, list_names(names)));
    };
    warn(gaps.without_net, "'net.' counterpart");
    warn(gaps.without_ema, "'net_ema.' counterpart");
  }

  void warn_of_map(const OutputRequest& request, const OutputCatalog& chosen) {
    if (chosen.unused_map_names.empty()) return;
    report_.warnings.push_back(fmt::format("{}: nothing is called {}", escape_name(request.map_file),
                                           list_names(chosen.unused_map_names)));
  }

  // The main output comes first in the set: it appears last.
  void create_outputs() {
    std::vector<AtomicOutputs::Wanted> wanted;
    for (std::size_t i = 0; i < outputs_of_.size(); ++i) {
      if (i > 0)
        check_output(source_files_.files(), plan_.directory, outputs_of_[i].file, options_.overwrite);
      wanted.push_back({outputs_of_[i].file, planned_->layout(i).file_size()});
    }
    for (OutputOf& output : outputs_of_) want_objects(output, wanted);
    WantedRoom room;
    if (dry_) return check_outputs(wanted, room);
    for (const auto& [path, size] : wanted) prepare_directory(files_, path, size, options_.overwrite, room);
    outputs_.emplace(AtomicOutputs::create(files_, wanted, options_.overwrite));
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i)
      plan_.outputs[i].temporary_path = (*outputs_)[i].temporary_path();
  }

  void want_objects(OutputOf& output, std::vector<AtomicOutputs::Wanted>& wanted) {
    const std::string file = objects_path_for(output.file);
    if (output.state.unsafe_objects) {
      check_output(source_files_.files(), plan_.directory, file, options_.overwrite);
      const FileState& objects = *output.state.unsafe_objects;
      output.objects_layout.emplace(zip::archive_name(file), objects.pickle.size(),
                                    record_bytes(objects.storages), options_.alignment);
      output.objects_index = wanted.size();
      wanted.push_back({file, output.objects_layout->file_size()});
    } else if (options_.objects == ObjectPolicy::safe && files_.status(file)) {
      report_.warnings.push_back(
          fmt::format("{}: left as it is; no object of this checkpoint needs it", escape_name(file)));
    }
  }

  // --- all ranks ------------------------------------------------------------------------------------------
  void open(const Bytes& message) {
    if (gather_ && !is_root()) return;
    if (gather_ && options_.threads == 0) threads_ = std::max(threads_, kGatheringThreads);
    if (!is_root()) {
      Catalog catalog;
      plan_ = ConsolidationPlan::decode(message, catalog);
      source_.emplace(files_, plan_.directory, std::move(catalog));
      planned_.emplace(plan_, source_->catalog());
    }
    fit_threads(kBufferBytesPerThread + planned_->writer_bytes());
    if (!dry_) planned_->open(files_, options_.visibility_timeout_s);
  }

  ByteRange owned_windows() const { return planned_->owned_windows(comm_.rank(), writing_ranks()); }
  int writing_ranks() const { return gather_ ? 1 : comm_.size(); }

  void copy() {
    const Windows windows(planned_->window_layout().region(), kWindowBytes);
    const ByteRange owned = owned_windows();
    watch_.begin_copying(
        owned.size() == 0 ? 0 : windows.at(owned.end - 1).end - windows.at(owned.begin).begin,
        planned_->window_layout().region().size());
    TransferOptions transfer_options{
        threads_, verify_source(), by_kernel() ? &planned_->file(0) : nullptr, {}};
    transfer_options.progress = [&](std::uint64_t done) { watch_.moved(done); };
    share_.passed = transfer(*source_, planned_->window_layout(), planned_->contents(), windows, owned,
                             planned_->make_writer(), transfer_options);
  }

  void close() {
    if (planned_) planned_->close(options_.sync);
    if (source_) share_.read_bytes = source_->read_bytes();
    share_.peak_rss = peak_rss_bytes();
  }

  Bytes encode_share() const {
    ByteWriter out;
    out.write(share_.read_bytes);
    out.write(share_.peak_rss);
    out.write(share_.passed.verified_bytes);
    const auto written = encode_pieces(share_.passed.written);
    out.write<std::uint64_t>(written.size());
    out.append(written);
    out.append(encode_pieces(share_.passed.read));
    return out.take();
  }

  // --- coordinator: a dry run -----------------------------------------------------------------------------
  void tell_output(const std::string& file, const ConsolidatedState& state, const OutputCatalog* chosen) {
    dry_->outputs.push_back({file, 0, 0, dry_run_entries(state.main, source_->catalog(), chosen)});
    if (!state.unsafe_objects) return;
    dry_->outputs.push_back(
        {objects_path_for(file), 0, 0, dry_run_entries(*state.unsafe_objects, source_->catalog(), chosen)});
  }

  void check_outputs(const std::vector<AtomicOutputs::Wanted>& wanted, WantedRoom& room) {
    std::vector<DryRunOutput*> outputs;  // as wanted
    for (const auto& [path, size] : wanted) {
      DryRunOutput& output = *std::ranges::find(dry_->outputs, path, &DryRunOutput::path);
      output.bytes = size;
      output.free_bytes = check_directory(files_, path, size, options_.overwrite, room);
      outputs.push_back(&output);
    }
    const auto places = AtomicOutputs::check(files_, wanted, options_.overwrite);
    for (std::size_t i = 0; i < places.size(); ++i) outputs[i]->path = places[i];
  }

  void tell_ranks(const std::vector<Bytes>& measured) {
    dry_->gather = gather_;
    dry_->skipped = std::move(report_.skipped);
    dry_->warnings = std::move(report_.warnings);
    dry_->files = dry_run_files(source_->catalog(), dry_->outputs, source_files_.gathered());
    dry_->ranks = dry_run_ranks(measured, *planned_, writing_ranks(), dry_->files);
  }

  // --- coordinator: the closing phase ---------------------------------------------------------------------
  Bytes publish(const std::vector<Bytes>& shares) {
    std::vector<CrcPiece> written, read;
    const auto append = [](std::vector<CrcPiece>& to, std::span<const std::byte> encoded) {
      const auto pieces = decode_pieces(encoded);
      to.insert(to.end(), pieces.begin(), pieces.end());
    };
    for (const Bytes& bytes : shares) {
      ByteReader in(bytes, "share");
      report_.read_bytes += in.read<std::uint64_t>();
      report_.peak_rss_bytes = std::max(report_.peak_rss_bytes, in.read<std::uint64_t>());
      report_.verified_bytes += in.read<std::uint64_t>();
      append(written, in.bytes(in.read<std::uint64_t>()));
      append(read, in.bytes(in.remaining()));
    }
    compare_storages(*source_, std::move(read), report_.verified_bytes);
    const auto crcs = record_crcs(std::move(written), planned_->crc_bytes());
    if (verify_source()) compare_copied_bytes(crcs);
    for (std::size_t i = 0; i < outputs_of_.size(); ++i) finish_output(i, planned_->crcs_of(i, crcs));
    outputs_->publish(options_.sync);
    std::ranges::for_each(report_.outputs, [this](const OutputReport& output) { check_published(output); });
    report_.ranks = comm_.size();
    report_.threads = threads_;
    report_.synced = options_.sync;
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return encode_report(report_);
  }

  void finish_output(std::size_t index, const std::vector<std::uint32_t>& crcs) {
    write_closing(index, crcs);
    const OutputOf& output = outputs_of_[index];
    report_output(index, planned_->layout(index).file_size(), output.state.main);
    if (output.state.unsafe_objects) write_objects(output);
  }

  void report_output(std::size_t index, std::uint64_t bytes, const FileState& state) {
    report_.outputs.push_back({(*outputs_)[index].final_path(), bytes, state.tensors, state.objects});
    report_.written_bytes += bytes;
  }

  void write_objects(const OutputOf& output) {
    const auto& objects = *output.state.unsafe_objects;
    const auto read_before = source_->read_bytes();
    const auto file = files_.open_write((*outputs_)[output.objects_index].temporary_path());
    write_small_file(*file, *output.objects_layout, objects.pickle, objects.storages, *source_);
    if (options_.sync) file->sync();
    file->close();
    report_.read_bytes += source_->read_bytes() - read_before;
    report_output(output.objects_index, output.objects_layout->file_size(), objects);
  }

  void write_closing(std::size_t index, const std::vector<std::uint32_t>& crcs) {
    const torch_file::Layout& layout = planned_->layout(index);
    const auto& pickle = outputs_of_[index].state.main.pickle;
    const auto file = files_.open_write(plan_.outputs[index].temporary_path);
    file->write(0, layout.head(pickle));
    for (const std::uint64_t record : records_without_back(index)) {
      const ByteRange extent = layout.extent(record), payload = layout.payload(record);
      Bytes back(extent.end - payload.end);
      layout.write_back(record, crcs[record], back);
      file->write(payload.end, back);
    }
    std::uint64_t at = layout.region().end;
    layout.write_tail(pickle, crcs, [&](std::span<const std::byte> bytes) {
      file->write(at, bytes);
      at += bytes.size();
    });
    if (options_.sync) file->sync();
    file->close();
  }

  // Those that more than one window holds, and those whose payload the kernel copied.
  std::vector<std::uint64_t> records_without_back(std::size_t index) const {
    auto records = planned_->split_records(index);
    for (std::uint64_t record = 0; by_kernel() && record < plan_.outputs[index].contents.size(); ++record) {
      if (is_for_kernel(plan_.outputs[index].contents[record])) records.push_back(record);
    }
    return records;
  }

  // Storages inside objects are copied as they are: what was written must have the CRC of the source.
  void compare_copied_bytes(const std::vector<std::uint32_t>& crcs) {
    for (std::size_t i = 0; i < planned_->contents().size(); ++i) {
      const RecordContent& content = planned_->contents()[i];
      if (content.is_tensor || content.crc == 0) continue;
      if (crcs[i] != content.crc) {
        fail_corrupt(
            "{} at byte {}: {} bytes of a storage inside an object have CRC-32 {:08x}, {:08x} expected",
            escape_name(source_->catalog().files()[content.file]), content.byte_offset, content.bytes,
            crcs[i], content.crc);
      }
      report_.verified_bytes += content.bytes;
    }
  }

  // Success must mean that the file is there.
  void check_published(const OutputReport& output) const {
    const auto status = files_.status(output.path);
    if (status && status->size == output.bytes) return;
    fail(ErrorKind::io, "{}: {} bytes found after publishing, {} expected", output.path,
         status ? status->size : 0, output.bytes);
  }

  Communicator& comm_;
  RunWatch watch_;  // before all that it watches
  FileSystem& files_;
  const ConsolidateOptions& options_;
  const std::chrono::steady_clock::time_point begin_;
  int threads_ = 1;
  SourceAccess source_files_;
  bool gather_ = false;

  ConsolidationPlan plan_;
  std::optional<dcp::DirectorySource> source_;
  std::optional<PlannedOutputs> planned_;
  Share share_;

  // the coordinator's
  FaultList faults_;
  dcp::DecodedMetadata metadata_;
  std::vector<OutputRequest> requests_;
  std::vector<OutputOf> outputs_of_;  // as plan_.outputs
  std::optional<AtomicOutputs> outputs_;
  ConsolidateReport report_;
  std::optional<DryRunReport> dry_;  // on all ranks: nothing is to be made
};

}  // namespace

ConsolidateReport consolidate(Communicator& comm, FileSystem& files, const ConsolidateOptions& options) {
  Consolidation consolidation(comm, files, options);
  return consolidation.guarded([&] { return consolidation.run(); });
}

DryRunReport dry_run_consolidate(Communicator& comm, FileSystem& files, const ConsolidateOptions& options) {
  Consolidation consolidation(comm, files, options);
  return consolidation.guarded([&] { return consolidation.run_dry(); });
}

double DryRunReport::seconds() const {
  double longest = 0;
  for (const DryRunRank& rank : ranks) longest = std::max(longest, rank.predicted_s);
  return longest;
}

}  // namespace cairn
